"""Random schemas and values: the grammar against the standard validator."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema, validator
from tests.catalog_compiler.arguments.invariants import check

KEYS = st.sampled_from("abc")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([0.5, 1.0, 1.5, -2.25]),
    st.sampled_from(["", "a", "b", "ab", "abc", "aa", "x1"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(KEYS, below, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
PATTERNS = st.sampled_from(["a", "^a", "b$", "^[ab]*$", "^.$", "^(aa|b)+$"])
SMALL = st.integers(0, 3)
BOUND = st.one_of(st.integers(-2, 4), st.sampled_from([0.5, 1.5]))


def keywords(below: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas of a few keywords."""
    some = st.lists(below, min_size=1, max_size=3)
    names = st.lists(KEYS, max_size=2, unique=True)
    makes: dict[str, st.SearchStrategy[Any]] = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "pattern": PATTERNS,
        "multipleOf": st.sampled_from([1, 2, 0.5, 3, 1.5]),
        "uniqueItems": st.booleans(),
        "prefixItems": some,
        "properties": st.dictionaries(KEYS, below, max_size=3),
        "required": names,
        "patternProperties": st.dictionaries(PATTERNS, below, max_size=2),
        "dependentRequired": st.dictionaries(KEYS, names, max_size=2),
        "dependentSchemas": st.dictionaries(KEYS, below, max_size=1),
        **dict.fromkeys(("anyOf", "oneOf", "allOf"), some),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), BOUND),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), SMALL),
        **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), SMALL),
        **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames"), below),
        **dict.fromkeys(("not", "if", "then", "else"), below),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), below),
    }
    chosen = st.lists(st.sampled_from(sorted(makes)), max_size=4, unique=True)
    return chosen.flatmap(lambda each: st.fixed_dictionaries({key: makes[key] for key in each}))


SCHEMAS = keywords(
    st.recursive(
        st.one_of(
            st.booleans(),
            st.just({"$ref": "#/$defs/again"}),
            st.sampled_from([{"type": "string"}, {"type": "integer"}, {"required": ["a"]}]),
        ),
        keywords,
        max_leaves=8,
    )
)
AGAIN = st.sampled_from(
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/again"}}},
        {"type": ["array", "integer"], "items": {"$ref": "#"}},
        True,
    ]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, AGAIN, st.lists(VALUES, min_size=8, max_size=20))
def test_agrees_with_the_validator(schema: dict[str, Any], again: Any, values: list[Any]) -> None:
    """Every valid value is accepted; an invalid one only where something is checked after."""
    schema = {**schema, "$defs": {"again": again}}
    compiled = compile_schema(schema)
    grammar = compiled.grammar
    if grammar is not None:
        check(grammar)
    else:
        assert compiled.refusal is not None
        if compiled.refusal.code == "ref-loop":
            return
        assert compiled.refusal.code == "arguments-impossible"
    errors = validator(schema)
    for value in values:
        accepted = grammar is not None and accepts(grammar, value)
        try:
            valid = errors(value) == []
        except RecursionError:  # the validator follows a $ref that leads back to itself
            return
        if valid:
            assert accepted, (json.dumps(schema), value)
        elif not compiled.checked_after:
            assert not accepted, (json.dumps(schema), value)


@given(st.recursive(SCALARS, lambda below: st.one_of(
    st.lists(below, max_size=3),
    st.dictionaries(
        st.sampled_from(["type", "items", "anyOf", "$ref", "required", "enum", "pattern", "not",
                         "minimum", "properties", "$id", "$schema", "dependencies", "if"]),
        below, max_size=4,
    ),
), max_leaves=12))  # fmt: skip
def test_never_raises(schema: Any) -> None:
    """Whatever stands where a schema should is compiled or refused."""
    compiled = compile_schema(schema)
    assert (compiled.grammar is None) == (compiled.refusal is not None)
