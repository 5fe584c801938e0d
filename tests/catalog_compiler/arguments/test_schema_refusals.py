"""What refuses a tool's arguments, by name and place, and never by an exception."""

from __future__ import annotations

from typing import Any

import pytest

from catalog_compiler.arguments.schema import SchemaLimits, compile_schema
from catalog_compiler.arguments.schema.nesting import MAX_NESTING
from catalog_compiler.arguments.tables import ArgumentPool
from decoder.arguments import ArgumentTables
from decoder.arguments.depths import MAX_DEPTH
from decoder.arguments.facts import facts_of

BROAD = {
    "type": "object",
    "allOf": [
        {"anyOf": [{"required": [f"{group}{option}"]} for option in range(9)]}
        for group in "abcdefgh"
    ],
}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def chained(levels: int, **last: Any) -> dict[str, Any]:
    """Objects that each require the next one; as written they do not nest."""
    chain = {
        f"{level}": {
            "type": "object", "required": ["a"],
            "properties": {"a": {"$ref": f"#/$defs/{level + 1}"}},
        }
        for level in range(1, levels)
    }  # fmt: skip
    return {"$defs": {**chain, f"{levels}": {"type": "object", **last}}, "$ref": "#/$defs/1"}


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no schema": (5, "schema-malformed", ""),
    "false": (False, "arguments-impossible", ""),
    "contradiction": (
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        *("arguments-impossible", ""),
    ),
    "endless": (
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        *("arguments-impossible", ""),
    ),
    "too few keys": (
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 3},
        *("arguments-impossible", ""),
    ),
    "no number between": (
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        *("arguments-impossible", ""),
    ),
    "remote": (
        {"properties": {"a": {"$ref": "https://example.org/other.json#/x"}}},
        *("ref-remote", "/properties/a/$ref"),
    ),
    "no reference": ({"items": {"$ref": "//[/#"}}, "schema-malformed", "/items/$ref"),
    "no name": ({"$defs": {"a": {"$id": "x://["}}}, "schema-malformed", "/$defs/a/$id"),
    "a reference beside no name": ({"$id": "x://[", "$ref": "y"}, "schema-malformed", "/$id"),
    "nowhere": ({"items": {"$ref": "#/$defs/no"}}, "ref-unresolved", "/items/$ref"),
    "loop": ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "ref-loop", "/$defs/a"),
    "loop by anyOf": ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "ref-loop", ""),
    "unknown type": ({"items": {"type": "strnig"}}, "type-unknown", "/items/type"),
    "unknown dialect": ({"$schema": "https://example.org/mine"}, "dialect-unknown", "/$schema"),
    "minLength": ({"minLength": "3"}, "schema-malformed", "/minLength"),
    "required": ({"required": "a"}, "schema-malformed", "/required"),
    "properties": ({"properties": ["a"]}, "schema-malformed", "/properties"),
    "a property": ({"properties": {"a/b": 7}}, "schema-malformed", "/properties/a~1b"),
    "pattern": ({"pattern": "(a"}, "pattern-unsupported", "/pattern"),
    "no JSON": ({"enum": [1, float("inf")]}, "schema-malformed", "/enum"),
    "no string for a key": ({"properties": {1: {}}}, "schema-malformed", "/properties"),
    "too deep": (nested(100), "arguments-too-large", "/items" * 65),
    "a required chain": (chained(70), "arguments-too-deep", ""),
    "one more than may be open": (chained(65), "arguments-too-deep", ""),
    "deep by the free keys that there are": (
        chained(
            64,
            minProperties=2,
            propertyNames={"enum": ["b", "c"]},
            properties={"b": {"type": "object"}},
            patternProperties={"^c$": {"type": "array", "items": {}}},
            additionalProperties={"type": "integer"},
        ),
        *("arguments-too-deep", ""),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name: str) -> None:
    """The refusal names what is wrong and where, with a mend."""
    schema, code, pointer = REFUSED[name]
    compiled = compile_schema(schema)
    assert compiled.grammar is None
    assert compiled.refusal is not None
    assert (compiled.refusal.code, compiled.refusal.pointer) == (code, pointer)
    assert compiled.refusal.message
    assert compiled.refusal.mend


@pytest.mark.parametrize(
    "last",
    [
        {},
        # Enough keys have flat values, deep ones beside them.
        {"minProperties": 2, "patternProperties": {"^a": {"$ref": "#"}}},
        {"minProperties": 2, "properties": {"b": {}, "c": {}, "d": {"$ref": "#"}},
         "additionalProperties": False},
    ],
)  # fmt: skip
def test_as_deep_as_may_be_is_taken(last: dict[str, Any]) -> None:
    """64 containers within one another are not too many."""
    compiled = compile_schema(chained(MAX_NESTING, **last))
    assert (compiled.grammar is None, compiled.refusal) == (False, None)
    assert MAX_NESTING == MAX_DEPTH
    assert facts_of_root(compiled.grammar) == MAX_DEPTH


def facts_of_root(grammar: Any) -> int:
    pool = ArgumentPool()
    root = pool.add(grammar)
    return int(facts_of(ArgumentTables.from_arrays(pool.to_arrays())).depth[root])


@pytest.mark.parametrize("limit", ["nodes", "states", "depth", "schemas", "steps"])
def test_every_bound_refuses(limit: str) -> None:
    """A schema past any bound is refused as too large."""
    schema = {
        "properties": {
            "a": {"type": "string", "pattern": "abcdef"},
            "b": {"items": {"items": {"enum": [1, 2]}}},
        }
    }
    assert compile_schema(schema).grammar is not None
    compiled = compile_schema(schema, SchemaLimits(**{limit: 2}))
    assert compiled.refusal is not None
    assert compiled.refusal.code == "arguments-too-large"


def test_too_many_alternatives_are_left_to_the_check() -> None:
    """A product of alternatives is cut, and the cut is noted."""
    compiled = compile_schema(BROAD)
    assert compiled.grammar is not None
    assert {note.code for note in compiled.checked_after} == {"too-many-alternatives"}


def test_bounds_are_positive() -> None:
    """A bound of zero is refused when it is made."""
    with pytest.raises(ValueError, match=r"SchemaLimits\.steps is 0"):
        SchemaLimits(steps=0)
