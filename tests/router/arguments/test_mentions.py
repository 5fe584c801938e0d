"""What a request speaks of, and which values are in it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.arguments.mentions import Evidence
from router.arguments.parameters import Parameters

WORDS = st.lists(st.from_regex(r"[a-z]{4,9}", fullmatch=True), min_size=1, max_size=6)


def one(schema: object, *, key: str = "thing", required: bool = False) -> Parameters:
    """Make the parameters of a tool with a single one."""
    names = [key] if required else []
    return Parameters({"type": "object", "properties": {key: schema}, "required": names})


def speaks(text: str, key: str, schema: object) -> bool:
    """Tell whether a text speaks of a parameter."""
    parameters = one(schema, key=key)
    return Evidence(text).mentions(parameters.top[0], parameters)


def holds(text: str, value: object, schema: object, key: str = "thing") -> bool:
    """Tell whether a text holds a value."""
    parameters = one(schema, key=key)
    return Evidence(text).holds(value, parameters.top[0], parameters)


@pytest.mark.parametrize(
    ("text", "key", "schema"),
    [
        ("list them with a limit", "limit", {"type": "integer"}),
        ("at most ten results", "max_results", {"type": "integer"}),
        ("the first 5", "limit", {"type": "integer"}),
        ("in turquoise, please", "colour", {"enum": ["turquoise", "red"]}),
        ("in celsius", "temp", {"type": "string", "description": "'celsius' or 'kelvin'"}),
        ("write to ann@example.org", "cc", {"type": "string", "format": "email"}),
        ("see https://example.org", "source", {"type": "string", "format": "uri"}),
        ("by tomorrow", "due_date", {"type": "string"}),
        ("on 2024-05-01", "start", {"type": "string"}),
        ('call it "Otter"', "title", {"type": "string"}),
        ("a film with Grace Kelly", "starring", {"type": "string"}),
    ],
)
def test_a_request_speaks_of_a_parameter(text: str, key: str, schema: object) -> None:
    """By its key's words, by a choice, or by something of its kind."""
    assert speaks(text, key, schema)


@pytest.mark.parametrize(
    ("text", "key", "schema"),
    [
        ("list the open issues", "limit", {"type": "integer"}),
        ("boil some water", "colour", {"enum": ["turquoise", "red"]}),
        ("boil some water", "temp", {"type": "string", "description": "Default is 'some water'"}),
        ("write to Ann", "cc", {"type": "string", "format": "email"}),
        ("boil some water", "due_date", {"type": "string"}),
        ("Boil some water. Then stop.", "title", {"type": "string"}),
        ("boil 3 litres", "verbose", {"type": "boolean"}),
        ("boil some water", "anything", {}),
    ],
)
def test_a_request_does_not_speak_of_a_parameter(text: str, key: str, schema: object) -> None:
    """Nothing of it is there."""
    assert not speaks(text, key, schema)


def test_what_the_required_ones_need_is_not_counted_twice() -> None:
    """One number serves the required parameter; a second speaks of the optional one."""
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
    }
    parameters = Parameters(schema)
    optional = parameters.top[1]
    assert not Evidence("take 5").mentions(optional, parameters)
    assert Evidence("take 5 of 7").mentions(optional, parameters)


@pytest.mark.parametrize(
    ("text", "value", "schema"),
    [
        ("the weather in Lisbon", "Lisbon", {"type": "string"}),
        ("the weather in LISBON", "lisbon", {"type": "string"}),
        ("the weather in Lisbon", "Lisbon, PT", {"type": "string"}),
        ("fly to New York", "NY", {"type": "string"}),
        ("café in São Paulo", "Sao Paulo", {"type": "string"}),
        ("on May 1st, 2024", "2024-05-01", {"type": "string"}),
        ("next monday", "2024-05-06", {"type": "string"}),
        ("compute x + y", "+", {"type": "string"}),
        ("for twelve people", 12, {"type": "integer"}),
        ("a rate of 5%", Decimal("0.05"), {"type": "number"}),
        ("minus 3 degrees", -3, {"type": "integer"}),
        ("in red", "red", {"enum": ["red", "blue"]}),
        ("anything", "letter", {"const": "letter"}),
        ("anything", 0.1, {"default": 0.1}),
        ("anything", Decimal("0.1"), {"default": 0.1}),
        ("make it verbose", True, {"type": "boolean"}),
        ("3, 4 and 5", [3, 4, 5], {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_a_value_is_in_the_request(text: str, value: object, schema: object) -> None:
    """Word for word, by most of its words, as a number in any spelling, or not to be invented."""
    assert holds(text, value, schema, key="verbose")


@pytest.mark.parametrize(
    ("text", "value", "schema"),
    [
        ("the weather, please", "Lisbon", {"type": "string"}),
        ("the weather, please", "", {"type": "string"}),
        ("for twelve people", 13, {"type": "integer"}),
        ("boil it", True, {"type": "boolean"}),
        ("boil it", False, {"default": 0}),
        ("boil it", 1, {"default": True}),
        ("in red", "blue", {"enum": ["red", "blue"]}),
        ("in light red", "light blue", {"enum": ["light red", "light blue"]}),
        ("boil it", None, {"type": "null"}),
        ("boil it", [], {"type": "array"}),
        ("3 of them", [7, 8, 9], {"type": "array"}),
        ("boil it", {"a": "b"}, {"type": "object", "properties": {"a": {"type": "string"}}}),
    ],
)
def test_a_value_is_not_in_the_request(text: str, value: object, schema: object) -> None:
    """It was made up."""
    assert not holds(text, value, schema)


LETTER: dict[str, Any] = {
    "type": "object",
    "required": ["from", "to", "paper"],
    "properties": {
        "from": {"type": "string"},
        "to": {
            "type": "object",
            "required": ["name", "town/place"],
            "properties": {
                "name": {"type": "string"},
                "town/place": {"type": "string"},
                "floor": {"type": "integer"},
            },
        },
        "paper": {"const": "A4"},
        "note": {"type": "string"},
    },
}


def test_missing_values_are_named_by_pointers_and_left_out() -> None:
    """Within objects too; optional ones that were made up are left out silently."""
    value = {
        "from": "Bob",
        "to": {"name": "Ann", "town/place": "Rome", "floor": 3},
        "paper": "A4",
        "note": "with love",
    }
    found = Evidence("A letter to Ann").examine(value, Parameters(LETTER))
    assert found.missing == ("/from", "/to/town~1place")
    assert found.known == {"to": {"name": "Ann"}, "paper": "A4"}


def test_an_object_of_which_nothing_is_known_is_missing_as_a_whole() -> None:
    """Not member by member."""
    value = {"from": "Bob", "to": {"name": "Ann", "town/place": "Rome"}, "paper": "A4"}
    found = Evidence("A letter from Bob").examine(value, Parameters(LETTER))
    assert found.missing == ("/to",)
    assert found.known == {"from": "Bob", "paper": "A4"}


def test_what_stands_there_once_serves_once() -> None:
    """A model that copies one name twice has made one of them up."""
    value = {"from": "Ann", "to": {"name": "Ann", "town/place": "Rome"}, "paper": "A4"}
    once = Evidence("A letter to Ann in Rome").examine(value, Parameters(LETTER))
    assert once.missing == ("/to/name",)
    twice = Evidence("A letter to Ann in Rome from Ann").examine(value, Parameters(LETTER))
    assert twice.missing == ()
    assert Evidence("A letter to Ann in Rome").examine(value, Parameters(LETTER)) == once


def test_the_turn_before_is_evidence() -> None:
    """What was said there need not be said again."""
    parameters = one({"type": "string"}, required=True)
    assert Evidence("And tomorrow?").examine({"thing": "Lisbon"}, parameters).missing
    asked = Evidence("And tomorrow?", "The weather in Lisbon")
    assert not asked.examine({"thing": "Lisbon"}, parameters).missing


@given(WORDS, st.integers(0, 5), st.integers(1, 6))
def test_what_was_copied_is_there(words: list[str], start: int, length: int) -> None:
    """Any run of the request's words, in any case."""
    copied = " ".join(words[start : start + length])
    if copied:
        assert holds(" ".join(words), copied.upper(), {"type": "string"})


@given(st.integers(-(10**9), 10**9))
def test_a_number_written_in_digits_is_there(number: int) -> None:
    """With separators as well."""
    assert holds(f"use {number} of them", number, {"type": "integer"})
    assert holds(f"use {number:,} of them", number, {"type": "integer"})


@given(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False) | st.text(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    ),
)
def test_any_value_can_be_looked_for(text: str, value: object) -> None:
    """In any text, with nothing known of it; the finding is the same each time."""
    parameters = Parameters({})
    evidence = Evidence(text)
    first = evidence.examine({"": value}, parameters)
    assert first.missing == ()
    assert evidence.examine({"": value}, parameters) == first
