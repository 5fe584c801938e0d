"""Counts of durations by their size.

Owns its buckets. Never forgets: what it says only grows, as whoever reads it from outside expects.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the buckets, in seconds: from a recorded answer to the default deadline."""


class Histogram:
    """How many durations were at most so long.

    Attributes:
        bounds_s: upper ends of the buckets, ascending; a last one without an end follows.
        sum_s: all durations together.

    """

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.sum_s = 0.0
        self._counts = [0] * (len(bounds_s) + 1)

    def observe(self, seconds: float) -> None:
        """Count a duration; one that is as long as a bucket's end is in it."""
        self._counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[int]:
        """Return how many were at most as long as each bucket's end; the last is all of them."""
        return list(accumulate(self._counts))
