"""A schema in short, whatever it looks like."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from router.arguments.parameters import Parameters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "required", "a"]
            ),
            below | st.sampled_from(["#", "#/properties/a", "#/a/0", "elsewhere#/x"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


def test_a_parameter_is_told_in_short() -> None:
    """Types, choices, format, default, description; in the schema's order."""
    schema = {
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": {"type": "string", "format": "email", "description": "Whom"},
            "size": {"enum": ["A4", "A5"], "default": "A4", "title": "Paper"},
            "kind": {"const": "letter"},
        },
    }
    to, size, kind = Parameters(schema).top
    assert (to.key, to.required, to.types, to.text_format) == ("to", True, ("string",), "email")
    assert (size.required, size.choices, size.defaults) == (False, ("A4", "A5"), ("A4",))
    assert (to.description, size.description, kind.choices) == ("Whom", "Paper", ("letter",))


def test_references_and_alternatives_are_laid_together() -> None:
    """As one parameter; its members too."""
    schema: dict[str, Any] = {
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "allOf": [{"required": ["where"]}],
        "properties": {
            "where": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "string"}]},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
    }
    parameters = Parameters(schema)
    where, lines = parameters.top
    assert (where.required, where.types) == (True, ("object", "string")) or where.types == (
        "string",
        "object",
    )
    assert [member.key for member in parameters.members(where)] == ["city"]
    assert parameters.items(lines).types == ("integer",)


def test_a_schema_that_leads_back_to_itself_ends() -> None:
    """Its steps are bounded, and its members can still be read one level at a time."""
    schema = {"properties": {"next": {"$ref": "#"}, "loop": {"$ref": "#/properties/loop"}}}
    parameters = Parameters(schema)
    following, loop = parameters.top
    assert [member.key for member in parameters.members(following)] == ["next", "loop"]
    assert loop.types == ()


@given(JSON)
def test_any_schema_can_be_read(schema: Any) -> None:
    """Nonsense has no parameters, or odd ones; it raises nothing."""
    parameters = Parameters(schema)
    for each in parameters.top:
        parameters.members(each)
        parameters.items(each)
