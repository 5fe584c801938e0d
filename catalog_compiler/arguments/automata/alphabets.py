"""Characters grouped in classes that no set of an expression tells apart.

Owns the grouping. A set of characters is a bit mask over the classes, so that the derivation of
an expression never looks at a single character.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_compiler.arguments.automata.char_sets import CharSet

SURROGATES = (0xD800, 0xE000)
_END = 0x110000


class Alphabet:
    """The classes of some sets of characters.

    Attributes:
        starts: ascending first code points of intervals; the first is 0.
        classes: the class of each interval, numbered as they come.
        width: number of classes, that of the surrogates included.
        scalars: the mask of all classes but that of the surrogates.

    """

    def __init__(self, sets: Iterable[CharSet]) -> None:
        """Group the characters: those of one class are in the same sets."""
        distinct = list(dict.fromkeys(sets))
        bounds = {0, *SURROGATES}
        for chars in distinct:
            for low, high in chars:
                bounds.update((low, high + 1))
        bounds.discard(_END)
        self.starts = sorted(bounds)
        marks: list[list[int]] = [[] for _ in self.starts]
        for number, chars in enumerate(distinct):
            for place in self._places(chars):
                marks[place].append(number)
        surrogates = (-1,)
        known: dict[tuple[int, ...], int] = {}
        self.classes: list[int] = []
        for start, mark in zip(self.starts, marks, strict=True):
            key = surrogates if start == SURROGATES[0] else tuple(mark)
            self.classes.append(known.setdefault(key, len(known)))
        self.width = len(known)
        self.scalars = (1 << self.width) - 1 & ~(1 << known[surrogates])
        self._masks: dict[CharSet, int] = {}
        self._members: dict[int, tuple[int, ...]] = {}

    def mask(self, chars: CharSet) -> int:
        """Return the classes of a set that the grouped sets are made of."""
        found = self._masks.get(chars)
        if found is None:
            found = 0
            for place in self._places(chars):
                found |= 1 << self.classes[place]
            self._masks[chars] = found
        return found

    def members(self, mask: int) -> tuple[int, ...]:
        """Return the numbers of the classes of a mask."""
        found = self._members.get(mask)
        if found is None:
            found = tuple(each for each in range(self.width) if mask >> each & 1)
            self._members[mask] = found
        return found

    def _places(self, chars: CharSet) -> list[int]:
        """Return the intervals that a set is made of."""
        places = []
        for low, high in chars:
            place = bisect_right(self.starts, low) - 1
            while place < len(self.starts) and self.starts[place] <= high:
                places.append(place)
                place += 1
        return places
