"""The walk of one request: best-first search over the trie, exact for any k.

Owns which branches are to be scored next and when the k best leaves are certain. Never runs a
model and never touches memory: it asks for branches and is told their children's logits.

Log-probabilities only fall along a path, so a leaf that leaves the frontier first is certain to be
the best of all that remain (Dijkstra's argument). Which branches were scored ahead of need can
change the work and never the answer.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from decoder.errors import RowFaultError
from decoder.logprob import log_softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from decoder.kernels.base import F32, I32, I64
    from decoder.trie import AllowedTrie, Branch

LOOK_AHEAD_NATS = 7.0
"""Branches this much less probable than the needed one (a thousandth) are not run ahead of need."""

_BRANCH, _LEAF = 0, 1  # at equal probability a branch opens before a leaf is certain


@dataclass(slots=True, eq=False)
class Scored:
    """A branch whose children have log-probabilities, best first (ties by token order)."""

    edges: I64
    logprobs: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Node:
    """A branch in the walk, with its way to the root.

    Attributes:
        branch: where it is in the trie and the tokens from its parent.
        parent: the branch above, None at the first.
        logprob: of the path to here, known once the parent is scored.
        scored: its children, once known.
        children: branches below it that were asked for, by edge.
        path_slots: slots that hold the tokens from the prompt's end to here, once run.

    """

    branch: Branch
    parent: Node | None
    logprob: float = 0.0
    scored: Scored | None = None
    children: dict[int, Node] = field(default_factory=dict)
    path_slots: tuple[int, ...] = ()


class Walk:
    """Best-first search for the `top_k` most probable allowed leaves.

    Args:
        trie: the grammar under the request's mask.
        top_k: how many leaves are wanted; all of them where there are fewer.

    Attributes:
        leaves: leaves found so far, best first.
        logprobs: their log-probabilities, f64.

    """

    def __init__(self, trie: AllowedTrie, top_k: int) -> None:
        self._trie = trie
        self._wanted = min(top_k, trie.allowed_leaves)
        self.leaves: list[int] = []
        self.logprobs: list[float] = []
        self.root: Node | None = None
        # (-logprob, kind, leaf order, serial, node, rank of its child that comes next or -1)
        self._frontier: list[tuple[float, int, int, int, Node | None, int]] = []
        self._serial = 0
        first = trie.root_branch()
        if first is None:
            self._push(0.0, _LEAF, trie.only_leaf(0), None, -1)
        else:
            self.root = Node(first, None)
            self._push_branch(self.root)
        self.advance()

    @property
    def done(self) -> bool:
        """Whether the wanted leaves are all certain."""
        return len(self.leaves) == self._wanted

    def wanted_nodes(self, token_budget: int, guess_budget: int) -> list[Node]:
        """Return unscored branches to run in the next pass, the needed one first.

        Args:
            token_budget: most tokens.
            guess_budget: most tokens where some branches may turn out unneeded; where every leaf
                is wanted, every branch is needed.

        Parents come before their children. Tokens add up to no more than the budget, save that
        the first branch is always there. What is chosen beyond the first is a guess about what
        will be needed: the most probable branches known, then branches below unscored ones in
        order of how many allowed leaves they lead to.

        """
        if self._wanted < self._trie.allowed_leaves:
            token_budget = min(token_budget, guess_budget)
        chosen, spent = self._probable(token_budget)
        queue = [(-node.branch.leaves, order, node) for order, node in enumerate(chosen)]
        heapq.heapify(queue)
        serial = len(queue)
        while queue and spent < token_budget:
            _, _, node = heapq.heappop(queue)
            for edge in self._trie.edges(node.branch.node)[: token_budget - spent]:
                child = self._child(node, int(edge))
                if child is None or spent + len(child.branch.tokens) > token_budget:
                    continue
                chosen.append(child)
                spent += len(child.branch.tokens)
                serial += 1
                heapq.heappush(queue, (-child.branch.leaves, serial, child))
        return chosen

    def _probable(self, token_budget: int) -> tuple[list[Node], int]:
        """Look ahead along the frontier, most probable first, without changing it."""
        ahead = [entry for entry in self._frontier if entry[4] is not None]
        heapq.heapify(ahead)
        chosen: list[Node] = []
        spent, best, serial = 0, 0.0, self._serial
        while ahead:
            negative, _, _, _, node, rank = heapq.heappop(ahead)
            assert node is not None
            if chosen and negative > best + LOOK_AHEAD_NATS:
                break
            if node.scored is None:
                cost = len(node.branch.tokens)
                if chosen and spent + cost > token_budget:
                    break
                best = negative if not chosen else best
                chosen.append(node)
                spent += cost
                continue
            if rank >= 0:
                child = self._child(node, int(node.scored.edges[rank]))
                if child is not None and child.scored is None:
                    serial += 1
                    heapq.heappush(ahead, (negative, _BRANCH, 0, serial, child, -1))
            if rank + 1 < len(node.scored.edges):
                serial += 1
                logprob = node.logprob + float(node.scored.logprobs[rank + 1])
                heapq.heappush(ahead, (-logprob, _BRANCH, 0, serial, node, rank + 1))
        return chosen, spent

    def child_edges(self, node: Node) -> I64:
        """Return the edges whose tokens are to be scored at the node."""
        return self._trie.edges(node.branch.node)

    def edge_tokens(self, edges: I64) -> I32:
        """Return the scored token of each edge: (e,) int32."""
        return self._trie.trie.edge_tokens[edges]

    def score(self, node: Node, edges: I64, logits: F32) -> None:
        """Take the logits (e,) f32 of the node's allowed edges (e,).

        Raises:
            RowFaultError: a logit is not finite.

        """
        if not np.isfinite(logits).all():
            raise RowFaultError(
                "the model gave a logit that is not finite; the request was given up, and the "
                "others in its pass are untouched"
            )
        logprobs = log_softmax(logits)
        order = np.argsort(-logprobs, kind="stable")
        node.scored = Scored(edges[order], logprobs[order])

    def advance(self) -> None:
        """Take from the frontier all that is certain by now."""
        while not self.done:
            negative, kind, leaf, _, node, rank = self._frontier[0]
            if kind == _LEAF:
                heapq.heappop(self._frontier)
                self.leaves.append(leaf)
                self.logprobs.append(-negative)
                continue
            assert node is not None
            if node.scored is None:
                return
            heapq.heappop(self._frontier)
            if rank >= 0:
                self._open_child(node, rank)
            self._push_cursor(node, rank + 1)

    def _push_cursor(self, node: Node, rank: int) -> None:
        """Let a scored branch stand in the frontier under its best unopened child.

        So a branch with thousands of children costs one entry, not thousands.
        """
        scored = node.scored
        assert scored is not None
        if rank < len(scored.edges):
            target = int(self._trie.trie.edge_nodes[scored.edges[rank]])
            order = int(self._trie.trie.leaf_lo[target])
            self._push(node.logprob + float(scored.logprobs[rank]), _BRANCH, order, node, rank)

    def _open_child(self, node: Node, rank: int) -> None:
        scored = node.scored
        assert scored is not None
        edge = int(scored.edges[rank])
        logprob = node.logprob + float(scored.logprobs[rank])
        child = self._child(node, edge)
        if child is None:
            target = int(self._trie.trie.edge_nodes[edge])
            self._push(logprob, _LEAF, self._trie.only_leaf(target), None, -1)
        else:
            child.logprob = logprob
            self._push_branch(child)

    def _push_branch(self, node: Node) -> None:
        order = int(self._trie.trie.leaf_lo[node.branch.node])
        self._push(node.logprob, _BRANCH, order, node, -1)

    def _push(self, logprob: float, kind: int, order: int, node: Node | None, rank: int) -> None:
        self._serial += 1
        heapq.heappush(self._frontier, (-logprob, kind, order, self._serial, node, rank))

    def _child(self, node: Node, edge: int) -> Node | None:
        if edge in node.children:
            return node.children[edge]
        branch = self._trie.branch_below(edge)
        if branch is None:
            return None
        child = Node(branch, node)
        node.children[edge] = child
        return child
