"""How many bytes the shortest text of a node takes.

Owns the sums; nesting that is bounded elsewhere is left out of account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from decoder.arguments.tables import ARRAY, NONE, OBJECT, UNION

if TYPE_CHECKING:
    from collections.abc import Callable

    from decoder.arguments.grammar import Grammar

MAX_KEPT: Final = 1024
"""Tries whose keys are kept; beyond it they are dropped together."""
WORST: Final = 1 << 40
"""Of a node that has no text."""
FREE_KEY_BYTES: Final = 5
"""Of the shortest free key with what follows it, or nearly."""


class Costs:
    """Costs of one grammar's nodes, worked out as they are asked for.

    Args:
        grammar: the tables.
        leaf: gives the bytes of a node that leads to no other.

    """

    def __init__(
        self,
        grammar: Grammar,
        leaf: Callable[[int], int],
    ) -> None:
        self._grammar = grammar
        self._leaf = leaf
        self._costs: dict[int, int] = {}
        self._keys: dict[int, dict[int, bytes]] = {}

    def keys(self, trie: int) -> dict[int, bytes]:
        """Return the declared keys of a trie as they are written, by position."""
        if trie not in self._keys:
            if len(self._keys) > MAX_KEPT:
                self._keys.clear()
            found = self._keys[trie] = {}
            waiting = [(trie, b"")]
            while waiting:
                place, text = waiting.pop()
                found[self._grammar.trie_values[place]] = text
                edges = self._grammar.edges(place)
                waiting += [(target, text + bytes([byte])) for byte, target in edges]
        return self._keys[trie]

    def of(self, node: int) -> int:
        """Return the bytes of a node's shortest text, nesting aside.

        Worked out for all nodes that it leads to at once, by lowering until nothing changes.
        """
        if node not in self._costs:
            found = [node]
            seen = {node}
            for each in found:
                new = [child for child in self._children(each) if child not in seen]
                seen.update(new)
                found += dict.fromkeys(new)
            costs = dict.fromkeys(found, WORST)
            before: dict[int, int] = {}
            while before != costs:
                before = dict(costs)
                for each in reversed(found):
                    costs[each] = min(costs[each], self._node_cost(each, costs))
            self._costs |= costs
        return self._costs[node]

    def _children(self, node: int) -> list[int]:
        grammar = self._grammar
        kind, first, end, rest, *_ = grammar.nodes[node]
        if kind == UNION:
            return grammar.lists[first:end]
        if kind == ARRAY:
            return [*grammar.lists[first:end], *([] if rest == NONE else [rest])]
        if kind == OBJECT:
            free = (value for value, _ in grammar.free_values(node))
            return [*grammar.property_nodes[first:end], *free]
        return []

    def _node_cost(self, node: int, costs: dict[int, int]) -> int:
        grammar = self._grammar
        kind, first, end, rest, low, *_ = grammar.nodes[node]
        if not grammar.fits(node, 0):
            return WORST
        if kind == UNION:
            return min(costs[option] for option in grammar.lists[first:end])
        if kind == ARRAY:
            items = [costs[item] for item in grammar.lists[first:end][:low]]
            further = low - len(items)
            total = sum(items) + (further * costs[rest] if further else 0)
            return min(total + 2 * max(low, 1), WORST)
        if kind == OBJECT:
            total, count = self._members(node, costs)
            return min(total + 2 * max(count, 1), WORST)
        return self._leaf(node)

    def _members(self, node: int, costs: dict[int, int]) -> tuple[int, int]:
        """Return the bytes of the members that there must be, and how many they are."""
        grammar = self._grammar
        row = grammar.object(node)
        keys = {} if row.trie == NONE else self.keys(row.trie)
        required: list[int] = []
        others: list[tuple[int, int]] = []
        for position, value in enumerate(grammar.property_nodes[row.first : row.end]):
            cost = len(keys[position]) + costs[value]
            if grammar.is_required(row, position):
                required.append(cost)
            else:
                others.append((cost, 1))
        for value, texts in grammar.free_values(node):
            others.append((costs[value] + FREE_KEY_BYTES, texts))
        further = max(row.low - len(required), 0)
        total, left = sum(required), further
        for cost, texts in sorted(others):
            taken = min(left, texts)
            total, left = total + taken * cost, left - taken
        return total + left * WORST, len(required) + further
