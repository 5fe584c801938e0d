"""When the requests of an open loop are due, whatever becomes of those before them.

Owns the times. Never sends and never waits.
"""

from __future__ import annotations

import random
from typing import Literal

Arrivals = Literal["constant", "poisson"]


def due_times_s(count: int, rate: float, arrivals: Arrivals, seed: int) -> list[float]:
    """Return when each of `count` requests is due, in seconds from the start, in order.

    Args:
        count: how many.
        rate: mean requests a second.
        arrivals: evenly spaced, or with exponential gaps.
        seed: of the gaps; the same seed gives the same times.

    Raises:
        ValueError: the count is negative, the rate not above 0, or the arrivals are unknown.

    """
    if count < 0 or not rate > 0:
        raise ValueError(f"{count} requests at {rate} a second can't be scheduled")
    if arrivals == "constant":
        return [index / rate for index in range(count)]
    if arrivals != "poisson":
        raise ValueError(f"arrivals are constant or poisson, not {arrivals!r}")
    dice = random.Random(seed)  # noqa: S311  (no secret: it must repeat)
    times, now = [], 0.0
    for _ in range(count):
        now += dice.expovariate(rate)
        times.append(now)
    return times
