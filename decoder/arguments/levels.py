"""Which free keys an object may have, by how many containers its values may still open.

Owns the automata of those keys. Near the bound on nesting some values fit and others do not, so
that a key may only be one whose value does. Such keys have an automaton of their own: that of all
free keys of the object, in which the other labels accept nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decoder.arguments.depths import MAX_DEPTH
from decoder.arguments.tables import NONE, OBJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decoder.arguments.tables import ArgumentTables
    from decoder.kernels.base import I32


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The levels of all nodes; those of node n are `first[n]` to before `first[n + 1]`.

    Attributes:
        first: (nodes+1,) int32.
        depths: (levels,) int32, ascending within a node: containers within one another that the
            values of a level's keys need at most.
        keys: (levels,) int32: the automaton of those keys.

    """

    first: I32
    depths: I32
    keys: I32


def levels_of(tables: ArgumentTables, depth: I32, labels: I32) -> tuple[Levels, I32, I32]:
    """Return the levels, and the automata that they need beside those of the tables.

    Those are rows as in the tables, (n, 5) int32, and the labels of their states.

    Args:
        tables: the tables.
        depth: (nodes,) int32, the least nesting of each.
        labels: (automata+1,) int32; the labels of automaton k are labels[k+1] - labels[k].

    """
    counts = np.zeros(len(tables.nodes), np.int64)
    depths: list[int] = []
    keys: list[int] = []
    extra = _Extra(tables)
    for node in np.flatnonzero((tables.nodes[:, 0] == OBJECT) & (tables.nodes[:, 4] != NONE)):
        automaton, first = int(tables.nodes[node, 4]), int(tables.nodes[node, 5])
        size = int(labels[automaton + 1] - labels[automaton])
        values = depth[tables.lists[first : first + size]].tolist()
        for level in sorted({value for value in values if value < MAX_DEPTH}):
            fitting = tuple(label for label, value in enumerate(values) if value <= level)
            depths.append(level)
            keys.append(automaton if len(fitting) == size else extra.of(automaton, fitting))
            counts[node] += 1
    starts = np.zeros(len(tables.nodes) + 1, np.int32)
    starts[1:] = np.cumsum(counts)
    levels = Levels(starts, np.array(depths, np.int32), np.array(keys, np.int32))
    return (levels, *extra.automata())


def limited(accepts: I32, labels: Sequence[int]) -> I32:
    """Return the labels of states, NONE in place of those that are not among some."""
    return np.where(np.isin(accepts, labels), accepts, NONE).astype(np.int32)


class _Extra:
    """Automata beside those of the tables, each once."""

    def __init__(self, tables: ArgumentTables) -> None:
        self._tables = tables
        self._rows: list[list[int]] = []
        self._accepts: list[I32] = [np.zeros(0, np.int32)]
        self._states = 0
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}

    def of(self, automaton: int, labels: tuple[int, ...]) -> int:
        """Return the automaton in which some labels alone accept."""
        key = automaton, labels
        if key not in self._numbers:
            self._numbers[key] = len(self._tables.automata) + len(self._rows)
            first, end = self._tables.states_of(automaton)
            self._rows.append([*self._tables.automata[automaton, :4].tolist(), self._states])
            self._accepts.append(limited(self._tables.accepts[first:end], labels))
            self._states += end - first
        return self._numbers[key]

    def automata(self) -> tuple[I32, I32]:
        """Return their rows, the first state being number 0, and the labels of their states."""
        rows = np.array(self._rows, np.int32).reshape(len(self._rows), 5)
        return rows, np.concatenate(self._accepts)
