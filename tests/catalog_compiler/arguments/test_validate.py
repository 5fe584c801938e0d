"""The standard validator as it is set up: exact, as strict as the grammar, nothing fetched."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from catalog_compiler.arguments.schema import validator

JUDGED: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "exact multiples": ({"multipleOf": 0.1}, [0.3, Decimal("1e3000")], [0.35, Decimal("1e-3000")]),
    "exact bounds": ({"minimum": 0.1}, [Decimal("0.1"), 0.1], [Decimal("0.09999999999999999999")]),
    "whole": ({"type": "integer"}, [1, 1.0, Decimal("1e9999999")], [1.5, True]),
    "enum tells true from 1": ({"enum": [1, [False]]}, [1.0, [False]], [True, [0]]),
    "unique by value": ({"uniqueItems": True}, [[1, True], [{"a": 1}, {"a": 2}]], [[1, 1.0]]),
    "formats are asserted": ({"format": "date"}, ["2024-02-29", 5], ["2024-02-30"]),
    "unknown formats are not": ({"format": "no-such-format"}, ["x"], []),
    "ECMA patterns": ({"pattern": r"^\d$"}, ["1"], ["١", "1\n"]),
    "back reference": ({"pattern": r"^(a|b)\1$"}, ["aa"], ["ab", "aa\n"]),
    "looking ahead": ({"pattern": r"^(?!no)[a-z$]+$"}, ["yes", "$"], ["not", "yes\n"]),
    "patterns of keys": (
        {"patternProperties": {r"^\w$": {"type": "null"}}, "additionalProperties": False},
        [{"a": None}],
        [{"é": None}, {"a": 1}],
    ),
    "nullable": ({"type": "string", "nullable": True}, [None, "a"], [1]),
    "boolean bounds": ({"minimum": 1, "exclusiveMinimum": True}, [2], [1]),
    "both kinds of bounds": ({"minimum": 1, "exclusiveMinimum": 0.5}, [1], [0.75]),
    "older tuples": (
        {"items": [{"type": "null"}], "additionalItems": False},
        [[None]],
        [[1], [None, 1]],
    ),
    "booleans for items": (
        {"items": True, "additionalItems": {"type": "null"}},
        [[1]],
        [],
    ),
    "tuples of two drafts": (
        {
            "prefixItems": [{"type": "null"}],
            "items": [True, {"const": 1}],
            "additionalItems": False,
        },
        [[None, 1]],
        [[1, 1], [None, 2], [None, 1, 1]],
    ),
    "as strict behind a reference to the whole": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {
                "in": {"$ref": "#"},
                "whole": {"type": "integer", "multipleOf": 0.1},
                "day": {"format": "date"},
                "word": {"pattern": r"^\p{L}+$"},
            },
        },
        [{"in": {"whole": Decimal("1.0"), "day": "2024-02-29", "word": "é"}}],
        [{"in": {"day": "2024-02-30"}}, {"in": {"word": "1"}}, {"in": {"whole": Decimal("1.5")}}],
    ),
    "what is left over in draft 2019-09": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "additionalProperties": {"type": "integer"},
            "allOf": [{"unevaluatedProperties": True}],
            "unevaluatedProperties": False,
        },
        [{"a": 1}],
        [{"type": "a"}],
    ),
    "patterns of what is left over": (
        {"allOf": [{"patternProperties": {r"^\d$": True}}], "unevaluatedProperties": False},
        [{"1": 1}],
        [{"١": 1}, {"a": 1}],
    ),
    "items that are left over": (
        {
            "anyOf": [{"prefixItems": [{"const": 1}, True]}, {"contains": {"const": 5}}],
            "unevaluatedItems": {"type": "null"},
        },
        [[1, 2], [1, 2, None], [5, None], [1, 2, 5], [None, 5]],
        [[1, 2, 3], [5, 2], [2]],
    ),
    "contains evaluates nothing in draft 2019-09": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "items": [True],
            "contains": {"const": 5},
            "unevaluatedItems": False,
        },
        [[5]],
        [[1, 5]],
    ),
    "branches and references of what is left over": (
        {
            "$defs": {"b": {"properties": {"b": True}}},
            "$ref": "#/$defs/b",
            "if": {"properties": {"kind": {"const": 1}}, "required": ["kind"]},
            "then": {"properties": {"c": True}},
            "else": {"properties": {"d": True}},
            "dependentSchemas": {"b": {"properties": {"e": True}}},
            "unevaluatedProperties": False,
        },
        [{"b": 1, "e": 1}, {"kind": 1, "c": 1}, {"d": 1}],
        [{"e": 1}, {"kind": 1, "d": 1}, {"c": 1}, {"kind": 2}],
    ),
    "a dialect of its own": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {
                "old": {
                    "$schema": "http://json-schema.org/draft-04/schema#",
                    "id": "x:y",
                    "const": 1,
                }
            },
            "properties": {"a": {"$ref": "#/$defs/old"}, "b": {"const": 1}},
        },
        [{"a": 2, "b": 1}],
        [{"b": 2}],
    ),
    "draft 4": (
        {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1, "maximum": 3},
        [2],
        [4],
    ),
}


@pytest.mark.parametrize("name", JUDGED)
def test_judges(name: str) -> None:
    """Valid values have no errors; every invalid one has."""
    schema, valid, invalid = JUDGED[name]
    errors = validator(schema)
    assert [value for value in valid if errors(value)] == []
    assert [value for value in invalid if not errors(value)] == []


def test_errors_say_where() -> None:
    """An error names the place and what is wrong with it."""
    errors = validator({"properties": {"a": {"items": {"type": "string"}}}})
    assert errors({"a": ["x", 1]}) == ["/a/1: 1 is not of type 'string'"]


def test_formats_can_be_descriptions() -> None:
    """Formats are not asserted where the caller says so."""
    assert validator({"format": "date"}, assert_formats=False)("x") == []


def test_what_cannot_be_checked_is_not_valid() -> None:
    """A reference that nothing resolves is an error of the value, not an exception."""
    (error,) = validator({"$ref": "https://example.org/elsewhere"})(1)
    assert "can't be checked" in error


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$id": 5}, 1),
        ({"minimum": "1"}, 1),
        ({"required": 3}, {}),
        ({"items": [1]}, [1]),
        ({"$ref": "//[/#"}, 1),
        ({"properties": {"a": {"$schema": "x:unknown"}}}, {"a": 1}),
    ],
)
def test_what_is_no_schema_finds_nothing_valid(schema: Any, value: Any) -> None:
    """The library fails on it in its own ways; the value has an error, and nothing is raised."""
    (error,) = validator(schema)(value)
    assert "can't be checked" in error
