"""Each keyword in each dialect: which values its grammar accepts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema
from tests.catalog_compiler.arguments.invariants import check

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"

EXACT: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "true": (True, [None, 1, "a", [], {"a": [1]}], []),
    "type list": ({"type": ["string", "null"]}, ["", None], [0, False, [], {}]),
    "integer": ({"type": "integer"}, [0, -7, 10**30, 3.0], [1.5, "1", True]),
    "number bounds": (
        {"type": "number", "minimum": 0.1, "exclusiveMaximum": 2},
        [0.1, 1, Decimal("1.99999999999999999999")],
        [0, 0.09, 2, 2.0, Decimal("0.0999999999999999999999")],
    ),
    "multipleOf": ({"type": "number", "multipleOf": 0.1}, [0.3, 0, -1.1], [0.25]),
    "several multiples": (
        {"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]},
        [0, 12, -24],
        [4, 6, 8],
    ),
    "lengths are code points": ({"type": "string", "minLength": 2, "maxLength": 2}, ["😀é"], ["a"]),
    "pattern is searched": ({"type": "string", "pattern": "b+"}, ["abc", "b"], ["ac", ""]),
    "pattern with lengths": (
        {"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 5},
        ["abab"],
        ["ab", "ababab"],
    ),
    "enum of any values": (
        {"enum": ["a", 1, None, True, [1, "x"], {"k": [None]}]},
        ["a", 1, 1.0, None, True, [1, "x"], {"k": [None]}],
        [False, 0, [1], {"k": []}, "b"],
    ),
    "enum is met with the rest": (
        {
            "enum": ["aa", "b", 1, {"a": 1}, {"a": "x"}],
            "minLength": 2,
            "required": ["a"],
            "properties": {"a": {"type": "string"}},
        },
        ["aa", 1, {"a": "x"}],
        ["b", {"a": 1}],
    ),
    "const false is not 0": ({"const": False}, [False], [0, None]),
    "array of tuples": (
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        [[], ["a"], ["a", 1, 2]],
        [[1], ["a", "b"]],
    ),
    "closed tuple": (
        {"type": "array", "prefixItems": [True, True], "items": False, "minItems": 1},
        [[1], [1, 2]],
        [[], [1, 2, 3]],
    ),
    "a literal array that is refused, in an older draft": (
        {
            "$schema": DRAFT_7,
            "type": "array",
            "items": {"enum": [0, 1]},
            "minItems": 2,
            "maxItems": 2,
            "not": {"const": [0, 0]},
        },
        [[0, 1], [1, 0], [1, 1]],
        [[0, 0], [0]],
    ),
    "a literal array of one option": (
        {"$schema": DRAFT_2019, "oneOf": [{}, {"enum": [[1]]}]},
        [[2], [1, 1], [], 1],
        [[1]],
    ),
    "a literal array as a condition": (
        {
            "$schema": DRAFT_7,
            "if": {"properties": {"a": {"const": [1]}}, "required": ["a"]},
            "then": {"required": ["b"]},
        },
        [{"a": [1], "b": 0}, {"a": [2]}, {}],
        [{"a": [1]}],
    ),
    "a literal object that is refused, in draft 4": (
        {"$schema": DRAFT_4, "not": {"enum": [{"a": ""}, [[1]]]}},
        [{"a": None}, {"a": "x"}, {}, {"a": "", "b": 1}, [1], [[2]]],
        [{"a": ""}, [[1]]],
    ),
    "the names of two drafts for what depends": (
        {
            "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
            "dependentRequired": {"a": ["e"]},
            "dependentSchemas": {"c": {"required": ["f"]}},
        },
        [{"a": 1, "b": 1, "e": 1}, {"c": 1, "d": 1, "f": 1}, {}],
        [{"a": 1, "b": 1}, {"a": 1, "e": 1}, {"c": 1, "d": 1}, {"c": 1, "f": 1}],
    ),
    "tuples of two drafts": (
        {
            "type": "array",
            "prefixItems": [{"type": "string"}],
            "items": [{"minLength": 2}, {"type": "null"}],
            "additionalItems": False,
        },
        [["ab"], ["ab", None], []],
        [["a"], [1], ["ab", 1], ["ab", None, 1]],
    ),
    "bounds that no text reaches": (
        {
            "maxLength": 2**31,
            "maxItems": 9_007_199_254_740_991,
            "maxProperties": 2**63,
            "anyOf": [{"type": "array", "minItems": 2**40}, {"type": ["string", "object"]}],
        },
        ["a", {"a": 1}],
        [[1], 1],
    ),
    "older tuple": (
        {"items": [{"type": "string"}], "additionalItems": False},
        [["a"], [], "x"],
        [["a", 1], [1]],
    ),
    "unique literals": (
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 1},
        [["b", "a"], ["c"]],
        [[], ["a", "a"], ["d"]],
    ),
    "contains what all items are": (
        {
            "type": "array",
            "items": {"const": 1},
            "contains": {"type": "integer"},
            "minContains": 2,
            "maxContains": 3,
        },
        [[1, 1], [1, 1, 1]],
        [[1], [1] * 4],
    ),
    "contains in few items": (
        {"type": "array", "maxItems": 2, "contains": {"const": 5}},
        [[5], [1, 5], [5, "a"]],
        [[], [1], [1, 2], [5, 5, 5]],
    ),
    "object": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {}},
            "required": ["a"],
            "additionalProperties": False,
        },
        [{"a": 1}, {"a": 1, "b": []}],
        [{}, {"b": 1}, {"a": "1"}, {"a": 1, "c": 1}],
    ),
    "declared and matching": (
        {
            "properties": {"ab": {"minimum": 2}},
            "patternProperties": {"^a": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        [{"ab": 2, "ax": 0, "b": ""}, {}],
        [{"ab": 1}, {"ab": 2.5}, {"ax": "x"}, {"b": 1}],
    ),
    "two patterns meet": (
        {"patternProperties": {"a": {"minimum": 3}, "b": {"maximum": 5}}},
        [{"ab": 4, "a": 9, "b": 0, "c": None}],
        [{"ab": 2}, {"ab": 6}],
    ),
    "property names": (
        {"propertyNames": {"pattern": "^[a-c]+$", "maxLength": 2}, "required": ["a"]},
        [{"a": 1, "bc": 2}],
        [{"a": 1, "d": 2}, {"a": 1, "abc": 1}],
    ),
    "member counts": (
        {"type": "object", "minProperties": 1, "maxProperties": 2},
        [{"a": 1}, {"a": 1, "b": 2}],
        [{}, {"a": 1, "b": 2, "c": 3}],
    ),
    "dependentRequired": (
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        [{}, {"b": 1}, {"a": 1, "b": 2}],
        [{"a": 1}],
    ),
    "dependencies": (
        {"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}},
        [{"a": 1, "b": 2}, {"c": 1}, 5],
        [{"a": 1}, {"c": 1, "d": 1}],
    ),
    "anyOf": ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["x", 6, None], [4]),
    "oneOf by tag": (
        {
            "type": "object",
            "required": ["t"],
            "oneOf": [
                {"properties": {"t": {"const": "x"}, "v": {"type": "string"}}},
                {"properties": {"t": {"const": "y"}, "v": {"type": "integer"}}},
            ],
        },
        [{"t": "x", "v": "s"}, {"t": "y", "v": 1}, {"t": "y"}],
        [{"t": "x", "v": 1}, {"t": "z"}, {"v": 1}],
    ),
    "oneOf by presence": (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "b": 1}],
    ),
    "oneOf of numbers": (
        {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]},
        [1, 2.5],
        [2, 3, 1.5, "x"],
    ),
    "oneOf of equal schemas": (
        {"type": ["integer", "null"], "oneOf": [{"type": "integer"}, {"type": "integer"}, {}]},
        [None],
        [1],
    ),
    "allOf": (
        {
            "allOf": [
                {"properties": {"a": {"minimum": 1}}},
                {"properties": {"a": {"maximum": 2}}},
                {"required": ["a"]},
            ],
            "type": "object",
        },
        [{"a": 1}, {"a": "x"}],
        [{"a": 3}, {"a": 0}, {}],
    ),
    "not a type": ({"not": {"type": ["string", "integer"]}}, [1.5, None, []], ["", 1]),
    "not some literals": (
        {"not": {"enum": ["a", 1, None, [1], {"k": 1}]}},
        ["b", 2, True, [], [1, 1], [2], {}, {"k": 2}, {"k": 1, "l": 1}],
        ["a", 1, 1.0, None, [1], {"k": 1}],
    ),
    "not a pattern": ({"type": "string", "not": {"pattern": "^a"}}, ["b", ""], ["a", "ab"]),
    "not required": ({"not": {"required": ["a", "b"]}}, [{"a": 1}, {}], [{"a": 1, "b": 1}, 1]),
    "not not": ({"not": {"not": {"type": "string"}}}, ["a"], [1]),
    "if then else": (
        {
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"required": ["a"]},
            "else": {"required": ["b"]},
            "type": "object",
        },
        [{"k": 1, "a": 0}, {"k": 2, "b": 0}, {"b": 0}],
        [{"k": 1}, {"k": 1, "b": 0}, {"a": 0}],
    ),
    "recursion": (
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "type": "object",
                    "required": ["v"],
                    "additionalProperties": False,
                    "properties": {
                        "v": {"type": "integer"},
                        "c": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                    },
                }
            },
        },
        [{"v": 1}, {"v": 1, "c": [{"v": 2, "c": []}]}],
        [{"v": 1, "c": [{"v": "x"}]}, {"v": 1, "c": [{}]}],
    ),
    "reference by anchor and id": (
        {
            "$id": "https://example.org/root",
            "$defs": {"a": {"$id": "sub", "$defs": {"b": {"$anchor": "here", "type": "integer"}}}},
            "items": {"$ref": "sub#here"},
        },
        [[1]],
        [["x"]],
    ),
    "siblings of a reference hold": (
        {"$ref": "#/$defs/s", "maxLength": 1, "$defs": {"s": {"type": "string"}}},
        ["a"],
        ["ab", 1],
    ),
    "siblings of a reference are ignored": (
        {
            "$schema": DRAFT_7,
            "properties": {"a": {"$ref": "#/definitions/s", "maxLength": 1}},
            "definitions": {"s": {"type": "string"}},
        },
        [{"a": "ab"}],
        [{"a": 1}],
    ),
    "metaschema": (
        {"items": {"$ref": "http://json-schema.org/draft-07/schema#/definitions/simpleTypes"}},
        [["object", "null"]],
        [["any"]],
    ),
    "draft 4": (
        {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True, "const": 5},
        [2, 5],
        [1],
    ),
    "OpenAPI 3.0": (
        {
            "type": "integer",
            "nullable": True,
            "example": "x",
            "maximum": 3,
            "exclusiveMaximum": True,
            "exclusiveMinimum": False,
        },
        [None, 2],
        [3, "x"],
    ),
    "unevaluated properties": (
        {
            "$schema": DRAFT_2019,
            "type": "object",
            "properties": {"a": True},
            "anyOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}, {"required": ["a"]}],
            "unevaluatedProperties": False,
        },
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{}, {"a": 1, "c": 1}, {"a": 1, "b": 2}],
    ),
    "unevaluated items": (
        {
            "prefixItems": [{"const": 1}],
            "allOf": [{"prefixItems": [True, {"const": 2}]}],
            "unevaluatedItems": {"type": "null"},
            "type": "array",
        },
        [[1, 2, None], [1], []],
        [[1, 3], [1, 2, 3]],
    ),
    "not few items": ({"type": "array", "not": {"minItems": 2}}, [[], [1]], [[1, 2]]),
    "not only strings": (
        {"type": "array", "maxItems": 2, "not": {"items": {"type": "string"}}},
        [[1], ["a", 1], [1, 1]],
        [[], ["a"], ["a", "b"]],
    ),
    "contains nothing of a kind": (
        {"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 0},
        [[], [1, None]],
        [["a"], [1, "a"]],
    ),
    "impossible item": (
        {"type": "array", "prefixItems": [{"enum": []}], "items": True},
        [[]],
        [[1], [1, 1]],
    ),
    "impossible later item": (
        {"type": "array", "items": {"allOf": [{"type": "string"}, {"type": "null"}]}},
        [[]],
        [["a"], [None]],
    ),
    "rules of two schemas": (
        {
            "type": "object",
            "allOf": [
                {"additionalProperties": {"minimum": 2}},
                {"patternProperties": {"a": {"maximum": 3}}},
            ],
        },
        [{"a": 2, "b": 9}],
        [{"a": 1}, {"b": 1}, {"a": 4}],
    ),
    "some further member": (
        {
            "type": "object",
            "properties": {"k": {}},
            "not": {"properties": {"k": {}}, "additionalProperties": False},
        },
        [{"x": 1}, {"k": 1, "x": 1}],
        [{}, {"k": 1}],
    ),
    "several options evaluate": (
        {
            "type": "object",
            "unevaluatedProperties": False,
            "anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}],
        },
        [{"a": 1, "b": 2}, {"a": 1}, {"b": 1}, {}],
        [{"c": 1}, {"a": 1, "c": 1}],
    ),
    "impossible optional property": (
        {"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 1}}, "type": "object"},
        [{}, {"b": 1}],
        [{"a": ""}, {"a": "xx"}],
    ),
    "endless optional property": (
        {
            "$ref": "#/$defs/n",
            "$defs": {
                "n": {
                    "type": "object",
                    "properties": {"n": {"allOf": [{"$ref": "#/$defs/n"}, {"required": ["n"]}]}},
                }
            },
        },
        [{}, {"m": 1}],
        [{"n": {"n": {}}}, {"n": {}}],
    ),
    "only required members fit": (
        {"type": "object", "required": ["a"], "maxProperties": 1, "properties": {"b": {}}},
        [{"a": 1}],
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}],
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_is_exact(name: str) -> None:
    """The grammar accepts what the schema does, and leaves nothing to be checked."""
    schema, valid, invalid = EXACT[name]
    compiled = compile_schema(schema)
    assert compiled.refusal is None
    assert compiled.checked_after == ()
    assert compiled.grammar is not None
    check(compiled.grammar)
    assert [value for value in valid if not accepts(compiled.grammar, value)] == []
    assert [value for value in invalid if accepts(compiled.grammar, value)] == []


LEFT_OUT: dict[str, tuple[Any, str, str, Any, Any]] = {
    "unique strings": (
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        *("unique-items", "/uniqueItems", ["a", "b"], ["a", "a"]),
    ),
    "contains anywhere": (
        {"type": "array", "contains": {"const": 1}},
        *("contains", "/contains", [2, 1], [2, 3]),
    ),
    "at most one": (
        {"type": "array", "contains": {"const": 1}, "minContains": 0, "maxContains": 1},
        *("contains", "/contains", [1, 2], [1, 1]),
    ),
    "literals against a back reference": (
        {"enum": [{"p": "aa"}, {"p": "ab"}], "properties": {"p": {"pattern": r"^(a|b)\1$"}}},
        *("pattern-unsupported", "/properties/p/pattern", {"p": "aa"}, {"p": "ab"}),
    ),
    "names against a back reference": (
        {"type": "object", "propertyNames": {"pattern": r"^(a|b)\1$"}},
        *("pattern-unsupported", "/propertyNames/pattern", {"aa": 1}, {"ab": 1}),
    ),
    "keys against a back reference": (
        {"type": "object", "patternProperties": {r"^(a|b)\1$": False}},
        *("pattern-unsupported", "/patternProperties", {"ab": 1}, {"aa": 1}),
    ),
    "looking ahead": (
        {"type": "object", "properties": {"p": {"type": "string", "pattern": r"^(a|b)\1$"}}},
        *("pattern-unsupported", "/properties/p/pattern", {"p": "aa"}, {"p": "ab"}),
    ),
    "not all keys": (
        {"type": "object", "not": {"propertyNames": {"maxLength": 1}}},
        *("not-keys", "/not/propertyNames", {"ab": 1}, {"a": 1}),
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_says_what_it_leaves_out(name: str) -> None:
    """What the grammar doesn't enforce is named, and valid values are accepted all the same."""
    schema, code, pointer, valid, missed = LEFT_OUT[name]
    compiled = compile_schema(schema)
    assert [(note.code, note.pointer) for note in compiled.checked_after] == [(code, pointer)]
    assert compiled.grammar is not None
    check(compiled.grammar)
    assert accepts(compiled.grammar, valid)
    assert accepts(compiled.grammar, missed)


def test_order_is_that_of_the_schema() -> None:
    """Members are written as `properties` has them, whatever `required` says."""
    schema = {"properties": {"z": {}, "a": {}, "m": {}}, "required": ["m", "new", "z"]}
    grammar = compile_schema(schema, root_object=True).grammar
    assert grammar is not None
    node = grammar.nodes[grammar.root]
    keys = [each.key for each in node.properties]  # type: ignore[union-attr]
    assert keys == ["z", "a", "m", "new"]


def test_root_object() -> None:
    """Arguments are objects even where the schema doesn't say so."""
    grammar = compile_schema({}, root_object=True).grammar
    assert grammar is not None
    assert accepts(grammar, {"a": 1})
    assert not accepts(grammar, [1])


def test_formats_can_be_descriptions() -> None:
    """A format constrains unless it is asked not to."""
    schema = {"type": "string", "format": "date"}
    asserted = compile_schema(schema).grammar
    described = compile_schema(schema, assert_formats=False).grammar
    assert asserted is not None
    assert described is not None
    assert accepts(asserted, "2024-02-29")
    assert not accepts(asserted, "2024-02-30")
    assert accepts(described, "2024-02-30")


def test_equal_parts_are_one() -> None:
    """Schemas that say the same share their nodes."""
    text = {"type": "string", "maxLength": 9}
    schema = {"properties": {name: {**text, "title": name} for name in "abc"}}
    grammar = compile_schema({**schema, "additionalProperties": False}, root_object=True).grammar
    assert grammar is not None
    assert len(grammar.nodes) == 2


def test_tells_what_only_describes() -> None:
    """Unknown formats and keywords of other dialects are told; they leave nothing to be checked."""
    schema = {
        "$schema": DRAFT_7,
        "properties": {
            "a": {"format": "phone"},
            "b": {"$ref": "#/definitions/s", "maxLength": 1},
            "c": {"dependentRequired": {"x": ["y"]}, "nullable": True, "type": "object"},
        },
        "definitions": {"s": {"type": "string", "minimum": 1}},
    }
    compiled = compile_schema(schema)
    assert compiled.checked_after == ()
    assert [(note.code, note.pointer) for note in compiled.notes] == [
        ("format-unknown", "/properties/a/format"),
        ("keyword-ignored", "/properties/b/maxLength"),
        ("keyword-ignored", "/properties/c/dependentRequired"),
        ("keyword-ignored", "/properties/c/nullable"),
    ]
