"""The picture of the name trie: an icicle whose boxes are the trie's nodes.

Owns the geometry: one column a choice, a box's height is the share of tools below it. Works from
the arrays and the names alone; a box is labelled with what the choice adds to the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog_compiler.display import one_line
from catalog_compiler.grammar import NONE_LEAF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_compiler.grammar import NameTrie

WIDTH: Final = 1160.0
MAX_COLUMNS: Final = 7
LEAF_HEIGHT: Final = 12.0
MIN_HEIGHT: Final = 120.0
MAX_HEIGHT: Final = 6400.0
MIN_BOX: Final = 1.6
"""Boxes lower than this, in pixels, are drawn together as one grey box."""

LABEL_HEIGHT: Final = 9.5
CHARACTER_WIDTH: Final = 6.3


@dataclass(frozen=True, slots=True)
class Box:
    """One rectangle of the picture, in pixels.

    Attributes:
        x, y, width, height: the rectangle.
        hue: degrees on the colour circle, -1 for grey.
        lightness: percent.
        label: text drawn in it, "" where there is no room.
        hint: text shown on hovering.

    """

    x: float
    y: float
    width: float
    height: float
    hue: int
    lightness: int
    label: str
    hint: str


@dataclass(frozen=True, slots=True)
class Icicle:
    """The picture: its size and boxes, and how many columns of choices were left out."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    columns_left_out: int


def draw_icicle(trie: NameTrie, names: Sequence[str], none_text: str) -> Icicle:
    """Lay the boxes out.

    Args:
        trie: the name trie.
        names: routed name of each tool.
        none_text: how "no tool fits" is spelt.

    """
    texts = [none_text if tool == NONE_LEAF else names[tool] for tool in trie.leaf_tool.tolist()]
    edges, children = trie.edge_offsets.tolist(), trie.edge_nodes.tolist()
    lows, highs = trie.leaf_lo.tolist(), trie.leaf_hi.tolist()
    depths = _depths(edges, children)
    columns = max(1, min(MAX_COLUMNS, max(depths)))
    height = min(MAX_HEIGHT, max(MIN_HEIGHT, len(texts) * LEAF_HEIGHT))
    scale, step = height / len(texts), WIDTH / columns
    boxes = []
    stack = [(0, "", 0)]
    while stack:
        node, begun, hue = stack.pop()
        column = depths[node]
        if column >= columns:
            continue
        merged: list[int] = []
        for number, child in enumerate(children[edges[node] : edges[node + 1]]):
            low, high = lows[child], highs[child]
            if (high - low) * scale < MIN_BOX:
                merged.append(child)
                continue
            whole = _common_beginning(texts[low:high])
            tint = _hue(number, edges[node + 1] - edges[node]) if node == 0 else hue
            box = (column * step, low * scale, step, (high - low) * scale)
            boxes.append(_box(box, begun, whole, texts[low:high], tint, column))
            stack.append((child, whole, tint))
        boxes += _grey(merged, lows, highs, scale, column, step)
    return Icicle(WIDTH, height, tuple(boxes), max(0, max(depths) - columns))


def _depths(edges: list[int], children: list[int]) -> list[int]:
    """Return how many choices lie above each node; parents come before their children."""
    depths = [0] * (len(edges) - 1)
    for node in range(len(depths)):
        for child in children[edges[node] : edges[node + 1]]:
            depths[child] = depths[node] + 1
    return depths


def _common_beginning(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    length = 0
    for left, right in zip(first, last, strict=False):
        if left != right:
            break
        length += 1
    return first[:length]


def _hue(number: int, of: int) -> int:
    return 205 + round(250 * number / max(1, of - 1)) if of > 1 else 205


def _box(
    place: tuple[float, float, float, float],
    begun: str,
    whole: str,
    below: Sequence[str],
    hue: int,
    column: int,
) -> Box:
    x, y, width, height = (round(value, 2) for value in place)
    adds = whole[len(begun) :]
    single = len(below) == 1
    room = int((width - 10) / CHARACTER_WIDTH)
    label = ""
    if height >= LABEL_HEIGHT and room > 3:
        label = one_line(adds, room) if adds.strip() else ("∎" if single else "·")
    title = one_line(whole, 160)
    hint = title if single else f"{title}… · {len(below):,} names"
    return Box(x, y, width, height, hue % 360, min(93, 76 + 3 * column), label, hint)


def _grey(
    nodes: Sequence[int],
    lows: Sequence[int],
    highs: Sequence[int],
    scale: float,
    column: int,
    step: float,
) -> list[Box]:
    """Join neighbouring boxes that are too low to be seen."""
    runs: list[list[int]] = []
    for node in nodes:
        if runs and runs[-1][1] == lows[node]:
            runs[-1][1] = highs[node]
        else:
            runs.append([lows[node], highs[node]])
    return [
        Box(
            x=round(column * step, 2),
            y=round(low * scale, 2),
            width=round(step, 2),
            height=round((high - low) * scale, 2),
            hue=-1,
            lightness=88,
            label=f"{high - low} more" if (high - low) * scale >= LABEL_HEIGHT else "",
            hint=f"{high - low:,} names, too small to draw",
        )
        for low, high in runs
    ]
