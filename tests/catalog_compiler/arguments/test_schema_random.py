"""Random schemas and every small value: the grammar against the standard validator."""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations, product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema, validator
from tests.catalog_compiler.arguments.invariants import check

SCALARS: tuple[Any, ...] = (
    *(None, False, True, -2, 0, 1, 2, 3, 4, 5, 0.5, 1.5, -2.25),
    *("", "a", "b", "ab", "abc", "aa", "bb", "x1"),
)
FEW: tuple[Any, ...] = (1, 2, "a", None)
MEMBERS: tuple[Any, ...] = (*FEW, [1], {"a": 1})
VALUES: tuple[Any, ...] = (
    *SCALARS,
    *(list(items) for size in range(4) for items in product(FEW, repeat=size)),
    *([item, item] for item in ([], [1], {"a": 1})),
    *(
        dict(zip(keys, values, strict=True))
        for size in range(3)
        for keys in combinations("abc", size)
        for values in product(MEMBERS, repeat=size)
    ),
    *({"a": 1, "b": 2, "c": 1}, {"aa": 1, "x": 2}, {"a": {"a": {"a": 1}}}, [[1, ["a"]], {}]),
)
"""Every small value: what a wrong grammar tells apart wrongly is among them."""

KEYS = st.sampled_from("abc")
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
PATTERNS = st.sampled_from(["a", "^a", "b$", "^[ab]*$", "^.$", "^(aa|b)+$"])
SMALL = st.integers(0, 3)
BOUND = st.one_of(st.integers(-2, 4), st.sampled_from([0.5, 1.5]))
NAMES = st.lists(KEYS, max_size=2, unique=True)
ANYTHING = st.sampled_from(VALUES)


def keywords(
    below: st.SearchStrategy[Any], *, older: bool = False
) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas of a few keywords, mostly about one type of values."""
    some = st.lists(below, min_size=1, max_size=3)
    numbers: dict[str, st.SearchStrategy[Any]] = {
        "multipleOf": st.sampled_from([1, 2, 0.5, 3, 1.5]),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), BOUND),
    }
    strings = {"pattern": PATTERNS, "minLength": SMALL, "maxLength": SMALL}
    arrays = {
        "uniqueItems": st.booleans(),
        "prefixItems": some,
        **dict.fromkeys(("minItems", "maxItems", "minContains", "maxContains"), SMALL),
        **dict.fromkeys(("items", "contains", "unevaluatedItems"), below),
    }
    objects = {
        "properties": st.dictionaries(KEYS, below, max_size=3),
        "required": NAMES,
        "patternProperties": st.dictionaries(PATTERNS, below, max_size=2),
        "dependentRequired": st.dictionaries(KEYS, NAMES, max_size=2),
        "dependentSchemas": st.dictionaries(KEYS, below, max_size=1),
        **dict.fromkeys(("minProperties", "maxProperties"), SMALL),
        **dict.fromkeys(("additionalProperties", "propertyNames", "unevaluatedProperties"), below),
    }
    if older:
        arrays["items"] = st.one_of(below, some)
        arrays["additionalItems"] = below
        objects["dependencies"] = st.dictionaries(KEYS, st.one_of(NAMES, below), max_size=2)
    always = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(ANYTHING, min_size=1, max_size=4),
        "const": ANYTHING,
        **dict.fromkeys(("anyOf", "oneOf", "allOf"), some),
        **dict.fromkeys(("not", "if", "then", "else"), below),
    }

    def chosen(family: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
        every = family | always
        names = st.tuples(
            st.lists(st.sampled_from(sorted(family)), max_size=4, unique=True),
            st.lists(st.sampled_from(sorted(always)), max_size=2, unique=True),
        )
        return names.flatmap(
            lambda both: st.fixed_dictionaries(
                {name: every[name] for part in both for name in part}
            )
        )

    return st.one_of(*map(chosen, (objects, arrays, objects, arrays, numbers, strings)))


LEAVES = st.one_of(
    st.booleans(),
    st.just({"$ref": "#/$defs/again"}),
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {"required": ["a"]}]),
    st.sampled_from([{"const": 1}, {"enum": [1, "a"]}, {"minimum": 2}]),
)
SCHEMAS = keywords(st.recursive(LEAVES, keywords, max_leaves=8))
OLDER_KEYWORDS = partial(keywords, older=True)
OLDER_SCHEMAS = OLDER_KEYWORDS(st.recursive(LEAVES, OLDER_KEYWORDS, max_leaves=8))
DIALECTS = st.sampled_from(
    [
        {},
        {"$schema": "https://json-schema.org/draft/2019-09/schema"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"$schema": "http://json-schema.org/draft-06/schema#"},
    ]
)
AGAIN = st.sampled_from(
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/again"}}},
        {"type": ["array", "integer"], "items": {"$ref": "#"}},
        True,
    ]
)


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, AGAIN)
def test_agrees_with_the_validator(schema: dict[str, Any], again: Any) -> None:
    """Every valid value is accepted; an invalid one only where something is checked after."""
    compare({**schema, "$defs": {"again": again}})


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(OLDER_SCHEMAS, AGAIN, DIALECTS)
def test_agrees_with_the_validator_of_older_drafts(
    schema: dict[str, Any], again: Any, dialect: dict[str, str]
) -> None:
    """With the keywords of all drafts beside each other, and with no dialect named."""
    compare({**schema, **dialect, "$defs": {"again": again}})


def compare(schema: dict[str, Any]) -> None:
    """Hold a grammar to the validator on every small value."""
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
    for value in VALUES:
        accepted = grammar is not None and accepts(grammar, value)
        valid = errors(value) == []
        if valid:
            assert accepted, (json.dumps(schema), value)
        elif not compiled.checked_after:
            assert not accepted, (json.dumps(schema), value)


NO_SCHEMAS = st.recursive(
    st.sampled_from(SCALARS),
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    *("type", "items", "anyOf", "$ref", "required", "enum", "pattern", "not"),
                    *("minimum", "properties", "$id", "$schema", "dependencies", "if", "format"),
                    *("uniqueItems", "contains", "oneOf", "$anchor", "nullable", "multipleOf"),
                ]
            ),
            below,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(NO_SCHEMAS)
def test_never_raises(schema: Any) -> None:
    """Whatever stands where a schema should is compiled or refused."""
    compiled = compile_schema(schema)
    assert (compiled.grammar is None) == (compiled.refusal is not None)
