"""The radix trie over token strings: its language is exactly what it was built from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.errors import GrammarError
from catalog_compiler.grammar import NONE_LEAF, TRIE_ARRAYS, NameTrie, trie_from_sequences

END = 9
bodies = st.sets(
    st.lists(st.integers(0, 4), min_size=1, max_size=6).map(tuple), min_size=1, max_size=24
)


def build(names: list[tuple[int, ...]]) -> NameTrie:
    """Build over names closed by `END`; the last is "no tool fits"."""
    tools = [*range(len(names) - 1), NONE_LEAF]
    return trie_from_sequences([(*name, END) for name in names], tools)


@given(bodies, st.data())
def test_it_accepts_exactly_the_names(names: set[tuple[int, ...]], data: st.DataObject) -> None:
    """Every name leads to its own leaf; cut, lengthened and altered strings lead nowhere."""
    ordered = data.draw(st.permutations(sorted(names)))
    trie = build(ordered)
    closed = {(*name, END) for name in ordered}
    for index, name in enumerate(ordered):
        leaf = trie.walk((*name, END))
        assert leaf is not None
        assert trie.leaf_tool[leaf] == (index if index < len(ordered) - 1 else NONE_LEAF)
    strings = {text[:cut] for text in closed for cut in range(len(text))}
    strings |= {(*text, extra) for text in closed for extra in (0, END)}
    strings.add(tuple(data.draw(st.lists(st.integers(0, END), max_size=8))))
    assert all(trie.walk(text) is None for text in strings - closed)


@given(bodies)
def test_its_language_by_brute_force(names: set[tuple[int, ...]]) -> None:
    """Of all strings over a tiny alphabet up to length four, only the names are accepted."""
    short = sorted({tuple(token % 2 for token in name[:3]) for name in names})
    trie = build(short)
    accepted = {
        text
        for length in range(5)
        for text in itertools.product((0, 1, END), repeat=length)
        if trie.walk(text) is not None
    }
    assert accepted == {(*name, END) for name in short}
    assert list(trie.sequences()) == sorted(accepted)


@given(bodies)
def test_leaf_ranges_and_layout(names: set[tuple[int, ...]]) -> None:
    """A node's leaf range holds exactly the leaves below it; inner nodes branch."""
    trie = build(sorted(names))

    def leaves_below(node: int) -> list[int]:
        lo, hi = trie.edge_offsets[node], trie.edge_offsets[node + 1]
        if lo == hi:
            return [int(trie.leaf_lo[node])]
        assert hi - lo >= 2
        children = trie.edge_nodes[lo:hi].tolist()
        return [leaf for child in children for leaf in leaves_below(child)]

    for node in range(trie.nodes):
        below = list(range(trie.leaf_lo[node], trie.leaf_hi[node]))
        assert leaves_below(node) == below
    assert all(array.dtype == np.int32 for array in trie.to_arrays().values())


def test_one_sequence_is_a_forced_run() -> None:
    """With a single leaf nothing is left to choose."""
    trie = trie_from_sequences([(5, 6, 7)], [NONE_LEAF])
    assert trie.root_run.tolist() == [5, 6, 7]
    assert trie.edges == 0
    assert trie.walk((5, 6, 7)) == 0
    assert trie.walk((5, 6)) is None
    assert trie.walk((5, 6, 7, 8)) is None


def test_common_beginning_goes_into_the_root_run() -> None:
    """What all share is forced once; a name inside another is told apart by the delimiter."""
    trie = build([(1, 2), (1, 2, 3), (1, 4, 4)])
    assert trie.root_run.tolist() == [1]
    assert trie.edge_tokens.tolist() == [2, 4, 3, END]
    assert trie.leaf_tool.tolist() == [1, 0, NONE_LEAF]


@pytest.mark.parametrize(
    ("sequences", "message"),
    [([], "at least one"), ([(1, 2), (1, 2, 3)], "beginning"), ([(1, 2), (1, 2)], "beginning")],
)
def test_unsound_sequences_are_refused(sequences: list[tuple[int, ...]], message: str) -> None:
    """Nothing, a prefix and a repetition have no trie."""
    with pytest.raises(GrammarError, match=message):
        trie_from_sequences(sequences, list(range(len(sequences))))


@given(bodies, st.sampled_from(TRIE_ARRAYS), st.integers(0, 10**6), st.integers(-3, 40))
def test_altered_arrays_are_refused_or_still_a_trie(
    names: set[tuple[int, ...]], which: str, place: int, value: int
) -> None:
    """No altered array gets past the check unless what it says is again one radix trie."""
    trie = build(sorted(names))
    arrays = {name: array.copy() for name, array in trie.to_arrays().items()}
    if not len(arrays[which]):
        return
    arrays[which][place % len(arrays[which])] = value
    try:
        altered = NameTrie.from_arrays(arrays)
    except GrammarError:
        return
    language = list(altered.sequences())
    assert [altered.walk(text) for text in language] == list(range(trie.leaves))


def test_missing_and_foreign_arrays_are_refused() -> None:
    """A missing array, another type and another shape are named."""
    arrays = build([(1,), (2,)]).to_arrays()
    for wrong in (None, np.zeros(2), np.zeros((2, 2), dtype=np.int32)):
        broken = dict(arrays)
        del broken["leaf_lo"]
        if wrong is not None:
            broken["leaf_lo"] = wrong  # type: ignore[assignment]
        with pytest.raises(GrammarError, match="leaf_lo"):
            NameTrie.from_arrays(broken)
