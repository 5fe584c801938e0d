"""The name trie as plain arrays: built, walked, checked.

Owns the radix layout of docs/structures.md. Never sees a text or a tokenizer: sequences of token
ids come in. A sequence ends with the delimiter's tokens, so none is the beginning of another.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from catalog_compiler.errors import GrammarError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NONE_LEAF: Final = -1
"""What `leaf_tool` holds at the leaf "no tool fits"."""

TRIE_ARRAYS: Final = (
    "root_run",
    "edge_offsets",
    "edge_tokens",
    "edge_nodes",
    "run_offsets",
    "run_tokens",
    "leaf_lo",
    "leaf_hi",
    "leaf_tool",
)

_MAX_INT32: Final = 2**31 - 1

Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class NameTrie:
    """A radix trie over token ids; every array is int32 (meanings in docs/structures.md).

    Attributes:
        root_run: (r,) tokens common to all sequences.
        edge_offsets: (nodes+1,) edges of node n are ``edge_offsets[n]:edge_offsets[n+1]``.
        edge_tokens: (edges,) first token of each edge, ascending within a node.
        edge_nodes: (edges,) node each edge leads to.
        run_offsets: (edges+1,) bounds of each edge's forced run.
        run_tokens: (sum,) forced tokens after the first.
        leaf_lo: (nodes,) first leaf below each node.
        leaf_hi: (nodes,) end of the leaves below each node.
        leaf_tool: (leaves,) tool index of each leaf, `NONE_LEAF` for "no tool fits".

    """

    root_run: Int32Array
    edge_offsets: Int32Array
    edge_tokens: Int32Array
    edge_nodes: Int32Array
    run_offsets: Int32Array
    run_tokens: Int32Array
    leaf_lo: Int32Array
    leaf_hi: Int32Array
    leaf_tool: Int32Array

    @property
    def nodes(self) -> int:
        """How many nodes there are, leaves included."""
        return len(self.leaf_lo)

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return len(self.edge_tokens)

    @property
    def leaves(self) -> int:
        """How many leaves there are: tools and "no tool fits"."""
        return len(self.leaf_tool)

    def to_arrays(self) -> dict[str, Int32Array]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in TRIE_ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> NameTrie:
        """Take arrays as they are (no copy) and check them.

        Raises:
            GrammarError: one is missing, of another type, or they contradict each other.

        """
        taken: dict[str, Int32Array] = {}
        for name in TRIE_ARRAYS:
            array = arrays.get(name)
            if array is None or array.dtype != np.int32 or array.ndim != 1:
                raise GrammarError(f"name trie: {name} is missing or no one-dimensional int32")
            taken[name] = array.view(np.int32)
        trie = cls(**taken)
        trie.check()
        return trie

    def check(self) -> None:
        """Check that the arrays are one radix trie, whoever made them.

        Raises:
            GrammarError: naming what does not hold.

        """
        nodes, edges, leaves = self.nodes, self.edges, self.leaves
        _hold(nodes > 0 and leaves > 0, "it is empty")
        _hold(len(self.edge_offsets) == nodes + 1, "edge_offsets has not nodes + 1 entries")
        _hold(len(self.leaf_hi) == nodes, "leaf_hi has not one entry a node")
        _hold(len(self.edge_nodes) == edges, "edge_nodes has not one entry an edge")
        _hold(len(self.run_offsets) == edges + 1, "run_offsets has not edges + 1 entries")
        _hold(_are_offsets(self.edge_offsets, edges), "edge_offsets do not partition the edges")
        _hold(_are_offsets(self.run_offsets, len(self.run_tokens)), "run_offsets are no partition")
        for tokens in (self.root_run, self.edge_tokens, self.run_tokens):
            _hold(not len(tokens) or int(tokens.min()) >= 0, "a token id is negative")
        _hold(edges == nodes - 1, "the edges do not make a tree")
        _hold(
            bool(np.array_equal(np.sort(self.edge_nodes), np.arange(1, nodes))),
            "the edges do not make a tree",
        )
        fan = np.diff(self.edge_offsets)
        _hold(bool(np.all((fan != 1) | (np.arange(nodes) == 0))), "a node has a single edge")
        source = np.repeat(np.arange(nodes), fan)
        _hold(bool(np.all(self.edge_nodes > source)), "nodes are not in depth-first order")
        same = source[1:] == source[:-1]
        ascending = self.edge_tokens[1:] > self.edge_tokens[:-1]
        _hold(bool(np.all(ascending[same])), "edges are not ascending within a node")
        self._check_leaves(fan)

    def _check_leaves(self, fan: npt.NDArray[np.int32]) -> None:
        width = self.leaf_hi - self.leaf_lo
        ends = fan == 0
        _hold(int(np.count_nonzero(ends)) == self.leaves, "leaves are not the nodes without edges")
        _hold(
            bool(np.array_equal(self.leaf_lo[ends], np.arange(self.leaves)))
            and bool(np.all(width[ends] == 1)),
            "leaves are not numbered in trie order",
        )
        inner = np.flatnonzero(~ends)
        first, last = self.edge_offsets[inner], self.edge_offsets[inner + 1] - 1
        children = self.edge_nodes
        _hold(
            bool(np.array_equal(self.leaf_lo[inner], self.leaf_lo[children[first]]))
            and bool(np.array_equal(self.leaf_hi[inner], self.leaf_hi[children[last]])),
            "a node's leaf range is not that of its children",
        )
        source = np.repeat(np.arange(self.nodes), fan)
        same = source[1:] == source[:-1]
        joined = self.leaf_hi[children[:-1]] == self.leaf_lo[children[1:]]
        _hold(bool(np.all(joined[same])), "children's leaf ranges do not join")
        tools = np.sort(self.leaf_tool)
        _hold(
            bool(np.array_equal(tools, np.arange(NONE_LEAF, self.leaves - 1))),
            'leaf_tool does not name every tool and "no tool fits" once',
        )

    def walk(self, tokens: Sequence[int]) -> int | None:
        """Return the leaf that a whole token string leads to, None where it is no answer."""
        at = len(self.root_run)
        if list(tokens[:at]) != self.root_run.tolist():
            return None
        node = 0
        while True:
            lo, hi = int(self.edge_offsets[node]), int(self.edge_offsets[node + 1])
            if lo == hi:
                return int(self.leaf_lo[node]) if at == len(tokens) else None
            if at == len(tokens):
                return None
            edge = lo + int(np.searchsorted(self.edge_tokens[lo:hi], tokens[at]))
            if edge == hi or int(self.edge_tokens[edge]) != tokens[at]:
                return None
            run = self.run_tokens[self.run_offsets[edge] : self.run_offsets[edge + 1]].tolist()
            at += 1
            if list(tokens[at : at + len(run)]) != run:
                return None
            at += len(run)
            node = int(self.edge_nodes[edge])

    def sequences(self) -> Iterator[tuple[int, ...]]:
        """Yield the whole token string of every leaf, in trie order: the language of the trie."""
        offsets, runs = self.edge_offsets.tolist(), self.run_offsets.tolist()
        first, nodes = self.edge_tokens.tolist(), self.edge_nodes.tolist()
        run_tokens = self.run_tokens.tolist()
        stack: list[tuple[int, tuple[int, ...]]] = [(0, tuple(self.root_run.tolist()))]
        while stack:
            node, path = stack.pop()
            lo, hi = offsets[node], offsets[node + 1]
            if lo == hi:
                yield path
                continue
            for edge in range(hi - 1, lo - 1, -1):
                run = run_tokens[runs[edge] : runs[edge + 1]]
                stack.append((nodes[edge], (*path, first[edge], *run)))


def trie_from_sequences(sequences: Sequence[tuple[int, ...]], tools: Sequence[int]) -> NameTrie:
    """Build the trie and prove that its language is exactly the sequences.

    Args:
        sequences: token ids of each leaf, delimiter included; in any order.
        tools: tool index of each sequence, `NONE_LEAF` for "no tool fits".

    Raises:
        GrammarError: there is none, one is the beginning of another (the delimiter does not keep
            them apart), or there are too many tokens for int32 offsets.

    """
    if not sequences:
        raise GrammarError("a name trie needs at least one sequence")
    if sum(map(len, sequences)) > _MAX_INT32:
        raise GrammarError("the names have more than 2**31 tokens together; split the catalog")
    order = sorted(range(len(sequences)), key=sequences.__getitem__)
    rows = [sequences[i] for i in order]
    common = _common_lengths(rows)
    for left, right, shared in zip(rows, rows[1:], common[1:].tolist(), strict=False):
        if shared == len(left):
            raise GrammarError(
                f"token string {list(left)} is the beginning of {list(right)}; "
                "the delimiter does not keep the names apart"
            )
    trie = _lay_out(rows, common, [tools[i] for i in order])
    trie.check()
    if list(trie.sequences()) != rows:
        raise GrammarError("the name trie does not accept exactly the names; this is a defect")
    return trie


def _common_lengths(rows: Sequence[tuple[int, ...]]) -> npt.NDArray[np.int64]:
    """Return how many leading tokens row i shares with row i-1: (rows,) int64, [0] unused."""
    shared = [0]
    for left, right in itertools.pairwise(rows):
        length = 0
        for a, b in zip(left, right, strict=False):
            if a != b:
                break
            length += 1
        shared.append(length)
    return np.array(shared, dtype=np.int64)


def _lay_out(
    rows: Sequence[tuple[int, ...]], common: npt.NDArray[np.int64], tools: Sequence[int]
) -> NameTrie:
    """Lay nodes out depth first; a node is a range of sorted rows that agree up to its depth."""
    edge_offsets, run_offsets = [0], [0]
    edge_tokens: list[int] = []
    edge_nodes: list[int] = []
    run_tokens: list[int] = []
    leaf_lo: list[int] = []
    leaf_hi: list[int] = []

    def depth_of(lo: int, hi: int) -> int:
        return len(rows[lo]) if hi - lo == 1 else int(common[lo + 1 : hi].min())

    root_depth = depth_of(0, len(rows))
    stack = [(0, len(rows), root_depth, -1)]
    while stack:
        lo, hi, depth, edge_in = stack.pop()
        if edge_in >= 0:
            edge_nodes[edge_in] = len(leaf_lo)
        leaf_lo.append(lo)
        leaf_hi.append(hi)
        if hi - lo > 1:
            cuts = np.flatnonzero(common[lo + 1 : hi] == depth) + lo + 1
            bounds = [lo, *cuts.tolist(), hi]
            children = []
            for left, right in itertools.pairwise(bounds):
                below = depth_of(left, right)
                children.append((left, right, below, len(edge_tokens)))
                edge_tokens.append(rows[left][depth])
                edge_nodes.append(0)
                run_tokens += rows[left][depth + 1 : below]
                run_offsets.append(len(run_tokens))
            stack += reversed(children)
        edge_offsets.append(len(edge_tokens))
    return NameTrie(
        root_run=np.array(rows[0][:root_depth], dtype=np.int32),
        edge_offsets=np.array(edge_offsets, dtype=np.int32),
        edge_tokens=np.array(edge_tokens, dtype=np.int32),
        edge_nodes=np.array(edge_nodes, dtype=np.int32),
        run_offsets=np.array(run_offsets, dtype=np.int32),
        run_tokens=np.array(run_tokens, dtype=np.int32),
        leaf_lo=np.array(leaf_lo, dtype=np.int32),
        leaf_hi=np.array(leaf_hi, dtype=np.int32),
        leaf_tool=np.array(tools, dtype=np.int32),
    )


def _are_offsets(offsets: Int32Array, total: int) -> bool:
    return (
        int(offsets[0]) == 0
        and int(offsets[-1]) == total
        and bool(np.all(offsets[1:] >= offsets[:-1]))
    )


def _hold(condition: bool, otherwise: str) -> None:  # noqa: FBT001 (a condition, no switch)
    if not condition:
        raise GrammarError(f"name trie: {otherwise}; compile the catalog again")
