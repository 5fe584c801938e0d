"""The name grammar as the decoder is handed it: a radix trie in flat arrays.

Owns `Trie` (validated arrays) and `AllowedTrie` (the same under a mask of allowed leaves). Never
knows a tool or a tokenizer. The layout is written down in `docs/structures.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from decoder.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from decoder.kernels.base import I32, I64


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A radix trie; node 0 is the root, and a node without edges is a leaf. All arrays int32.

    Attributes:
        root_run: (r,) tokens forced before the first choice.
        edge_offsets: (nodes+1,) edges of node n are edge_offsets[n]:edge_offsets[n+1].
        edge_tokens: (edges,) the token of each edge that is scored; ascending within a node.
        edge_nodes: (edges,) the node each edge leads to.
        run_offsets: (edges+1,) into run_tokens.
        run_tokens: forced tokens that follow edge_tokens[e].
        leaf_lo: (nodes,) first leaf below each node.
        leaf_hi: (nodes,) one past the last leaf below each node.
        depth: tokens of the longest way to a leaf (worked out here).
        lowest_token: the smallest token anywhere in it, 0 where it has none (worked out here).
        highest_token: the largest token anywhere in it, 0 where it has none (worked out here).

    """

    root_run: I32
    edge_offsets: I32
    edge_tokens: I32
    edge_nodes: I32
    run_offsets: I32
    run_tokens: I32
    leaf_lo: I32
    leaf_hi: I32
    depth: int = field(init=False)
    lowest_token: int = field(init=False)
    highest_token: int = field(init=False)

    def __post_init__(self) -> None:
        """Refuse arrays that contradict one another.

        Raises:
            RequestError: naming the array.

        """
        nodes, edges = len(self.leaf_lo), len(self.edge_tokens)
        checks = {
            "edge_offsets": len(self.edge_offsets) == nodes + 1
            and self.edge_offsets[0] == 0
            and self.edge_offsets[-1] == edges
            and bool((np.diff(self.edge_offsets) >= 0).all()),
            "leaf_hi": len(self.leaf_hi) == nodes and bool((self.leaf_hi > self.leaf_lo).all()),
            "edge_nodes": len(self.edge_nodes) == edges == nodes - 1
            and bool(((self.edge_nodes > 0) & (self.edge_nodes < nodes)).all()),
            "run_offsets": len(self.run_offsets) == edges + 1
            and self.run_offsets[0] == 0
            and self.run_offsets[-1] == len(self.run_tokens)
            and bool((np.diff(self.run_offsets) >= 0).all()),
            "leaf_lo": nodes > 0 and int(self.leaf_lo[0]) == 0,
        }
        for name, sound in checks.items():
            if not sound:
                raise RequestError(f"the trie's {name} contradicts its other arrays; recompile it")
        self._check_order()
        object.__setattr__(self, "depth", self._longest_path())
        tokens = np.concatenate([self.root_run, self.edge_tokens, self.run_tokens])
        object.__setattr__(self, "lowest_token", int(tokens.min()) if tokens.size else 0)
        object.__setattr__(self, "highest_token", int(tokens.max()) if tokens.size else 0)

    def _check_order(self) -> None:
        """Refuse children that do not share out their parent's leaves in ascending order."""
        width = np.diff(self.edge_offsets)
        lo, hi = self.leaf_lo[self.edge_nodes], self.leaf_hi[self.edge_nodes]
        inner = np.flatnonzero(width)
        first, last = self.edge_offsets[inner], self.edge_offsets[inner + 1] - 1
        follows = np.ones(len(self.edge_tokens), np.bool_)
        follows[first] = False  # an edge that has one of the same node before it
        later = np.flatnonzero(follows)
        shared = (
            ((self.leaf_hi - self.leaf_lo)[width == 0] == 1).all()
            and (lo[first] == self.leaf_lo[inner]).all()
            and (hi[last] == self.leaf_hi[inner]).all()
            and (lo[later] == hi[later - 1]).all()
        )
        if not shared:
            raise RequestError(
                "the trie's leaf_lo and leaf_hi do not share a node's leaves out among its "
                "children; recompile it"
            )
        if not (self.edge_tokens[later] > self.edge_tokens[later - 1]).all():
            raise RequestError(
                "the trie's edge_tokens are not ascending within a node; recompile it"
            )

    def _longest_path(self) -> int:
        """Return the tokens of the longest way from the root to a leaf."""
        nodes = len(self.leaf_lo)
        source = np.repeat(np.arange(nodes), np.diff(self.edge_offsets)).tolist()
        length = (1 + np.diff(self.run_offsets)).tolist()
        target = self.edge_nodes.tolist()
        depth = [len(self.root_run)] * nodes
        for edge in np.argsort(self.edge_nodes, kind="stable").tolist():
            if source[edge] >= target[edge]:
                raise RequestError("the trie's nodes are not in depth-first order; recompile it")
            depth[target[edge]] = depth[source[edge]] + length[edge]
        return max(depth)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return int(self.leaf_hi[0])


@dataclass(frozen=True, slots=True)
class Branch:
    """A node with at least two allowed children, and how one gets there from its parent branch.

    Attributes:
        node: the trie node; its children are what the model scores.
        tokens: forced and scored tokens from the parent branch (or the prompt's end) to here.
        leaves: allowed leaves below.

    """

    node: int
    tokens: tuple[int, ...]
    leaves: int


@dataclass(frozen=True, slots=True, eq=False)
class AllowedTrie:
    """A trie of which only some leaves may be reached.

    Args:
        trie: the grammar.
        allowed: (leaves,) bool, or None where every leaf may be reached.

    Raises:
        RequestError: a mask of another length, or one that allows nothing.

    """

    trie: Trie
    allowed: NDArray[np.bool_] | None = None
    _leaves: I64 | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Turn the mask into the sorted leaf numbers: few, however many leaves there are."""
        object.__setattr__(self, "_leaves", None if self.allowed is None else self._unmasked())

    def _unmasked(self) -> I64:
        mask, leaves = self.allowed, self.trie.leaves
        assert mask is not None
        if mask.shape != (leaves,) or mask.dtype != np.bool_:
            raise RequestError(
                f"the mask of allowed leaves is {mask.dtype} {mask.shape}; the trie takes bool "
                f"({leaves},)"
            )
        found = np.flatnonzero(mask)
        if not len(found):
            raise RequestError("no leaf of the trie is allowed; allow at least one tool")
        return found

    @property
    def allowed_leaves(self) -> int:
        """How many leaves may be reached."""
        return self.trie.leaves if self._leaves is None else len(self._leaves)

    def count(self, node: int) -> int:
        """Return how many allowed leaves lie below the node."""
        lo, hi = self.trie.leaf_lo[node], self.trie.leaf_hi[node]
        if self._leaves is None:
            return int(hi - lo)
        first, end = self._leaves.searchsorted((lo, hi))
        return int(end - first)

    def only_leaf(self, node: int) -> int:
        """Return the first allowed leaf below the node (the only one where count is 1)."""
        lo = int(self.trie.leaf_lo[node])
        return lo if self._leaves is None else int(self._leaves[self._leaves.searchsorted(lo)])

    def edges(self, node: int) -> I64:
        """Return the node's edges below which a leaf is allowed, ascending by token: (e,)."""
        trie = self.trie
        start, stop = int(trie.edge_offsets[node]), int(trie.edge_offsets[node + 1])
        if self._leaves is None or start == stop:
            return np.arange(start, stop)
        first, end = self._leaves.searchsorted((trie.leaf_lo[node], trie.leaf_hi[node]))
        # The edges of a node share its leaves out in ascending order, so each allowed leaf finds
        # the edge it lies under; leaves of one edge stand side by side.
        begins = trie.leaf_lo[trie.edge_nodes[start:stop]]
        under = begins.searchsorted(self._leaves[first:end], side="right") - 1
        new = np.ones(len(under), np.bool_)
        np.not_equal(under[1:], under[:-1], out=new[1:])
        return under[new] + start

    def root_branch(self) -> Branch | None:
        """Return the first branch from the root, or None where one leaf alone is allowed."""
        return self._descend(0, tuple(int(t) for t in self.trie.root_run))

    def branch_below(self, edge: int) -> Branch | None:
        """Return the next branch along the edge, or None where one leaf alone lies there."""
        return self._descend(int(self.trie.edge_nodes[edge]), self._edge_tokens(edge))

    def _edge_tokens(self, edge: int) -> tuple[int, ...]:
        trie = self.trie
        run = trie.run_tokens[trie.run_offsets[edge] : trie.run_offsets[edge + 1]]
        return (int(trie.edge_tokens[edge]), *(int(t) for t in run))

    def _descend(self, node: int, tokens: tuple[int, ...]) -> Branch | None:
        leaves = self.count(node)
        if leaves == 1:
            return None
        while len(edges := self.edges(node)) == 1:
            tokens += self._edge_tokens(int(edges[0]))
            node = int(self.trie.edge_nodes[edges[0]])
        return Branch(node, tokens, leaves)
