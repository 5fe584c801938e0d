"""What a request does not speak of is closed, at every depth, and something is always left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema
from router.arguments.narrowing import MAX_DEPTH, Narrowed, narrowed
from router.arguments.parameters import Parameter, Parameters
from tests.catalog_compiler.arguments.invariants import check
from tests.catalog_compiler.arguments.test_schema_random import AGAIN, SCHEMAS, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

COLOUR = {"enum": ["red", "blue"]}
LABEL = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "colour": COLOUR, "why": {"type": "string"}},
    "required": ["name"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "body": {"type": "string"},
        "labels": {"type": "array", "items": LABEL},
        "first": LABEL,
        "either": {"anyOf": [LABEL, {"type": "string"}]},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["title", "first", "either", "labels", "tree"],
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/tree"}, "leaf": {"type": "string"}},
        }
    },
}


def narrow(schema: dict[str, Any], *spoken: str) -> Narrowed:
    return told(schema, *spoken)[0]


def told(schema: dict[str, Any], *spoken: str) -> tuple[Narrowed, set[str]]:
    """Narrow, and name by their paths what was closed and has nothing closed above it."""
    grammar = compile_schema(schema, root_object=True, close_objects=True).grammar
    assert grammar is not None
    parameters = Parameters(schema)
    left = narrowed(grammar, parameters, lambda parameter: parameter.key in spoken)

    def below(parent: Parameter, prefix: str, depth: int) -> Iterator[str]:
        for member in parameters.members(parent):
            path = prefix + member.key
            if member in left.closed:
                yield path
            elif depth < MAX_DEPTH:
                yield from below(member, f"{path}.", depth + 1)
                yield from below(parameters.items(member), f"{path}[].", depth + 1)

    return left, set(below(parameters.arguments, "", 1))


def test_members_are_closed_at_every_depth() -> None:
    """In objects, in items, in alternatives; required ones never."""
    left, paths = told(SCHEMA, "colour")
    expected = {"body", "labels[].why", "first.why", "either.why", "tree.left", "tree.leaf"}
    assert paths == expected
    value = {
        "title": "t",
        "labels": [{"name": "n", "colour": "red"}],
        "first": {"name": "n"},
        "either": "x",
        "tree": {},
    }
    assert accepts(left.grammar, value)
    for spoilt in (
        {**value, "body": "b"},
        {**value, "first": {"name": "n", "why": "w"}},
        {**value, "labels": [{"name": "n", "why": "w"}]},
        {**value, "either": {"name": "n", "why": "w"}},
        {**value, "tree": {"leaf": "l"}},
    ):
        assert not accepts(left.grammar, spoilt)
    check(left.grammar)


def test_recursion_is_narrowed_to_a_bounded_depth() -> None:
    """A tree of which only branches are spoken of has no leaf, as deep as one looks."""
    left = narrow(SCHEMA, "left")
    tree: dict[str, Any] = {"leaf": "deep"}
    for depth in range(1, 8):
        value = {"title": "t", "labels": [], "first": {"name": "n"}, "either": "x", "tree": tree}
        assert accepts(left.grammar, value) is (depth > 3)
        tree = {"left": tree}


def test_all_stay_open_where_too_few_would_be_left() -> None:
    """The schema asks for two members and has no others."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "minProperties": 2,
        "additionalProperties": False,
    }
    assert narrow(schema).closed == frozenset()
    assert told({**schema, "minProperties": 1}, "a")[1] == {"b"}


def test_free_keys_do_not_stand_in_for_members() -> None:
    """One free key is possible where two members are asked for."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "patternProperties": {"^x$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 2,
    }
    left = narrow(schema)
    assert left.closed == frozenset()
    assert accepts(left.grammar, {"a": "1", "b": "2"})


def test_nothing_to_close_changes_nothing() -> None:
    """The very same grammar, so that the catalog's own tables serve."""
    grammar = compile_schema(LABEL, root_object=True).grammar
    assert grammar is not None
    assert narrowed(grammar, Parameters(LABEL), lambda _: True).grammar is grammar


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, AGAIN, st.sets(st.sampled_from("abc")))
def test_what_is_left_is_less_and_never_nothing(
    schema: dict[str, Any], again: Any, spoken: set[str]
) -> None:
    """Whatever it accepts the whole one accepts, and its invariants hold."""
    schema = {**schema, "$defs": {"again": again}}
    grammar = compile_schema(schema).grammar
    if grammar is None:
        return
    left = narrowed(grammar, Parameters(schema), lambda parameter: parameter.key in spoken)
    check(left.grammar)
    for value in VALUES:
        assert accepts(grammar, value) or not accepts(left.grammar, value)


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}])
def test_no_members_are_no_matter(schema: dict[str, Any]) -> None:
    """An object of anything, and one of nothing."""
    assert narrow(schema).closed == frozenset()


def test_each_place_is_visited_once() -> None:
    """Thirty members that lead back to the same thirty, four levels deep, and wide levels."""
    count = 30
    properties = {f"field{place}": {"$ref": "#"} for place in range(count)}
    schema = {"type": "object", "properties": properties}
    grammar = compile_schema(schema, root_object=True, close_objects=True).grammar
    assert grammar is not None
    asked: list[str] = []

    def spoken_of(parameter: Parameter) -> bool:
        asked.append(parameter.key)
        return parameter.key != "field7"

    left = narrowed(grammar, Parameters(schema), spoken_of)
    assert sorted(asked) == sorted(properties)
    assert len(left.grammar.nodes) <= MAX_DEPTH + len(grammar.nodes)
    assert accepts(left.grammar, {"field1": {"field2": {"field3": {"field4": {"field7": {}}}}}})
    assert not accepts(left.grammar, {"field1": {"field2": {"field3": {"field7": {}}}}})
