"""Deterministic automata over characters: what a string's text may be, as plain tables.

Owns the value that the compiler hands on. Never builds one from a pattern and never walks bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Automaton:
    """A deterministic automaton over Unicode code points, equal where its tables are.

    State 0 is the start. Every state can be reached from it and can reach an accepting one, so
    that what is not dead can always be completed; an automaton that accepts nothing has no states.

    Attributes:
        starts: ascending code points; interval i reaches from starts[i] to just before
            starts[i + 1], the last to U+10FFFF. starts[0] is 0.
        classes: the class of each interval, 0 to n-1; characters of one class are not told apart.
        table: for each state, the state that each class leads to, or -1.
        accepts: for each state, -1 where a text may not end, else a label, 0 or more. Automata
            without labels accept with 0.

    """

    starts: tuple[int, ...]
    classes: tuple[int, ...]
    table: tuple[tuple[int, ...], ...]
    accepts: tuple[int, ...]

    @property
    def empty(self) -> bool:
        """Whether it accepts nothing."""
        return not self.table

    def step(self, state: int, code_point: int) -> int:
        """Return the next state, or -1."""
        return self.table[state][self.classes[bisect_right(self.starts, code_point) - 1]]

    def label(self, text: str) -> int:
        """Return the label with which the text is accepted, or -1."""
        if self.empty:
            return -1
        state = 0
        for character in text:
            state = self.step(state, ord(character))
            if state < 0:
                return -1
        return self.accepts[state]

    def accepts_text(self, text: str) -> bool:
        """Tell whether the text is accepted."""
        return self.label(text) >= 0
