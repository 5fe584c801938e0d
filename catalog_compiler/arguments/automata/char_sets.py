"""Sets of characters as ascending, disjoint, inclusive ranges of code points.

Owns their algebra. A character is a Unicode scalar value: surrogates are in no set.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

CharSet: TypeAlias = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
NONE: CharSet = ()
ALL: CharSet = ((0, 0xD7FF), (0xE000, LAST))

_LONG_CATEGORIES: Final = {
    "Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Combining_Mark": "M",
    "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N",
    "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
    "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z",
    "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Other": "C",
    "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Private_Use": "Co", "Unassigned": "Cn",
}  # fmt: skip


def of_ranges(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """Return the set of ranges in any order, overlapping or not, without surrogates."""
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    if all(high < 0xD800 or low > 0xDFFF for low, high in merged):
        return tuple((low, high) for low, high in merged)
    return intersection(tuple((low, high) for low, high in merged), ALL)


def of_text(characters: str) -> CharSet:
    """Return the set of a text's characters."""
    return of_ranges((ord(c), ord(c)) for c in characters)


def union(*sets: CharSet) -> CharSet:
    """Return the characters of any."""
    return of_ranges(part for each in sets for part in each)


def intersection(left: CharSet, right: CharSet) -> CharSet:
    """Return the characters of both."""
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            found.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def complement(chars: CharSet) -> CharSet:
    """Return the characters that are not in the set."""
    gaps, next_low = [], 0
    for low, high in chars:
        if low > next_low:
            gaps.append((next_low, low - 1))
        next_low = high + 1
    if next_low <= LAST:
        gaps.append((next_low, LAST))
    return intersection(tuple(gaps), ALL)


@functools.cache
def general_category(name: str) -> CharSet | None:
    """Return the characters of a Unicode general category (``Lu``, or ``L`` for all its kinds).

    Its long name will do; None is no category.
    """
    name = _LONG_CATEGORIES.get(name, name)
    ranges = _category_ranges()
    found = [part for kind, parts in ranges.items() if kind.startswith(name) for part in parts]
    return of_ranges(found) if found and len(name) in (1, 2) else None


@functools.cache
def _category_ranges() -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    kinds = map(unicodedata.category, map(chr, range(LAST + 1)))
    start = 0
    for kind, run in itertools.groupby(kinds):
        end = start + sum(1 for _ in run)
        found.setdefault(kind, []).append((start, end - 1))
        start = end
    found.pop("Cs")
    return found
