"""What the tables say about one value, in words that the machine uses.

Owns the rules of objects and arrays: which member may come next, whether it may end here. Both
machines follow them; this one is the definition. Never reads a byte.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder.arguments.facts import MANY, MAX_DEPTH, NEVER, TableFacts, facts_of
from decoder.arguments.tables import NONE, ArgumentTables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decoder.arguments.stacks import ArrayFrame, ObjectFrame


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

    def __init__(self, tables: ArgumentTables, facts: TableFacts | None = None) -> None:
        facts = facts or facts_of(tables)
        self.nodes: list[list[int]] = tables.nodes.tolist()
        self.lists: list[int] = tables.lists.tolist()
        self.property_nodes = tables.property_nodes.data
        self.trie_values = tables.trie_values.data
        self.depth: list[int] = facts.depth.tolist()
        self.distance = facts.distance.data
        self._texts = facts.texts.data
        self._required: list[int] = facts.required.tolist()
        self._edges = tables.trie_edges.data
        self._bytes = tables.trie_bytes.data
        self._targets = tables.trie_targets.data
        self._leaves = tables.trie_leaves.reshape(-1).data
        self._order = tables.trie_order.data
        self._automata: list[list[int]] = tables.automata.tolist()
        self._starts = tables.interval_starts.data
        self._classes = tables.interval_classes.data
        self._transitions = tables.transitions.data
        self._accepts = tables.accepts.data
        self._labels: list[int] = facts.labels.tolist()
        self._empty: list[bool] = (tables.state_ends() == tables.automata[:, 4]).tolist()

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

    # Automata; NONE is the one of any text, with one state

    def accepts(self, automaton: int, state: int) -> int:
        """Return the label with which a text may end here, or NONE."""
        if automaton == NONE:
            return 0
        return self._accepts[self._automata[automaton][4] + state]

    def rest(self, automaton: int, state: int) -> int:
        """Return how many characters the shortest rest has, NEVER where there is none."""
        return 0 if automaton == NONE else self.distance[self._automata[automaton][4] + state]

    def rests(self, automaton: int, state: int) -> int:
        """Return how many rests there are, at most MANY."""
        if self._empty[automaton]:
            return 0
        return self._texts[self._automata[automaton][4] + state]

    def step(self, automaton: int, state: int, code_point: int) -> int:
        """Return the next state, or NONE where no text leads on."""
        if automaton == NONE:
            return 0
        first, end, width, entry, _ = self._automata[automaton]
        place = bisect_right(self._starts, code_point, first, end) - 1
        found = self._transitions[entry + state * width + self._classes[place]]
        return found if found != NONE and self.rest(automaton, found) < NEVER else NONE

    def moves(
        self, automaton: int, state: int, ranges: Iterable[tuple[int, int]]
    ) -> list[tuple[int, int, int]]:
        """Return what characters of the ranges lead to: first and last of each run, the state."""
        if automaton == NONE:
            return [(low, high, 0) for low, high in ranges]
        first, end, _, _, _ = self._automata[automaton]
        found = []
        for low, high in ranges:
            start, place = low, bisect_right(self._starts, low, first, end) - 1
            while start <= high:
                last = self._starts[place + 1] - 1 if place + 1 < end else high
                target = self.step(automaton, state, start)
                if target != NONE:
                    found.append((start, min(last, high), target))
                start, place = last + 1, place + 1
        return found

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
        free = self._free_left(row, frame)
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
        free = self._free_left(row, frame)
        return (
            free > 0
            and not self.required(row, frame.next)
            and (row.high == NONE or frame.count < row.high)
            and frame.count + free >= row.low
        )

    def free_value(self, node: int, label: int) -> int:
        """Return the node of the value of a free key with the label."""
        return self.lists[self.object(node).values + label]

    def _free_left(self, row: ObjectRow, frame: ObjectFrame) -> int:
        """Return how many further free members there can be, at most MANY."""
        if row.keys == NONE:
            return 0
        if not all(self.fits(value, frame.depth) for value in self.free_values(frame.node)):
            return 0
        rests = self.rests(row.keys, 0)
        return rests if rests >= MANY else rests - len(frame.used)

    def free_values(self, node: int) -> list[int]:
        """Return the nodes of free members' values."""
        row = self.object(node)
        if row.keys == NONE:
            return []
        return self.lists[row.values : row.values + self._labels[row.keys]]

    def is_required(self, row: ObjectRow, position: int) -> bool:
        """Tell whether a declared property is required."""
        return self.required(row, position) > self.required(row, position + 1)
