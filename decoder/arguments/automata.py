"""The automata of the tables, read state by state.

Owns the reading of their rows. Never knows what the texts are for.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from decoder.arguments.graph import MANY, NEVER, AutomataGraph
from decoder.arguments.levels import limited
from decoder.arguments.tables import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decoder.arguments.facts import TableFacts
    from decoder.arguments.tables import ArgumentTables
    from decoder.kernels.base import I32, I64

MAX_KEPT: Final = 256
"""Automata of single labels that are kept; beyond it they are dropped together."""


class Automaton:
    """One automaton; this one has a single state and is that of any text."""

    def accepts(self, state: int) -> int:  # noqa: ARG002 - there is one state
        """Return the label with which a text may end here, or NONE."""
        return 0

    def rest(self, state: int) -> int:  # noqa: ARG002 - there is one state
        """Return how many characters the shortest rest has, NEVER where there is none."""
        return 0

    def rests(self, state: int) -> int:  # noqa: ARG002 - there is one state
        """Return how many rests there are, at most MANY."""
        return MANY

    def step(self, state: int, code_point: int) -> int:  # noqa: ARG002 - any leads on
        """Return the next state, or NONE where no text leads on."""
        return state

    def moves(self, state: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Return what characters of the ranges lead to: first and last of each run, the state."""
        return [(low, high, state) for low, high in ranges]

    def label(self, text: str) -> int:
        """Return the label of a whole text, or NONE."""
        state = 0
        for character in text:
            state = self.step(state, ord(character))
            if state == NONE:
                return NONE
        return self.accepts(state)


ANY_TEXT: Final = Automaton()


class TableAutomaton(Automaton):
    """One automaton of the tables.

    Args:
        tables: what its row refers to.
        row: of the automaton, (5,) int32.
        accepts, distance, texts: of its states, as in `TableFacts`.

    """

    def __init__(
        self, tables: ArgumentTables, row: I32, accepts: I32, distance: I32, texts: I64
    ) -> None:
        self._first, self._end, self._width, self._entry, _ = row.tolist()
        self._starts = tables.interval_starts.data
        self._classes = tables.interval_classes.data
        self._transitions = tables.transitions.data
        self._accepts, self._distance, self._texts = accepts.data, distance.data, texts.data

    def accepts(self, state: int) -> int:
        """See `Automaton`."""
        return self._accepts[state]

    def rest(self, state: int) -> int:
        """See `Automaton`."""
        return self._distance[state]

    def rests(self, state: int) -> int:
        """See `Automaton`."""
        return self._texts[state] if len(self._texts) else 0

    def step(self, state: int, code_point: int) -> int:
        """See `Automaton`."""
        place = bisect_right(self._starts, code_point, self._first, self._end) - 1
        found = self._transitions[self._entry + state * self._width + self._classes[place]]
        return found if found != NONE and self._distance[found] < NEVER else NONE

    def moves(self, state: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """See `Automaton`."""
        found = []
        for low, high in ranges:
            start, place = low, bisect_right(self._starts, low, self._first, self._end) - 1
            while start <= high:
                last = self._starts[place + 1] - 1 if place + 1 < self._end else high
                target = self.step(state, start)
                if target != NONE:
                    found.append((start, min(last, high), target))
                start, place = last + 1, place + 1
        return found


class Automata:
    """All automata of some tables, by number; NONE is the one of any text."""

    def __init__(self, tables: ArgumentTables, facts: TableFacts) -> None:
        self._tables, self._facts = tables, facts
        firsts: list[int] = facts.automata[:, 4].tolist()
        self._ends = [*firsts[1:], len(facts.accepts)][: len(firsts)]
        self._own: list[Automaton] = [
            TableAutomaton(
                tables,
                facts.automata[number],
                facts.accepts[first:end],
                facts.distance[first:end],
                facts.texts[first:end],
            )
            for number, (first, end) in enumerate(zip(firsts, self._ends, strict=True))
        ]
        self._own.append(ANY_TEXT)  # at NONE, which is the last
        self._single: dict[tuple[int, int], Automaton] = {}

    def __getitem__(self, number: int) -> Automaton:
        """Return an automaton."""
        return self._own[number]

    def only(self, number: int, label: int) -> Automaton:
        """Return an automaton in which no other label accepts."""
        found = self._single.get((number, label))
        if found is None:
            if len(self._single) >= MAX_KEPT:
                self._single.clear()
            row = self._facts.automata[number]
            states = self._facts.accepts[row[4] : self._ends[number]]
            accepts = limited(states, [label])
            alone = row * np.array([1, 1, 1, 1, 0], np.int32)
            graph = AutomataGraph(self._tables, alone.reshape(1, 5), accepts)
            distance = graph.distances()
            texts = graph.counts(distance)
            found = TableAutomaton(self._tables, row, accepts, distance, texts)
            self._single[number, label] = found
        return found
