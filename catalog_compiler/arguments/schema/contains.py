"""Arrays that must hold some items, as arrays of which each position is known.

Owns `contains` with its bounds, where it reduces to that; elsewhere a note. Never reads a keyword.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.schema.meet import settled
from catalog_compiler.arguments.schema.places import both
from catalog_compiler.arguments.schema.result import Note

if TYPE_CHECKING:
    from catalog_compiler.arguments.schema.expand import Expander
    from catalog_compiler.arguments.schema.shapes import Arrays, Contained

MAX_LENGTH: Final = 8
"""Items of the longest array of which every position is tried."""


def without_contained(arrays: Arrays, expander: Expander, notes: set[Note]) -> list[Arrays]:
    """Return arrays that together are these, without what they must hold."""
    found = [replace(arrays, contained=frozenset())]
    for contained in sorted(arrays.contained, key=lambda each: each.pointer):
        found = [part for each in found for part in _reduced(each, contained, expander, notes)]
    return found


def _reduced(
    arrays: Arrays, contained: Contained, expander: Expander, notes: set[Note]
) -> list[Arrays]:
    inside, outside, start = contained.item, expander.negation(contained.item), contained.start
    size = len(arrays.prefix) if arrays.high is None else arrays.high
    positions = range(start, min(size, len(arrays.prefix)))
    items = [arrays.item(at) for at in positions]
    if arrays.high is None or arrays.high > max(len(arrays.prefix), start):
        items.append(arrays.rest)
    if all(expander.is_empty(both(item, outside)) for item in items):
        low = max(arrays.low, start + contained.low if contained.low else 0)
        most = None if contained.high is None else start + contained.high
        high = _least(arrays.high, most)
        if high is not None and low > high:
            return []
        return [replace(arrays, low=low, high=high, prefix=arrays.prefix[:high])]
    if all(expander.is_empty(both(item, inside)) for item in items):
        return [] if contained.low else [arrays]
    if contained.high == 0:
        size = max(len(arrays.prefix), start)
        items = [arrays.item(at) for at in range(size)]
        prefix = (*items[:start], *(both(item, outside) for item in items[start:]))
        left = settled(replace(arrays, prefix=prefix, rest=both(arrays.rest, outside)), expander)
        return [] if left is None else [left]
    if contained.low == 1 and contained.high is None:
        sure = [at for at in range(start, min(arrays.low, max(len(arrays.prefix), start) + 1))
                if expander.is_empty(both(arrays.item(at), outside))]  # fmt: skip
        if sure:
            return [arrays]
        if arrays.high is not None and arrays.high <= MAX_LENGTH:
            return _by_position(arrays, contained, expander)
    notes.add(
        Note(
            "contains",
            contained.pointer,
            "which items the array holds is not enforced",
            "name the items by prefixItems, or bound maxItems",
        )
    )
    return [arrays]


def _by_position(arrays: Arrays, contained: Contained, expander: Expander) -> list[Arrays]:
    """Return an array for each position at which the item may be found."""
    assert arrays.high is not None
    found = []
    for at in range(contained.start, arrays.high):
        before = tuple(arrays.item(each) for each in range(at))
        after = tuple(arrays.item(each) for each in range(at + 1, len(arrays.prefix)))
        prefix = (*before, both(arrays.item(at), contained.item), *after)
        part = settled(replace(arrays, prefix=prefix, low=max(arrays.low, at + 1)), expander)
        if part is not None:
            found.append(part)
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
