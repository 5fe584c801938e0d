"""A trie under a mask answers as counting leaf by leaf does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.errors import RequestError
from decoder.trie import AllowedTrie
from tests.decoder.tries import build_trie

NAMES = st.sets(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=30).map(sorted)


@settings(max_examples=150)
@given(NAMES, st.data())
def test_every_node_sees_exactly_its_allowed_leaves(
    names: list[tuple[int, ...]], data: st.DataObject
):
    """Counts, open edges and first leaves are those of the mask, whichever leaves it allows."""
    trie = build_trie(names)
    size = len(names)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    mask[data.draw(st.integers(0, size - 1))] = True
    allowed = AllowedTrie(trie, mask)
    assert allowed.allowed_leaves == int(mask.sum())
    for node in range(len(trie.leaf_lo)):
        below = np.flatnonzero(mask[trie.leaf_lo[node] : trie.leaf_hi[node]]) + trie.leaf_lo[node]
        assert allowed.count(node) == len(below)
        if len(below):
            assert allowed.only_leaf(node) == below[0]
        edges = range(trie.edge_offsets[node], trie.edge_offsets[node + 1])
        assert allowed.edges(node).tolist() == [
            edge for edge in edges if allowed.count(int(trie.edge_nodes[edge]))
        ]


@settings(max_examples=50)
@given(NAMES)
def test_no_mask_is_a_mask_that_allows_all(names: list[tuple[int, ...]]):
    """Without a mask nothing is summed up, and every answer is the same."""
    trie = build_trie(names)
    free, full = AllowedTrie(trie), AllowedTrie(trie, np.ones(len(names), np.bool_))
    assert free.allowed_leaves == full.allowed_leaves == len(names)
    assert free.root_branch() == full.root_branch()
    for node in range(len(trie.leaf_lo)):
        assert free.count(node) == full.count(node)
        assert free.only_leaf(node) == full.only_leaf(node)
        assert free.edges(node).tolist() == full.edges(node).tolist()
    for edge in range(len(trie.edge_tokens)):
        assert free.branch_below(edge) == full.branch_below(edge)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.zeros(2, np.bool_), "no leaf"),
        (np.ones(3, np.bool_), "takes bool"),
        (np.ones((2, 1), np.bool_), "takes bool"),
        (np.ones(2, np.int32), "takes bool"),
    ],
)
def test_a_mask_that_cannot_be_meant_is_refused(mask: np.ndarray, said: str):
    """Nothing allowed, another length, another shape, another type."""
    with pytest.raises(RequestError, match=said):
        AllowedTrie(build_trie([(1, 0), (2, 0)]), mask)
