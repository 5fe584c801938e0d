"""What the tables say about one value, in words that the machine uses.

Owns the rules of objects and arrays: which member may come next, whether it may end here. Both
machines follow them; this one is the definition. Never reads a byte.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder.arguments.automata import Automata
from decoder.arguments.depths import MAX_DEPTH
from decoder.arguments.graph import MANY
from decoder.arguments.tables import NONE

if TYPE_CHECKING:
    from decoder.arguments.facts import TableFacts
    from decoder.arguments.stacks import ArrayFrame, ObjectFrame
    from decoder.arguments.tables import ArgumentTables


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object's row of `nodes`."""

    first: int
    end: int
    trie: int
    keys: int
    values: int
    low: int
    high: int


class Grammar:
    """The tables and what follows from them: what is read often as lists, the rest where it is."""

    def __init__(self, tables: ArgumentTables, facts: TableFacts) -> None:
        self.nodes: list[list[int]] = tables.nodes.tolist()
        self.lists: list[int] = tables.lists.tolist()
        self.property_nodes = tables.property_nodes.data
        self.trie_values = tables.trie_values.data
        self.depth: list[int] = facts.depth.tolist()
        self.automata = Automata(tables, facts)
        self._required: list[int] = facts.required.tolist()
        self._edges = tables.trie_edges.data
        self._bytes = tables.trie_bytes.data
        self._targets = tables.trie_targets.data
        self._leaves = tables.trie_leaves.reshape(-1).data
        self._order = tables.trie_order.data
        self._labels: list[int] = facts.labels.tolist()
        self._label_texts = facts.label_texts.data
        self._levels: list[int] = facts.levels.first.tolist()
        self._level_depths: list[int] = facts.levels.depths.tolist()
        self._level_keys: list[int] = facts.levels.keys.tolist()

    # Tries

    def edges(self, place: int) -> list[tuple[int, int]]:
        """Return the bytes that lead on from a trie node, and where to."""
        low, high = self._edges[place], self._edges[place + 1]
        return list(zip(self._bytes[low:high], self._targets[low:high], strict=True))

    def follow(self, place: int, byte: int) -> int:
        """Return the trie node that the byte leads to, or NONE."""
        return next((target for letter, target in self.edges(place) if letter == byte), NONE)

    def values_below(self, place: int) -> list[int]:
        """Return the values at and below a trie node."""
        low, high = self._leaves[2 * place], self._leaves[2 * place + 1]
        return self._order[low:high].tolist()

    # Arrays

    def item(self, node: int, count: int) -> int:
        """Return the node of item `count`, or NONE where there is none."""
        _, first, end, rest, _, high, *_ = self.nodes[node]
        if high != NONE and count >= high:
            return NONE
        return self.lists[first + count] if count < end - first else rest

    def next_item(self, frame: ArrayFrame) -> int:
        """Return the node of the item that may come next, or NONE."""
        item = self.item(frame.node, frame.count)
        return item if item != NONE and self.fits(item, frame.depth) else NONE

    def fits(self, node: int, depth: int) -> bool:
        """Tell whether a value can begin within `depth` open containers."""
        return self.depth[node] + depth <= MAX_DEPTH

    # Objects

    def object(self, node: int) -> ObjectRow:
        """Return an object's row."""
        return ObjectRow(*self.nodes[node][1:])

    def required(self, row: ObjectRow, start: int) -> int:
        """Return how many required properties there are from one on."""
        return self._required[row.end] - self._required[row.first + start]

    def next_required(self, row: ObjectRow, start: int) -> int:
        """Return the first required property from one on; there is one."""
        before = self._required[row.first + start]
        return bisect_right(self._required, before, row.first + start, row.end) - row.first - 1

    def needs_no_more(self, row: ObjectRow, frame: ObjectFrame) -> bool:
        """Tell whether required properties are to come, and no others need to."""
        needed = self.required(row, frame.next)
        return needed > 0 and frame.count + needed >= row.low

    def may_close(self, frame: ObjectFrame) -> bool:
        """Tell whether the object may end after the members it has."""
        row = self.object(frame.node)
        return frame.count >= row.low and not self.required(row, frame.next)

    def next_properties(self, frame: ObjectFrame) -> list[int]:
        """Return which declared properties may come next."""
        row = self.object(frame.node)
        free = self._free_left(frame)
        nodes = self.property_nodes[row.first : row.end]
        usable = [self.fits(node, frame.depth) for node in nodes]
        later = sum(usable[frame.next :])
        found = []
        for position in range(frame.next, row.end - row.first):
            count = frame.count + 1
            least = count + self.required(row, position + 1)
            later -= usable[position]
            most = count + later + free
            if usable[position] and row.low <= most and (row.high == NONE or least <= row.high):
                found.append(position)
            if self.is_required(row, position):
                break
        return found

    def may_add_free(self, frame: ObjectFrame) -> bool:
        """Tell whether a free member may come next."""
        row = self.object(frame.node)
        free = self._free_left(frame)
        return (
            free > 0
            and not self.required(row, frame.next)
            and (row.high == NONE or frame.count < row.high)
            and frame.count + free >= row.low
        )

    def free_value(self, node: int, label: int) -> int:
        """Return the node of the value of a free key with the label."""
        return self.lists[self.object(node).values + label]

    def _free_left(self, frame: ObjectFrame) -> int:
        """Return how many further free members there can be, at most MANY."""
        keys = self.free_keys(frame.node, frame.depth)
        if keys == NONE:
            return 0
        rests = self.automata[keys].rests(0)
        return rests if rests >= MANY else rests - len(frame.used)

    def free_keys(self, node: int, depth: int) -> int:
        """Return the automaton of the free keys whose values fit, or NONE where there are none.

        Args:
            node: of an object.
            depth: open containers, the object too.

        """
        first, end = self._levels[node], self._levels[node + 1]
        level = bisect_right(self._level_depths, MAX_DEPTH - depth, first, end) - 1
        return NONE if level < first else self._level_keys[level]

    def free_values(self, node: int) -> list[tuple[int, int]]:
        """Return the nodes of free members' values by label, and how many keys have each label."""
        row = self.object(node)
        if row.keys == NONE:
            return []
        first, end = self._labels[row.keys], self._labels[row.keys + 1]
        values = self.lists[row.values : row.values + end - first]
        return list(zip(values, self._label_texts[first:end], strict=True))

    def is_required(self, row: ObjectRow, position: int) -> bool:
        """Tell whether a declared property is required."""
        return self.required(row, position) > self.required(row, position + 1)
