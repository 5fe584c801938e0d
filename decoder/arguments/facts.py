"""What follows from the argument tables: how far each state is from an end, how deep nodes go.

Owns the facts that keep the machine out of dead ends: a text's shortest rest, how many keys are
left, the least nesting of a value. Worked out once for all grammars of a catalog, in whole arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from decoder.arguments.tables import (
    ARRAY,
    DISTINCT,
    LITERALS,
    NONE,
    NUMBER,
    OBJECT,
    TEXT,
    UNION,
    ArgumentTables,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from decoder.kernels.base import I32, I64

NEVER: Final = 1 << 29
"""A distance or depth that nothing has: no text ends from there, no value is that deep."""
MANY: Final = 1 << 20
"""Texts of an automaton beyond which it makes no difference how many there are: more than the keys
that an object can have."""
MAX_DEPTH: Final = 64
"""Containers within one another; a value that needs more is refused before it begins."""
_SURROGATE_EDGES: Final = (0xD800, 0xE000)
_ALL_CODE_POINTS: Final = 0x110000


@dataclass(frozen=True, slots=True, eq=False)
class TableFacts:
    """Facts about the states and nodes of some tables.

    Attributes:
        distance: (states,) int32: characters of the shortest rest from each state, or NEVER.
        farthest: (automata,) int32: the largest distance that is not NEVER, else 0.
        texts: (states,) int64: how many rests there are, at most MANY.
        universal: (states,) int32: 1 where a text may end and every character leads back.
        labels: (automata,) int32: labels that each has, one more than the highest.
        depth: (nodes,) int32: containers within one another in the flattest value; NEVER where
            there is none, or none within MAX_DEPTH.
        required: (properties+1,) int32: required ones before each entry of property_nodes.

    """

    distance: I32
    farthest: I32
    texts: I64
    universal: I32
    labels: I32
    depth: I32
    required: I32


def facts_of(tables: ArgumentTables) -> TableFacts:
    """Work the facts out."""
    graph = _Graph(tables)
    distance = graph.distances()
    texts = graph.counts(distance)
    alive = distance < NEVER
    farthest = np.zeros(len(tables.automata), np.int32)
    np.maximum.at(farthest, graph.automaton[alive], distance[alive])
    labels = np.zeros(len(tables.automata), np.int32)
    np.maximum.at(labels, graph.automaton, tables.accepts + 1)
    required = np.zeros(len(tables.property_required) + 1, np.int32)
    required[1:] = np.cumsum(tables.property_required)
    depth = _depths(tables, distance, texts, labels, required)
    return TableFacts(distance, farthest, texts, graph.universal, labels, depth, required)


class _Graph:
    """The transitions of all automata as edges: source, target, how many characters it takes."""

    def __init__(self, tables: ArgumentTables) -> None:
        self.accepting = tables.accepts >= 0
        self.automaton = np.zeros(len(tables.accepts), np.int64)
        self.universal: I32 = np.zeros(len(tables.accepts), np.int32)
        sources: list[I64] = [np.zeros(0, np.int64)]
        targets: list[I64] = [np.zeros(0, np.int64)]
        sizes: list[I64] = [np.zeros(0, np.int64)]
        for k, (first, end, width, entry, state) in enumerate(tables.automata.tolist()):
            states = tables.states_of(k)[1] - state
            self.automaton[state : state + states] = k
            if not states:
                continue
            starts = tables.interval_starts[first:end].astype(np.int64)
            cover = _characters(starts)
            size = np.zeros(width, np.int64)
            np.add.at(size, tables.interval_classes[first:end], cover)
            cells = tables.transitions[entry : entry + states * width].reshape(states, width)
            source, kind = np.nonzero((cells != NONE) & (size > 0))
            back = (cells[:, size > 0] == np.arange(states)[:, None]).all(axis=1)
            self.universal[state : state + states] = back & self.accepting[state : state + states]
            sources.append(source + state)
            targets.append(cells[source, kind].astype(np.int64) + state)
            sizes.append(size[kind])
        self.source = np.concatenate(sources)
        self.target = np.concatenate(targets)
        self.size = np.concatenate(sizes)
        order = np.argsort(self.target, kind="stable")
        self._into = order  # edges by target
        self._into_start = np.searchsorted(self.target[order], np.arange(len(self.accepting) + 1))

    def distances(self) -> I32:
        """Return each state's least number of characters to an accepting one."""
        distance = np.full(len(self.accepting), NEVER, np.int32)
        front = np.flatnonzero(self.accepting)
        steps = 0
        while len(front):
            distance[front] = steps
            before = np.unique(self.source[self._edges_into(front)])
            front = before[distance[before] == NEVER]
            steps += 1
        return distance

    def counts(self, distance: I32) -> I64:
        """Return how many texts lead from each state to an end, at most MANY."""
        useful = distance[self.target] < NEVER
        waiting = np.bincount(self.source[useful], minlength=len(distance))
        total = self.accepting.astype(np.float64)
        found = np.full(len(distance), MANY, np.int64)
        found[distance == NEVER] = 0
        front = np.flatnonzero((waiting == 0) & (distance < NEVER))
        while len(front):
            found[front] = np.minimum(total[front], MANY).astype(np.int64)
            edges = self._edges_into(front)
            np.add.at(
                total,
                self.source[edges],
                self.size[edges] * np.minimum(total[self.target[edges]], MANY),
            )
            np.subtract.at(waiting, self.source[edges], 1)
            before = np.unique(self.source[edges])
            front = before[waiting[before] == 0]
        return found

    def _edges_into(self, states: I64) -> I64:
        first, end = self._into_start[states], self._into_start[states + 1]
        length = end - first
        offset = np.repeat(first - np.cumsum(length) + length, length)
        return np.asarray(self._into[offset + np.arange(int(length.sum()))], np.int64)


def _characters(starts: I64) -> I64:
    """Return how many code points each interval has, surrogates left out."""
    ends = np.append(starts[1:], _ALL_CODE_POINTS)
    low, high = _SURROGATE_EDGES
    inside = np.clip(np.minimum(ends, high) - np.maximum(starts, low), 0, None)
    return np.asarray(ends - starts - inside, np.int64)


def _depths(tables: ArgumentTables, distance: I32, texts: I64, labels: I32, required: I32) -> I32:
    """Return each node's least depth, by lowering from NEVER until nothing changes."""
    rows = tables.nodes
    kind = rows[:, 0]
    depth = np.full(len(rows), NEVER, np.int64)
    first_states = tables.automata[:, 4]
    filled = tables.state_ends() > first_states
    rest = np.full(len(filled) + 1, NEVER, np.int64)
    rest[:-1][filled] = distance[first_states[filled]]
    rest[NONE] = 0  # any text
    free_texts = np.zeros(len(filled), np.int64)
    free_texts[filled] = texts[first_states[filled]]
    depth[kind == LITERALS] = 0
    strings, numbers = np.flatnonzero(kind == TEXT), np.flatnonzero(kind == NUMBER)
    least, high = rest[rows[strings, 1]], rows[strings, 3]
    depth[strings[(least < NEVER) & ((high == NONE) | (least <= high))]] = 0
    depth[numbers[rest[rows[numbers, 1]] < NEVER]] = 0
    depth[kind == DISTINCT] = 1
    unions, arrays, objects = (np.flatnonzero(kind == k) for k in (UNION, ARRAY, OBJECT))
    held = np.minimum(rows[arrays, 4], rows[arrays, 2] - rows[arrays, 1])
    further = rows[arrays, 4] > rows[arrays, 2] - rows[arrays, 1]
    has_required = required[rows[objects, 2]] - required[rows[objects, 1]]
    short = np.flatnonzero(rows[objects, 6] > has_required)
    must = tables.property_required.astype(np.bool_)
    # A value within the bound nests no further than this, each level perhaps under a union.
    for _ in range(2 * MAX_DEPTH + 3):
        before = depth.copy()
        options = depth[tables.lists]
        depth[unions] = _reduce(np.minimum, options, rows[unions, 1], rows[unions, 2], NEVER)
        items = _reduce(np.maximum, options, rows[arrays, 1], rows[arrays, 1] + held, 0)
        items = np.maximum(items, np.where(further, depth[rows[arrays, 3]], 0))
        depth[arrays] = np.minimum(items + 1, NEVER)
        values = depth[tables.property_nodes]
        needed = np.where(must, values, 0)
        members = _reduce(np.maximum, needed, rows[objects, 1], rows[objects, 2], 0)
        for place in short.tolist():
            row = rows[objects[place]].tolist()
            extra = row[6] - int(has_required[place])
            optional = values[row[1] : row[2]][~must[row[1] : row[2]]]
            free, deep = 0, 0
            if row[4] != NONE:
                # Free keys count where all their values fit, as the machine has it.
                free = int(free_texts[row[4]])
                deep = int(depth[tables.lists[row[5] : row[5] + labels[row[4]]]].max(initial=0))
            most = _deepest(np.sort(optional).tolist(), free, deep, extra)
            members[place] = max(int(members[place]), most)
        depth[objects] = np.minimum(members + 1, NEVER)
        if (depth == before).all():
            break
    return depth.astype(np.int32)


def _deepest(optional: list[int], free: int, deep: int, count: int) -> int:
    """Return the deepest of the `count` flattest among some members and `free` of depth `deep`."""
    flatter = bisect_right(optional, deep)
    if count <= flatter:
        return optional[count - 1]
    if count <= flatter + free:
        return deep
    return optional[count - free - 1] if count <= len(optional) + free else NEVER


def _reduce(ufunc: np.ufunc, values: I64, first: I32, end: I32, empty: int) -> NDArray[np.int64]:
    """Reduce values[first:end] for each pair; `empty` where there is none."""
    if not len(first):
        return np.zeros(0, np.int64)
    padded = np.append(values, empty)
    cuts = np.stack([first, end], axis=1).reshape(-1)
    found = ufunc.reduceat(padded, cuts)[::2]
    return np.where(first == end, empty, found).astype(np.int64)
