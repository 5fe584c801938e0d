"""Which values a grammar accepts, node by node."""

from __future__ import annotations

from decimal import Decimal

import pytest

from catalog_compiler.arguments.automaton import Automaton
from catalog_compiler.arguments.member import accepts, spellings
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

AS = Automaton((0, 97, 98), (0, 1, 0), ((-1, 1), (-1, 1)), (-1, 0))
"""One "a" or more."""
DIGIT = Automaton((0, 48, 58), (0, 1, 0), ((-1, 1), (-1, -1)), (-1, 0))


def grammar(*nodes: Node) -> ArgumentGrammar:
    return ArgumentGrammar(nodes)


def test_literals() -> None:
    """A literal is accepted by value; true is not 1."""
    one = grammar(Literals((b"1", b'[null, {"a": 2}]')))
    assert accepts(one, 1.0)
    assert accepts(one, [None, {"a": 2}])
    assert not accepts(one, True)
    assert not accepts(one, [None, {"a": 3}])


def test_text() -> None:
    """Text is counted in code points; a lone surrogate is none."""
    text = grammar(Text(AS, 2, 3))
    assert [accepts(text, "a" * size) for size in range(5)] == [False, False, True, True, False]
    assert accepts(grammar(Text(None, 1, 1)), "😀")
    assert not accepts(grammar(Text()), "\ud800")
    assert not accepts(text, ["a", "a"])


@pytest.mark.parametrize(
    ("number", "texts"),
    [
        (0, ["0", "0.0", "0e0"]),
        (-120, ["-120", "-120.0", "-12e1"]),
        (0.05, ["0.05", "5e-2"]),
        (Decimal("12.50"), ["12.5", "125e-1"]),
        (Decimal("1e999"), ["1e999"]),
    ],
)
def test_spellings(number: float | Decimal, texts: list[str]) -> None:
    """A number is tried as it would be written."""
    assert list(spellings(number)) == texts


def test_number() -> None:
    """A number is accepted where one of its spellings is."""
    digit = grammar(Number(DIGIT))
    assert accepts(digit, 7.0)
    assert not accepts(digit, 10)
    assert not accepts(digit, "7")


def test_arrays() -> None:
    """Items are what their positions say."""
    array = grammar(Array((1,), 2, 1, 3), Text(AS), Number(DIGIT))
    assert accepts(array, ["a", 1, 2])
    assert not accepts(array, [])
    assert not accepts(array, ["a", "a"])
    assert not accepts(array, ["a", 1, 2, 3])
    closed = grammar(Array((1,), None), Text())
    assert not accepts(closed, ["a", "b"])
    distinct = grammar(DistinctLiterals((b"1", b"2"), 1, 2))
    assert accepts(distinct, [2, 1])
    assert not accepts(distinct, [1, 1.0])
    assert not accepts(distinct, [3])


def test_objects() -> None:
    """Declared members, free ones by their key's label, and how many of both."""
    node = Object(
        (Property("x", 1, required=True), Property("y", 1, required=False)), AS, (2,), 2, 3
    )
    either = grammar(node, Union((2, 3)), Number(DIGIT), Text())
    assert accepts(either, {"y": 1, "x": "s"})
    assert accepts(either, {"aa": 1, "x": "s", "a": 2})
    assert not accepts(either, {"aa": "s", "x": "s"})
    assert not accepts(either, {"x": 1})
    assert not accepts(either, {"y": 1, "a": 1})
    assert not accepts(either, {"x": 1, "b": 1})
    assert not accepts(either, {"x": 1, "y": 1, "a": 1, "aa": 1})
