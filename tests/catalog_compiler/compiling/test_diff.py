"""What changed between two catalogs: nothing is missed, nothing is made up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.diff import MAX_CHANGES, FieldChange, diff_tools, schema_changes
from catalog_compiler.likeness import Neighbours, argument_names, closest_pairs, tool_words

from .conftest import TOOLS, make_tool

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


def shuffled(value: Any) -> Any:
    """Turn the order of keys round at every level."""
    if isinstance(value, dict):
        return {key: shuffled(part) for key, part in reversed(value.items())}
    return [shuffled(part) for part in value] if isinstance(value, list) else value


@given(json_values)
def test_equal_schemas_have_no_changes(value: Any) -> None:
    """Neither the same value nor another order of keys is a change."""
    assert schema_changes(value, json.loads(json.dumps(value))) == []
    assert schema_changes(value, shuffled(value)) == []


@given(json_values, json_values)
def test_changes_are_found_and_point_at_the_place(before: Any, after: Any) -> None:
    """There is a change exactly where the values differ, and its pointer leads to both."""
    changes = schema_changes(before, after)
    assert bool(changes) == (
        json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    )
    for change in changes:
        if change.kind != "added":
            assert follow(before, change.pointer) == change.before
        if change.kind != "removed":
            assert follow(after, change.pointer) == change.after


def follow(value: Any, pointer: str) -> Any:
    """Follow a JSON pointer."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def test_schema_changes_by_hand() -> None:
    """Required lists are one change; a property added, removed and altered has its pointer."""
    before = {
        "properties": {"a": {"type": "string"}, "b/c": {"type": "number"}},
        "required": ["a"],
        "anyOf": [{"x": 1}, {"x": True}],
    }
    after = {
        "properties": {"a": {"type": "integer"}, "d": {}},
        "required": ["a", "d"],
        "anyOf": [{"x": 1}, {"x": 1}, {"x": None}],
    }
    assert schema_changes(before, after) == [
        FieldChange("input_schema", "/properties/a/type", "changed", "string", "integer"),
        FieldChange("input_schema", "/properties/b~1c", "removed", {"type": "number"}, None),
        FieldChange("input_schema", "/properties/d", "added", None, {}),
        FieldChange("input_schema", "/required", "changed", ["a"], ["a", "d"]),
        FieldChange("input_schema", "/anyOf/1/x", "changed", True, 1),
        FieldChange("input_schema", "/anyOf/2", "added", None, {"x": None}),
    ]


def test_deep_and_wide_schemas_are_bounded() -> None:
    """Nesting beyond the interpreter's stack and thousands of changes do no harm."""
    deep: Any = 1
    other: Any = 2
    for _ in range(20_000):
        deep, other = {"d": deep}, {"d": other}
    assert schema_changes(deep, other)[0].pointer == "/d" * 20_000
    wide = {str(number): number for number in range(10_000)}
    assert len(schema_changes(wide, {})) == MAX_CHANGES
    for value in (deep, other):
        part = value
        while isinstance(part, dict):  # taken apart, which a recursive destructor could not do
            part = part.pop("d")


def test_no_difference() -> None:
    """Where a tool was read from is no difference."""
    moved = [replace(tool, source="elsewhere", pointer="/x") for tool in reversed(TOOLS)]
    assert diff_tools(TOOLS, moved).empty
    assert diff_tools([], []).empty


def test_every_kind_of_change() -> None:
    """Added, removed, renamed by alias and by definition, and changed are told apart."""
    kettle, twice, lamp, train, weather = TOOLS
    after = [
        kettle,
        replace(twice, name="boil_again"),
        replace(lamp, name="light", aliases=("lamp_on",), description="Something else entirely."),
        replace(weather, description="Nur für heute.", tags=("x",)),
        make_tool("garden_mow", "Mows the lawn behind the house."),
    ]
    difference = diff_tools(TOOLS, after)
    assert difference.added == ("garden_mow",)
    assert difference.removed == (train.name,)
    assert [(r.before, r.after, r.reason) for r in difference.renamed] == [
        ("kettle_boil_twice", "boil_again", "same definition"),
        ("lamp_on", "light", "alias"),
    ]
    assert [change.field for change in difference.renamed[1].changes] == ["description", "aliases"]
    (changed,) = difference.changed
    assert changed.before == weather.name
    assert [change.field for change in changed.changes] == ["description", "tags"]
    assert json.loads(json.dumps(difference.to_record()))["removed"] == ["train_book"]


def test_a_similar_tool_counts_as_renamed_and_a_different_one_does_not() -> None:
    """Most words in common make a rename; the name alone does not."""
    before = [make_tool("seed_list", "Lists every kind of seed that is in the drawer by name.")]
    similar = [make_tool("list_seeds", "Lists each kind of seed that is in the drawer by name.")]
    different = [make_tool("seed_list2", "Orders a tractor.")]
    (renamed,) = diff_tools(before, similar).renamed
    assert renamed.reason == "similar"
    assert 0.6 <= renamed.likeness < 1
    assert diff_tools(before, different).renamed == ()


def test_each_tool_is_renamed_once() -> None:
    """Of several equal candidates each is taken once, whatever their order."""
    before = [make_tool(f"old_{n}", "Waters the roses in the garden.") for n in range(3)]
    after = [make_tool(f"new_{n}", "Waters the roses in the garden.") for n in range(2)]
    difference = diff_tools(before, after)
    assert len(difference.renamed) == 2
    assert len({change.after for change in difference.renamed}) == 2
    assert len(difference.removed) == 1
    assert difference == diff_tools(before[::-1], after[::-1])


def test_words_of_a_tool() -> None:
    """Names are split at humps and underscores; nested arguments count."""
    schema = {
        "properties": {"seedName": {"properties": {"latin": {}}}},
        "anyOf": [{"properties": 3}],
    }
    tool = make_tool("getSeed_byName", "Für Ärzte.", input_schema=schema)
    assert argument_names(schema) == ["seedName", "latin"]
    assert tool_words(tool) == {"get", "seed", "by", "name", "für", "ärzte", "latin"}


def test_closest_pairs() -> None:
    """The two kettles are closest; a lone tool has no pair."""
    pairs = closest_pairs(TOOLS, 3)
    assert pairs[0][1:] == (0, 1)
    assert closest_pairs(TOOLS[:1], 3) == []
    assert closest_pairs([], 3) == []


def test_crowds_of_equal_tools_stay_bounded() -> None:
    """Words that all tools share propose no neighbours."""
    crowd = [make_tool(f"x{n}", "the same words for all") for n in range(3_000)]
    assert Neighbours(crowd).nearest(tool_words(make_tool("y", "the same words"))) == []
