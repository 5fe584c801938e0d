"""Plots as inline SVG, without a library and without a script.

Owns axes, ticks and shapes. Never decides what is shown.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 720
HEIGHT: Final = 240
LEFT: Final = 64
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 34
COLOURS: Final = ("#1f6f8b", "#d1793a", "#7a5195", "#b3383b", "#5a7d2b", "#4a4a4a")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its words, its range and where its ticks are, with their words."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def linear_axis(label: str, low: float, high: float) -> Axis:
    """Return an axis with about five round ticks; an empty range is widened."""
    if not high > low:
        high = low + 1.0
    rough = (high - low) / 5
    step = 10 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    ticks = tuple((n * step, f"{n * step:g}") for n in range(first, last + 1))
    return Axis(label, low, high, ticks)


def percentile_axis(highest: float) -> Axis:
    """Return the axis of an HdrHistogram plot: each nine after the first takes as much room."""
    marks = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
    shown = [mark for mark in marks if mark <= highest] or [0.0]
    return Axis(
        "percentile",
        0.0,
        max(nines(highest), 1.0),
        tuple((nines(mark), f"{mark:g}%") for mark in shown),
    )


def nines(percentile: float) -> float:
    """Return a percentile's place on that axis: 90 is 1, 99 is 2."""
    return -math.log10(max(1 - percentile / 100, 1e-6))


def line_plot(
    x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]], marks: Sequence[tuple[float, str]] = ()
) -> str:
    """Draw lines with a legend, and upright marks with words."""
    parts = [_frame(x, y)]
    for index, (name, points) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{_x(x, a):.1f},{_y(y, b):.1f}" for a, b in points)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{path}"/>'
        )
        parts.append(_legend(index, name, colour))
    parts += [_mark(x, at, words) for at, words in marks if x.low <= at <= x.high]
    return _svg(parts)


def stacked_bars(
    x: Axis,
    bars: Mapping[str, Sequence[float]],
    width: float,
    label: str,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Draw bars of equal width from the axis's low end on, the series upon each other."""
    sums = [sum(column) for column in zip(*bars.values(), strict=True)]
    y = linear_axis(label, 0.0, 1.15 * max(sums, default=0.0))
    parts = [_frame(x, y)]
    bases = [0.0] * len(sums)
    for index, (name, values) in enumerate(bars.items()):
        colour = COLOURS[index % len(COLOURS)]
        for place, value in enumerate(values):
            if value:
                left = _x(x, x.low + place * width)
                right = _x(x, min(x.low + (place + 1) * width, x.high))
                top, bottom = _y(y, bases[place] + value), _y(y, bases[place])
                parts.append(
                    f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 1) - 0.5:.1f}" '
                    f'height="{bottom - top:.1f}" fill="{colour}"/>'
                )
                bases[place] += value
        parts.append(_legend(index, name, colour))
    parts += [_mark(x, at, words) for at, words in marks if x.low <= at <= x.high]
    return _svg(parts)


def counted_bars(counts: Mapping[str, int]) -> str:
    """Draw a lying bar for each name, with its count."""
    if not counts:
        return "<p>none</p>"
    row, most = 24, max(counts.values())
    parts = []
    for index, (name, count) in enumerate(counts.items()):
        top = index * row + 4
        length = 400 * count / most
        parts.append(
            f'<text x="210" y="{top + 13}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="218" y="{top}" width="{max(length, 1):.1f}" height="16" '
            f'fill="{COLOURS[index % len(COLOURS)]}"/>'
            f'<text x="{224 + length:.1f}" y="{top + 13}">{count}</text>'
        )
    return _svg(parts, height=row * len(counts) + 8)


def _x(axis: Axis, value: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (value - axis.low) / (axis.high - axis.low)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - axis.low) / (axis.high - axis.low)


def _frame(x: Axis, y: Axis) -> str:
    parts = []
    for value, words in y.ticks:
        at = _y(y, value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{words}</text>'
        )
    for value, words in x.ticks:
        at = _x(x, value)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="grid"/>'
            f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{words}</text>'
        )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 4}" text-anchor="middle">'
        f"{html.escape(x.label)}</text>"
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
        f"{html.escape(y.label)}</text>"
    )
    return "".join(parts)


def _legend(index: int, name: str, colour: str) -> str:
    left = LEFT + 8 + 130 * index
    return (
        f'<rect x="{left}" y="{TOP}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{left + 14}" y="{TOP + 9}">{html.escape(name)}</text>'
    )


def _mark(x: Axis, at: float, words: str) -> str:
    place = _x(x, at)
    return (
        f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="mark"/>'
        f'<text x="{place + 3:.1f}" y="{TOP + 24}" class="mark">{html.escape(words)}</text>'
    )


def _svg(parts: Sequence[str], height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
