"""A value is spelt as a grammar wants it: members in order, numbers as its automaton takes them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.arguments.arrange import arrange, plain
from catalog_compiler.arguments.automaton import Automaton
from catalog_compiler.arguments.nodes import (
    ArgumentGrammar,
    Array,
    DistinctLiterals,
    Literals,
    Node,
    Number,
    Object,
    Property,
    Text,
    Union,
)
from catalog_compiler.arguments.values import freeze, number_spellings

DIGITS = Automaton((0, 48, 58), (0, 1, 0), ((-1, 1), (-1, 1)), (-1, 0))
FRACTIONS = Automaton(
    (0, 46, 47, 48, 58), (0, 2, 0, 1, 0), ((-1, 1, -1), (-1, 1, 2), (-1, 3, -1), (-1, 3, -1)),
    (-1, -1, -1, 0),
)  # fmt: skip
"""Digits, a point, digits."""
A_WORDS = Automaton((0, 97, 98), (0, 1, 0), ((-1, 1), (1, 1)), (-1, 0))
"""Whatever begins with an a."""
FINITE = st.floats(allow_nan=False, allow_infinity=False)
LEAF = st.none() | st.booleans() | st.integers() | st.text() | FINITE
VALUES = st.recursive(LEAF, lambda below: st.lists(below) | st.dictionaries(st.text(), below))


def same_value(one: Any, other: Any) -> bool:
    return freeze(one) == freeze(other)


def grammar(*nodes: Node) -> ArgumentGrammar:
    return ArgumentGrammar(nodes)


def member(key: str, node: int, *, required: bool = False) -> Property:
    return Property(key, node, required)


def test_members_come_in_the_grammars_order_and_free_ones_after() -> None:
    """The value's own order counts for free members alone."""
    made = grammar(Object((member("b", 1), member("c", 1), member("a", 1)), A_WORDS, (1,)),
                   Number(DIGITS))  # fmt: skip
    value = {"az": 5, "a": 1, "ay": 4, "b": 2}
    assert arrange(made, value) == ('{"b": 2, "a": 1, "az": 5, "ay": 4}',)


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (7.0, "7"), (Decimal("7.00"), "7"), (1e3, "1000")]
)
def test_a_whole_number_is_spelt_as_one_where_that_is_what_is_taken(value: Any, text: str) -> None:
    """JSON knows no difference between 7 and 7.0; an integer's automaton does."""
    assert arrange(grammar(Number(DIGITS)), value) == (text,)


def test_a_number_is_given_a_fraction_where_only_that_is_taken() -> None:
    """Another automaton, another spelling of the same number."""
    assert arrange(grammar(Number(FRACTIONS)), 7) == ("7.0",)


def test_literals_are_spelt_as_they_stand_in_the_grammar() -> None:
    """A value equal to a literal takes its spelling, true is no 1."""
    words = grammar(Literals((b'{"a": 1, "b": [2.50]}', b"1.0", b"true")))
    assert arrange(words, {"b": [2.5], "a": 1}) == ('{"a": 1, "b": [2.50]}',)
    assert arrange(words, 1) == ("1.0",)
    assert arrange(words, True) == ("true",)
    assert arrange(grammar(Literals((b"1",))), True) == ("true",)  # refused, and said so truly


def test_the_first_option_that_fits_is_taken() -> None:
    """Orders differ between options: the one that accepts the value gives the order."""
    made = grammar(
        Union((1, 2)),
        Object((member("a", 3), member("b", 3))),
        Object((member("b", 4), member("a", 4))),
        Literals((b"1",)),
        Text(None, 0, 3),
    )
    assert arrange(made, {"a": 1, "b": 1}) == ('{"a": 1, "b": 1}',)
    assert arrange(made, {"a": "x", "b": "y"}) == ('{"b": "y", "a": "x"}',)


def test_a_value_that_fits_nowhere_is_tried_in_every_order() -> None:
    """An invalid instance must not be refused merely for the order it was written in."""
    made = grammar(
        Union((1, 2)),
        Object((member("a", 3), member("b", 3))),
        Object((member("b", 3), member("a", 3))),
        Literals((b"1",)),
    )
    assert arrange(made, {"a": 1, "b": 2}) == ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}')


def test_unions_inside_are_tried_in_turn_too() -> None:
    """Each member that fits nowhere is spelt as every option has it; the bound holds."""
    pair = Object((member("a", 4), member("b", 4)))
    reverse = Object((member("b", 4), member("a", 4)))
    made = grammar(Array((1, 1), None), Union((2, 3)), pair, reverse, Literals((b"1",)))
    bad = {"a": 1, "b": 2}
    one, other = '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'
    expected = tuple(f"[{x}, {y}]" for x in (one, other) for y in (one, other))
    assert arrange(made, [bad, dict(bad)]) == expected
    assert arrange(made, [bad, dict(bad)], max_candidates=3) == expected[:3]


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},  # lacks b
        {"a": 1, "b": 1, "x": 1},  # x is not free
        {"a": 2, "b": 1},
        {"b": 1, "a": 1, "az": 1, "ax": 1},  # four of at most three
    ],
)
def test_what_the_node_forbids_does_not_hide_other_options(value: Any) -> None:
    """Required, closed, bounded: each makes the first option not fit, so that the second is had."""
    closed = Object((member("a", 2), member("b", 2, required=True)), A_WORDS, (2,), 0, 3)
    made = grammar(Union((1, 3)), closed, Literals((b"1",)), Object((), A_WORDS_OR_ANY, (4,)),
                   Number(DIGITS))  # fmt: skip
    assert arrange(made, value) == (plain(value),)
    text = arrange(made, {"b": 1, "a": 1, "ax": 1})
    assert text == ('{"a": 1, "b": 1, "ax": 1}',)


A_WORDS_OR_ANY = Automaton((0,), (0,), ((0,),), (0,))


@pytest.mark.parametrize("items", [["x"], ["x", "x"], ["x", "y", "z"], ["x", "w"]])
def test_distinct_literals_fit_where_distinct_and_within_bounds(items: list[str]) -> None:
    """The other option shows whether the first fitted: it spells the second literal otherwise."""
    distinct = DistinctLiterals((b'"x"', b'"y"', b'"z"'), 2, 2)
    made = grammar(Union((1, 2)), distinct, Array((), 3), Literals((b'"\\u0078"', b'"y"')))
    spelt = ["\\u0078" if item == "x" else item for item in items]
    joined = ", ".join(f'"{item}"' for item in spelt)
    if set(items) <= {"x", "y"}:
        assert arrange(made, items) == (f"[{joined}]",)
    else:
        assert plain(items) in arrange(made, items)
    assert arrange(made, ["y", "x"]) == ('["y", "x"]',)


def test_a_lone_surrogate_is_asked_about_as_an_escape() -> None:
    """It has no UTF-8; the text can still be put to a machine, which has to refuse it."""
    assert arrange(grammar(Text()), "\ud800") == ('"\\ud800"',)
    assert arrange(grammar(Object((), A_WORDS_OR_ANY, (1,)), Text()), {"\udc00": "é"}) == (
        '{"\\udc00": "é"}',
    )


@pytest.mark.parametrize(
    ("value", "spellings"),
    [
        (0, ("0", "0.0", "0e0")),
        (-0.0, ("0", "0.0", "0e0")),
        (120, ("120", "120.0", "1.2e2")),
        (-0.05, ("-0.05", "-5e-2")),
        (1.25, ("1.25", "1.25e0")),
        (Decimal("1E+3"), ("1000", "1000.0", "1e3")),
        (Decimal("1E+999"), ("1e999",)),
    ],
)
def test_spellings_of_numbers(value: Any, spellings: tuple[str, ...]) -> None:
    """Exact, without exponent first; an enormous exponent is not written out."""
    assert number_spellings(value) == spellings


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_every_spelling_is_the_same_number(value: float) -> None:
    """Read exactly, none differs from the value's own shortest text."""
    exact = Decimal(repr(value))
    for text in number_spellings(value):
        assert Decimal(text) == exact
        json.loads(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"a": [float("-inf")]}])
def test_what_is_no_json_value_is_refused(value: Any) -> None:
    """Python's json would write NaN."""
    with pytest.raises(ValueError, match="is no JSON"):
        plain(value)


ANY = grammar(
    Union((1, 2, 3, 4, 5)),
    Literals((b"false", b"null", b"true")),
    Text(),
    Number(
        Automaton(
            (0, 43, 44, 45, 47, 48, 58, 69, 70, 101, 102),
            (0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0),
            ((-1, 0),),
            (0,),
        )
    ),
    Array((), 0),
    Object((), A_WORDS_OR_ANY, (0,)),
)


@given(VALUES)
def test_whatever_the_order_the_value_stays_the_same(value: Any) -> None:
    """Through a grammar that takes everything, and spelt plainly."""
    texts = arrange(ANY, value)
    assert len(texts) == 1
    assert same_value(json.loads(texts[0], parse_float=Decimal), value)
    assert same_value(json.loads(plain(value), parse_float=Decimal), value)


@given(VALUES, VALUES)
def test_equality_is_that_of_canonical_texts(one: Any, other: Any) -> None:
    """Against another definition: sorted keys, exact numbers, types apart."""

    def canonical(value: Any) -> Any:
        match value:
            case bool() | None | str():
                return (type(value).__name__, value)
            case int() | float():
                return Decimal(repr(value)) + 0
            case list():
                return [canonical(item) for item in value]
        return {key: canonical(item) for key, item in value.items()}

    assert same_value(one, other) == (canonical(one) == canonical(other))
    assert same_value(one, json.loads(plain(one)))
