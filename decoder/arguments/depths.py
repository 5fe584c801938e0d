"""How deep the flattest value of each node nests.

Owns the least nesting. Where an object needs more members than its required ones, those count whose
values are flattest: a free key by its label, as far as there are such keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from decoder.arguments.graph import NEVER
from decoder.arguments.tables import (
    ARRAY,
    DISTINCT,
    LITERALS,
    NONE,
    NUMBER,
    OBJECT,
    TEXT,
    UNION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from decoder.arguments.tables import ArgumentTables
    from decoder.kernels.base import I32, I64

MAX_DEPTH: Final = 64
"""Containers within one another; a value that needs more is refused before it begins."""


def depths_of(
    tables: ArgumentTables, distance: I32, labels: I32, label_texts: I64, required: I32
) -> I32:
    """Return each node's least depth, by lowering from NEVER until nothing changes.

    Args:
        tables: the nodes.
        distance: (states,) int32, characters of the shortest rest.
        labels: (automata+1,) int32, where each automaton's labels begin in `label_texts`.
        label_texts: how many texts each label has.
        required: (properties+1,) int32, required ones before each entry of property_nodes.

    """
    rows = tables.nodes
    kind = rows[:, 0]
    depth = np.full(len(rows), NEVER, np.int64)
    first_states = tables.automata[:, 4]
    filled = tables.state_ends() > first_states
    rest = np.full(len(filled) + 1, NEVER, np.int64)
    rest[:-1][filled] = distance[first_states[filled]]
    rest[NONE] = 0  # any text
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
            _, first, end, _, keys, free, low, _ = rows[objects[place]].tolist()
            ways = [(deep, 1) for deep in values[first:end][~must[first:end]].tolist()]
            if keys != NONE:
                texts = label_texts[labels[keys] : labels[keys + 1]]
                free_depths = depth[tables.lists[free : free + len(texts)]]
                ways += zip(free_depths.tolist(), texts.tolist(), strict=True)
            most = _flattest(ways, low - int(has_required[place]))
            members[place] = max(int(members[place]), most)
        depth[objects] = np.minimum(members + 1, NEVER)
        if (depth == before).all():
            break
    return depth.astype(np.int32)


def _flattest(ways: Iterable[tuple[int, int]], count: int) -> int:
    """Return the deepest of the `count` flattest members, given depths and how many have each."""
    for deep, texts in sorted(ways):
        count -= texts
        if count <= 0:
            return deep
    return NEVER


def _reduce(ufunc: np.ufunc, values: I64, first: I32, end: I32, empty: int) -> NDArray[np.int64]:
    """Reduce values[first:end] for each pair; `empty` where there is none."""
    if not len(first):
        return np.zeros(0, np.int64)
    padded = np.append(values, empty)
    cuts = np.stack([first, end], axis=1).reshape(-1)
    found = ufunc.reduceat(padded, cuts)[::2]
    return np.where(first == end, empty, found).astype(np.int64)
