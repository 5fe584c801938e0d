"""Grammars go into one pool and come out the same; equal parts are stored once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.arguments.automaton import Automaton
from catalog_compiler.arguments.cycles import components
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
from catalog_compiler.arguments.tables import ArgumentPool, children, grammar_at
from catalog_compiler.arguments.tries import TriePool, trie_texts
from catalog_compiler.errors import ArtifactError

DIGITS = Automaton((0, 48, 58), (0, 1, 0), ((-1, 1), (-1, 1)), (-1, 0))
KEYS = Automaton((0, 97, 98), (0, 1, 0), ((2, 1), (2, 2), (2, 2)), (-1, 1, 0))
WORDS = Literals((b'"no"', b'"yes"', b"1", b"12"))

ANY = ArgumentGrammar(
    (
        Union((1, 2, 3, 4, 5)),
        Literals((b"false", b"null", b"true")),
        Text(),
        Number(DIGITS),
        Array((), 0),
        Object((), KEYS, (0, 0)),
    )
)
"""Every array and object leads back to the first node."""


def city(extra: Node) -> ArgumentGrammar:
    members = (Property("city", 1, required=True), Property('a "b"\n', 2, required=False))
    return ArgumentGrammar((Object(members, KEYS, (2, 3), 1, 9), Text(None, 1, 5), WORDS, extra))


def test_what_goes_in_comes_out() -> None:
    """Nodes of every kind, with and without bounds, shared and recursive."""
    grammars = [
        city(DistinctLiterals((b'"a"', b'"b"'), 1, 2)),
        city(Array((), None)),
        ANY,
        ArgumentGrammar((Array((1, 1), 2, 2, 7), Text(DIGITS, 0, None), Number(DIGITS))),
    ]
    pool = ArgumentPool()
    roots = [pool.add(grammar) for grammar in grammars]
    arrays = pool.to_arrays()
    assert all(array.dtype == np.int32 for array in arrays.values())
    for root, grammar in zip(roots, grammars, strict=True):
        assert same(grammar_at(arrays, root), grammar)


def same(left: ArgumentGrammar, right: ArgumentGrammar) -> bool:
    """Whether two graphs are the same but for the order of their nodes."""
    paired: dict[int, int] = {left.root: right.root}
    waiting = [left.root]
    for position in waiting:
        mine, other = left.nodes[position], right.nodes[paired[position]]
        below = list(zip(children(mine), children(other), strict=True))
        for one, two in below:
            if one not in paired:
                paired[one] = two
                waiting.append(one)
            elif paired[one] != two:
                return False
        if blank(mine) != blank(other):
            return False
    return True


def blank(node: Node) -> object:
    """Return the node without its children's numbers."""
    match node:
        case Union(options):
            return ("union", len(options))
        case Array(prefix, rest, low, high):
            return ("array", len(prefix), rest is None, low, high)
        case Object(properties, keys, values, low, high):
            return ([(m.key, m.required) for m in properties], keys, len(values), low, high)
    return node


def test_equal_parts_are_stored_once() -> None:
    """The same grammar twice is one; two that share nodes share their rows, also in cycles."""
    pool = ArgumentPool()
    first = pool.add(city(Array((), None)))
    size = len(pool.to_arrays()["nodes"])
    assert pool.add(city(Array((), None))) == first
    assert len(pool.to_arrays()["nodes"]) == size
    pool.add(city(DistinctLiterals((b"1",), 0, 1)))
    arrays = pool.to_arrays()
    assert len(arrays["nodes"]) == size + 2  # the object and its new part
    assert len(arrays["automata"]) == 1
    root = pool.add(ANY)
    size = len(pool.to_arrays()["nodes"])
    assert pool.add(ANY) == root
    wrapped = ArgumentGrammar((Array((1,), None, 1), *shifted(ANY, 1)))
    pool.add(wrapped)
    assert len(pool.to_arrays()["nodes"]) == size + 1


def shifted(grammar: ArgumentGrammar, by: int) -> tuple[Node, ...]:
    return (
        Union(tuple(option + by for option in (1, 2, 3, 4, 5))),
        *grammar.nodes[1:4],
        Array((), by),
        Object((), KEYS, (by, by)),
    )


def test_two_cycles_that_differ_are_kept_apart() -> None:
    """A list of lists and a list of lists that may not be empty."""
    pool = ArgumentPool()
    loose = pool.add(ArgumentGrammar((Array((), 0),)))
    pair = ArgumentGrammar((Array((), 1), Array((), 0, 0, 3)))
    other = pool.add(pair)
    assert other != loose
    assert same(grammar_at(pool.to_arrays(), other), pair)
    assert grammar_at(pool.to_arrays(), loose) == ArgumentGrammar((Array((), 0),))


@given(st.sets(st.binary(min_size=1, max_size=5), min_size=1, max_size=30))
def test_a_trie_gives_its_texts_back(texts: set[bytes]) -> None:
    """By value, in the order of adding; the values below each node are a range of the order."""
    pool = TriePool()
    given_texts = sorted(texts, key=lambda text: text[::-1])
    pool.add([b"before"])
    root = pool.add(given_texts)
    assert pool.add(list(given_texts)) == root
    arrays = pool.to_arrays()
    assert trie_texts(arrays, root) == given_texts
    low, high = arrays["trie_leaves"][root]
    assert sorted(arrays["trie_order"][low:high]) == list(range(len(given_texts)))
    for node in range(root, len(arrays["trie_values"])):
        low, high = arrays["trie_leaves"][node]
        below = set(trie_texts_below(arrays, node))
        assert set(arrays["trie_order"][low:high].tolist()) == below


def trie_texts_below(arrays: dict[str, np.ndarray], node: int) -> list[int]:
    found = [int(arrays["trie_values"][node])] if arrays["trie_values"][node] >= 0 else []
    for edge in range(arrays["trie_edges"][node], arrays["trie_edges"][node + 1]):
        found += trie_texts_below(arrays, int(arrays["trie_targets"][edge]))
    return found


@pytest.mark.parametrize("texts", [[], [b""], [b"a", b"a"]])
def test_a_trie_refuses_texts_that_cannot_be_told_apart(texts: list[bytes]) -> None:
    """None at all, an empty one, one that comes twice."""
    with pytest.raises(ValueError, match="distinct texts"):
        TriePool().add(texts)


def test_components_come_after_what_they_lead_to() -> None:
    """And a chain of fifty thousand takes no recursion."""
    assert components([[1, 2], [2], [1, 3], []], 0) == [[3], [1, 2], [0]]
    chain = [[place + 1] for place in range(50_000)] + [[]]
    assert len(components(chain, 0)) == 50_001
    ring = [[(place + 1) % 50_000] for place in range(50_000)]
    assert components(ring, 0) == [list(range(50_000))]


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("nodes", (0, 0), 9), ("trie_targets", 0, 0), ("trie_values", 3, 0), ("nodes", (0, 1), 10**6)],
)
def test_malformed_tables_are_refused(name: str, place: int | tuple[int, int], value: int) -> None:
    """Naming the node."""
    pool = ArgumentPool()
    root = pool.add(ArgumentGrammar((WORDS,)))
    arrays = pool.to_arrays()
    arrays[name][place] = value
    with pytest.raises(ArtifactError, match="node 0"):
        grammar_at(arrays, root)
