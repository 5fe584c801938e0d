"""Near the bound on nesting: what fits can be written, what does not is never begun."""

from __future__ import annotations

import json
import random
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments.arrange import arrange
from catalog_compiler.arguments.nodes import ArgumentGrammar, Array
from catalog_compiler.arguments.schema import compile_schema, validator
from catalog_compiler.arguments.schema.nesting import is_too_deep
from decoder.arguments.depths import MAX_DEPTH
from tests.arguments.test_walks import machine_of, read, walked

if TYPE_CHECKING:
    from decoder.arguments import ArgumentSession

S7 = "http://json-schema.org/draft-07/schema#"
FLAT: tuple[Any, ...] = (0, "a", [], {}, [0], {"a": 0}, {"b": {}}, {"a": {"b": 0}})
VALUES: tuple[Any, ...] = (
    *FLAT,
    *(
        dict(zip(keys, values, strict=True))
        for size in range(1, 4)
        for keys in combinations(("a", "aa", "ab", "b", "é"), size)
        for values in product((0, {}, {"a": 0}, [[]], {"aa": {"b": 1}}), repeat=size)
    ),
)

PATTERNS = st.sampled_from(["^a", "b$", "^.$", "^(a|b)$", "[^\\x00-\\x7f]", "^b?$"])
BELOW = st.recursive(
    st.one_of(
        st.just({"$ref": "#"}),
        st.just({"$ref": "#/$defs/again"}),
        st.sampled_from([{}, {"type": "integer"}, {"type": "string"}, {"type": "array"}]),
        st.just({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
    ),
    lambda below: st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "aa", "b"]), below, max_size=2),
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=1),
            "patternProperties": st.dictionaries(PATTERNS, below, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), below),
            "minProperties": st.integers(0, 3),
            "maxProperties": st.integers(2, 3),
        },
    ),
    max_leaves=6,
)
SCHEMAS = st.builds(
    lambda schema, again: {**schema, "$defs": {"again": again}},
    BELOW.filter(lambda schema: "$ref" not in schema),
    BELOW.filter(lambda schema: "$ref" not in schema),
)


def wrapped(grammar: ArgumentGrammar, levels: int) -> ArgumentGrammar:
    """Return the grammar within so many arrays of one item."""
    nodes, root = list(grammar.nodes), grammar.root
    for _ in range(levels):
        nodes.append(Array((root,), None, 1, 1))
        root = len(nodes) - 1
    return ArgumentGrammar(tuple(nodes), root)


def nesting(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    below = value.values() if isinstance(value, dict) else value
    return 1 + max(map(nesting, below), default=0)


@pytest.mark.parametrize("kernels", ["reference", "native"])
@pytest.mark.parametrize(
    ("schema", "levels", "taken", "refused"),
    [
        (  # other keys have flat values
            {"type": "object", "minProperties": 1, "patternProperties": {"^x-": {"$ref": "#"}}},
            0,
            ['{"a": 1}', '{"x-": {"a": 1}}', '{"x-": {"x-": {"a": {}}}, "x-1": {"b": 0}}'],
            ["{}", '{"x-": {}}'],
        ),
        (
            {
                "$schema": S7,
                "properties": {"~": {"$ref": "#/definitions/r"}},
                "definitions": {
                    "r": {
                        "type": "object",
                        "minProperties": 3,
                        "patternProperties": {r"[^\x00-\x7f]": {"$ref": "#/definitions/r"}},
                    }
                },
            },
            0,
            [
                '{"~": {"aa": 0, "a": "ab", "x1": "abc"}}',
                '{"~": {"a": 0, "é": {"a": 0, "b": 0, "c": 0}, "b": 0}}',
            ],
            ['{"~": {"a": 0, "b": 0}}', '{"~": {"a": 0, "b": 0, "é": 0}}'],
        ),
        (  # room for one container: the keys with flat values are two, and three are asked for
            {
                "type": "object",
                "minProperties": 2,
                "patternProperties": {"^[ab]$": {"type": "integer"}, "^cc?$": {"type": "array"}},
                "additionalProperties": False,
            },
            63,
            ['{"a": 1, "b": 2}', '{"b": 1, "a": 2}'],
            ['{"a": 1}', '{"a": 1, "c": []}', '{"c": [], "cc": []}'],
        ),
        (
            {
                "type": "object",
                "minProperties": 2,
                "patternProperties": {"^[ab]$": {"type": "integer"}, "^cc?$": {"type": "array"}},
                "additionalProperties": False,
            },
            62,
            ['{"a": 1, "b": 2}', '{"a": 1, "c": []}', '{"c": [], "cc": [1]}'],
            ['{"a": 1}', '{"c": [[]], "cc": []}'],
        ),
    ],
)
def test_a_key_counts_where_its_value_fits(
    kernels: str, schema: dict[str, Any], levels: int, taken: list[str], refused: list[str]
) -> None:
    """Of several kinds of free keys those count whose values still have room."""
    compiled = compile_schema(schema)
    assert (compiled.refusal, compiled.checked_after) == (None, ())
    assert compiled.grammar is not None
    machine, (root,) = machine_of(wrapped(compiled.grammar, levels), kernels=kernels)

    def is_taken(text: str) -> bool:
        return takes(machine.begin(root), "[" * levels + text + "]" * levels)

    assert [text for text in taken if not is_taken(text)] == []
    assert [text for text in refused if is_taken(text)] == []


@pytest.mark.parametrize("kernels", ["reference", "native"])
def test_completions_take_keys_whose_values_are_short(kernels: str) -> None:
    """The shortest key alone would lead from object to object until the bound, twice each time."""
    schema = {
        "type": "object",
        "minProperties": 2,
        "patternProperties": {r"^[\s\S]?$": {"$ref": "#"}},
        "additionalProperties": {"type": "integer"},
    }
    compiled = compile_schema(schema)
    assert compiled.grammar is not None
    machine, (root,) = machine_of(compiled.grammar, kernels=kernels)
    here = machine.begin(root)
    assert here.shortest() == b'{"aa": 0, "ba": 0}'
    assert here.advance_bytes(b'{"a": {"b')
    assert here.shortest() == b'": {"aa": 0, "ba": 0}, "aa": 0}, "ba": 0}'


def test_nearly_all_keys_may_be_of_one_kind() -> None:
    """One key with a short value, and then those of the other kind: the estimate counts them."""
    schema = {
        "type": "object",
        "minProperties": 3,
        "patternProperties": {"^a$": {"const": 0}},
        "additionalProperties": {"anyOf": [{"$ref": "#"}, {"const": "a text, rather long"}]},
    }
    compiled = compile_schema(schema)
    assert compiled.grammar is not None
    machine, (root,) = machine_of(compiled.grammar, kernels="native")
    long = b'"a text, rather long"'
    assert machine.begin(root).shortest() == b'{"a": 0, "": %b, "0": %b}' % (long, long)


def takes(session: ArgumentSession, text: str) -> bool:
    return session.advance_bytes(text.encode()) and session.accepts


@pytest.mark.parametrize("kernels", ["reference", "native"])
@settings(max_examples=50, suppress_health_check=list(HealthCheck), deadline=None)
@given(SCHEMAS, st.integers(MAX_DEPTH - 4, MAX_DEPTH), st.randoms(use_true_random=False))
def test_what_is_valid_and_fits_can_be_written(
    kernels: str, schema: dict[str, Any], levels: int, choose: random.Random
) -> None:
    """A value is taken where it is valid and the containers around it leave it room."""
    compiled = compile_schema(schema)
    if compiled.grammar is None or compiled.checked_after:
        return
    machine, (root,) = machine_of(wrapped(compiled.grammar, levels), kernels=kernels)
    errors = validator(schema)
    fitting = 0
    for value in (*FLAT, *choose.sample(VALUES, 30)):
        fits = errors(value) == [] and levels + nesting(value) <= MAX_DEPTH
        fitting += fits
        taken = machine.fits(root) and any(
            takes(machine.begin(root), "[" * levels + text + "]" * levels)
            for text in arrange(compiled.grammar, value)
        )
        assert taken == fits, (json.dumps(schema), levels, value)
    assert machine.fits(root) or not fitting
    assert machine.fits(root) != is_too_deep(wrapped(compiled.grammar, levels))


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(SCHEMAS, st.integers(MAX_DEPTH - 4, MAX_DEPTH), st.integers(0, 2**32))
def test_whatever_is_begun_can_be_ended(schema: dict[str, Any], levels: int, seed: int) -> None:
    """Both machines allow the same at every step, and every walk ends in a valid value."""
    compiled = compile_schema(schema)
    if compiled.grammar is None or compiled.checked_after:
        return
    grammar = wrapped(compiled.grammar, levels)
    plain, (root,) = machine_of(grammar, kernels="reference")
    native, _ = machine_of(grammar, kernels="native")
    assert plain.fits(root) == native.fits(root)
    if not plain.fits(root):
        return
    choose, opened = random.Random(seed), b"[" * levels
    errors = validator(schema)
    for walk in range(3):
        here, beside = plain.begin(root), native.begin(root)
        assert here.advance_bytes(opened)
        assert beside.advance_bytes(opened)
        for _ in range(25):
            allowed = here.allowed().tolist()
            assert beside.allowed().tolist() == allowed
            assert beside.shortest() == here.shortest()
            if not allowed:
                break
            token = choose.choice(allowed)
            here.advance(token)
            beside.advance(token)
        text = opened + walked(_begun(native, root, opened), random.Random(seed + walk))
        assert here.advance_bytes(here.shortest())
        assert here.accepts
        value = read(text)
        for _ in range(levels):
            (value,) = value
        assert errors(value) == [], (json.dumps(schema), text)
        assert nesting(value) + levels <= MAX_DEPTH


def _begun(machine: Any, root: int, text: bytes) -> ArgumentSession:
    session: ArgumentSession = machine.begin(root)
    assert session.advance_bytes(text)
    return session
