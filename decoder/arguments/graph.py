"""The automata of the tables as one graph: how far its states are from an end, how many texts.

Owns what is worked out along transitions, for many automata at once, in whole arrays. Never looks
at nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from decoder.arguments.tables import NONE

if TYPE_CHECKING:
    from decoder.arguments.tables import ArgumentTables
    from decoder.kernels.base import I32, I64

NEVER: Final = 1 << 29
"""A distance or depth that nothing has: no text ends from there, no value is that deep."""
MANY: Final = 1 << 20
"""Texts of an automaton beyond which it makes no difference how many there are: more than the keys
that an object can have."""
_SURROGATE_EDGES: Final = (0xD800, 0xE000)
_ALL_CODE_POINTS: Final = 0x110000


class AutomataGraph:
    """The transitions of some automata as edges: source, target, how many characters it takes.

    Args:
        tables: what the rows refer to.
        automata: (n, 5) int32, rows as in the tables.
        accepts: (states,) int32, of their states; a row's first state is a position in it.

    Attributes:
        accepts: the same.
        automaton: (states,) int64: the row that each state is of.
        universal: (states,) int32: 1 where a text may end and every character leads back.

    """

    def __init__(self, tables: ArgumentTables, automata: I32, accepts: I32) -> None:
        self.accepts = accepts
        self._accepting = accepts >= 0
        self.automaton: I64 = np.zeros(len(self.accepts), np.int64)
        self.universal: I32 = np.zeros(len(self.accepts), np.int32)
        sources: list[I64] = [np.zeros(0, np.int64)]
        targets: list[I64] = [np.zeros(0, np.int64)]
        sizes: list[I64] = [np.zeros(0, np.int64)]
        ends = [*automata[1:, 4].tolist(), len(accepts)]
        for k, (interval, interval_end, width, entry, state) in enumerate(automata.tolist()):
            states = ends[k] - state
            self.automaton[state : state + states] = k
            if not states:
                continue
            cover = _characters(tables.interval_starts[interval:interval_end].astype(np.int64))
            size = np.zeros(width, np.int64)
            np.add.at(size, tables.interval_classes[interval:interval_end], cover)
            cells = tables.transitions[entry : entry + states * width].reshape(states, width)
            source, kind = np.nonzero((cells != NONE) & (size > 0))
            back = (cells[:, size > 0] == np.arange(states)[:, None]).all(axis=1)
            ending = self._accepting[state : state + states]
            self.universal[state : state + states] = back & ending
            sources.append(source + state)
            targets.append(cells[source, kind].astype(np.int64) + state)
            sizes.append(size[kind])
        self._source = np.concatenate(sources)  # ascending
        self._target = np.concatenate(targets)
        self._size = np.concatenate(sizes)
        numbers = np.arange(len(self.accepts) + 1)
        self._from_start = np.searchsorted(self._source, numbers)
        self._into = np.argsort(self._target, kind="stable")  # edges by target
        self._into_start = np.searchsorted(self._target[self._into], numbers)

    def distances(self) -> I32:
        """Return each state's least number of characters to an accepting one, or NEVER."""
        distance = np.full(len(self.accepts), NEVER, np.int32)
        front = np.flatnonzero(self._accepting)
        steps = 0
        while len(front):
            distance[front] = steps
            before = np.unique(self._source[self._edges_into(front)])
            front = before[distance[before] == NEVER]
            steps += 1
        return distance

    def counts(self, distance: I32) -> I64:
        """Return how many texts lead from each state to an end, at most MANY."""
        useful = distance[self._target] < NEVER
        waiting = np.bincount(self._source[useful], minlength=len(distance))
        total = self._accepting.astype(np.float64)
        found = np.full(len(distance), MANY, np.int64)
        found[distance == NEVER] = 0
        front = np.flatnonzero((waiting == 0) & (distance < NEVER))
        while len(front):
            found[front] = np.minimum(total[front], MANY).astype(np.int64)
            edges = self._edges_into(front)
            more = self._size[edges] * np.minimum(total[self._target[edges]], MANY)
            np.add.at(total, self._source[edges], more)
            np.subtract.at(waiting, self._source[edges], 1)
            before = np.unique(self._source[edges])
            front = before[waiting[before] == 0]
        return found

    def ways(self, starts: I64, distance: I32) -> I64:
        """Return how many texts lead from some automata's starts to each state, at most MANY.

        States from which no text ends have none.
        """
        useful = (distance[self._source] < NEVER) & (distance[self._target] < NEVER)
        reached = np.zeros(len(distance), np.bool_)
        front = starts[distance[starts] < NEVER]
        while len(front):
            reached[front] = True
            after = np.unique(self._target[self._useful_from(front, useful)])
            front = after[~reached[after]]
        useful &= reached[self._source]
        waiting = np.bincount(self._target[useful], minlength=len(distance))
        total = np.zeros(len(distance), np.float64)
        total[starts] = 1
        found = np.where(reached, MANY, 0).astype(np.int64)
        front = np.flatnonzero(reached & (waiting == 0))
        while len(front):
            found[front] = np.minimum(total[front], MANY).astype(np.int64)
            edges = self._useful_from(front, useful)
            more = self._size[edges] * np.minimum(total[self._source[edges]], MANY)
            np.add.at(total, self._target[edges], more)
            np.subtract.at(waiting, self._target[edges], 1)
            after = np.unique(self._target[edges])
            front = after[waiting[after] == 0]
        return found

    def _edges_into(self, states: I64) -> I64:
        first, end = self._into_start[states], self._into_start[states + 1]
        return np.asarray(self._into[_ranges(first, end)], np.int64)

    def _useful_from(self, states: I64, useful: np.ndarray) -> I64:
        edges = _ranges(self._from_start[states], self._from_start[states + 1])
        return np.asarray(edges[useful[edges]], np.int64)


def _ranges(first: I64, end: I64) -> I64:
    """Return the numbers of all ranges, one after the other."""
    length = end - first
    offset = np.repeat(first - np.cumsum(length) + length, length)
    return np.asarray(offset + np.arange(int(length.sum())), np.int64)


def _characters(starts: I64) -> I64:
    """Return how many code points each interval has, surrogates left out."""
    ends = np.append(starts[1:], _ALL_CODE_POINTS)
    low, high = _SURROGATE_EDGES
    inside = np.clip(np.minimum(ends, high) - np.maximum(starts, low), 0, None)
    return np.asarray(ends - starts - inside, np.int64)
