"""Requests that spell a tool's name.

Owns the table from spelt names and aliases to tools and the scan of a request for them. Never
weighs a hit: a name spelt out always enters the shortlist, and `router.scoring` says what it is
worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.retrieval.words import clip_request, fold, split_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from catalog_compiler.model import Tool

MAX_NAME_WORDS = 16
"""Names of more words are found by the other indices only."""

_QUOTES = ("`", '"', "'")


@dataclass(frozen=True, slots=True)
class NameHits:
    """Tools whose name or alias a request spells.

    Attributes:
        verbatim: (n,) int64 ascending; spelt (but for case) as an identifier of several words,
            such as ``list_issues``, or as one word set off by quotes, such as `search`.
        worded: (n,) int64 ascending; the words of a name of several words stand side by side in
            the request (``list issues``). Holds all of `verbatim`.

    """

    verbatim: npt.NDArray[np.int64]
    worded: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NameIndex:
    """Spelt names to tool indices.

    Attributes:
        by_words: words of a name or alias joined by a space -> tools so named, ascending.
        spellings: tool -> the folded spellings that count as verbatim.
        longest: most words of any key.

    """

    by_words: Mapping[str, tuple[int, ...]]
    spellings: Mapping[int, tuple[str, ...]]
    longest: int

    def find(self, text: str) -> NameHits:
        """Return every tool spelt in the request, in (its words) x (`longest`) look-ups."""
        clipped = clip_request(text)
        words = split_words(clipped)
        folded = fold(clipped).casefold()
        verbatim: set[int] = set()
        worded: set[int] = set()
        for start in range(len(words)):
            for stop in range(start + 1, min(start + self.longest, len(words)) + 1):
                owners = self.by_words.get(" ".join(words[start:stop]), ())
                if stop - start > 1:
                    worded.update(owners)
                verbatim.update(t for t in owners if self._spelt(t, folded))
        return NameHits(_ascending(verbatim), _ascending(worded | verbatim))

    def _spelt(self, tool: int, folded: str) -> bool:
        return any(_stands_in(spelling, folded) for spelling in self.spellings[tool])


def build_name_index(tools: Sequence[Tool]) -> NameIndex:
    """Index routed names, source names and aliases of every tool."""
    by_words: dict[str, list[int]] = {}
    spellings: dict[int, tuple[str, ...]] = {}
    longest = 0
    for index, tool in enumerate(tools):
        identifiers = []
        for name in dict.fromkeys((tool.name, tool.source_name, *tool.aliases)):
            words = split_words(name)
            if not 1 <= len(words) <= MAX_NAME_WORDS:
                continue
            longest = max(longest, len(words))
            owners = by_words.setdefault(" ".join(words), [])
            if index not in owners:
                owners.append(index)
            spelling = fold(name).casefold().strip()
            if len(words) == 1:
                identifiers += [f"{mark}{spelling}{mark}" for mark in _QUOTES]
            elif not any(c.isspace() for c in spelling):
                identifiers.append(spelling)
        spellings[index] = tuple(identifiers)
    return NameIndex(
        {words: tuple(owners) for words, owners in by_words.items()}, spellings, longest
    )


def _stands_in(spelling: str, text: str) -> bool:
    """Tell whether `spelling` occurs in `text` bare of letters, digits and underscores."""
    start = text.find(spelling)
    while start >= 0:
        stop = start + len(spelling)
        before = text[start - 1] if start else " "
        after = text[stop] if stop < len(text) else " "
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        start = text.find(spelling, start + 1)
    return False


def _ascending(indices: set[int]) -> npt.NDArray[np.int64]:
    return np.array(sorted(indices), dtype=np.int64)
