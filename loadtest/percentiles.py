"""Latency percentiles by HdrHistogram, answers and refusals apart.

Owns the histograms' range and precision. Never measures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hdrh.histogram import HdrHistogram

from loadtest.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loadtest.records import Record

LOWEST_MICROS: Final = 1
HIGHEST_MICROS: Final = 3_600_000_000
DIGITS: Final = 3
STATED: Final = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)
TICKS_A_HALVING: Final = 5


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A distribution of seconds.

    Attributes:
        count: how many were recorded.
        mean_s: their mean; NaN where there are none.
        stated_s: value at each percentile of `STATED`; empty where there are none.
        curve: points (percentile, seconds) for a plot.

    """

    count: int
    mean_s: float
    stated_s: dict[float, float]
    curve: tuple[tuple[float, float], ...]


def percentiles_of(latencies_s: Iterable[float]) -> Percentiles:
    """Record each and read the distribution off, to three significant digits.

    Raises:
        ValueError: a latency is no number, negative, or over an hour.

    """
    histogram = HdrHistogram(LOWEST_MICROS, HIGHEST_MICROS, DIGITS)
    for latency_s in latencies_s:
        if not 0 <= latency_s <= 1e-6 * HIGHEST_MICROS:
            raise ValueError(f"a latency of {latency_s} s is none, or longer than an hour")
        histogram.record_value(max(round(1e6 * latency_s), LOWEST_MICROS))
    count = int(histogram.get_total_count())
    if not count:
        return Percentiles(0, math.nan, {}, ())
    stated = {p: 1e-6 * histogram.get_value_at_percentile(p) for p in STATED}
    curve = tuple(
        (float(item.percentile_level_iterated_to), 1e-6 * float(item.value_iterated_to))
        for item in histogram.get_percentile_iterator(TICKS_A_HALVING)
    )
    return Percentiles(count, 1e-6 * float(histogram.get_mean_value()), stated, curve)


def by_outcome(records: Iterable[Record]) -> dict[Outcome, Percentiles]:
    """Return the distribution of each outcome's latencies, counted from when each was due."""
    latencies: dict[Outcome, list[float]] = {outcome: [] for outcome in Outcome}
    for record in records:
        if record.ending is not None:
            latencies[record.ending.outcome].append(record.latency_s)
    return {outcome: percentiles_of(found) for outcome, found in latencies.items()}
