"""When those who were turned away may come back, so that they don't come back together.

Owns a clock for each queue of refused callers: each is told the next moment at which a place comes
free that nobody else was told. Never refuses.
"""

from __future__ import annotations

from typing import Final

LONGEST_S: Final = 30.0
"""Longest pause told: further ahead, an estimate is no more than a guess."""

REMEMBERED: Final = 4096
"""Most clocks kept; those that lie in the past go first, and say nothing anyway."""


class Pushback:
    """Virtual clocks by name (as in the generic cell rate algorithm, ITU-T I.371)."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def next_s(self, now: float, whom: str, gap_s: float) -> float:
        """Return the pause for the next caller of a queue where a place comes free every `gap_s`.

        Args:
            now: monotonic seconds.
            whom: which queue.
            gap_s: seconds between two places.

        """
        told = max(self._told.pop(whom, now), now) + gap_s
        told = min(told, now + LONGEST_S)
        if len(self._told) >= REMEMBERED:
            self._told = {name: at for name, at in self._told.items() if at > now}
        if len(self._told) < REMEMBERED:
            self._told[whom] = told
        return told - now
