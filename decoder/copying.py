"""Which tokens go on with a copy of something that was given: the request, in a string value.

Owns the look-up of what may be copied next. Never chooses: what it names is favoured by as much as
the request says, and only among what is allowed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from decoder.kernels.base import I32

LONGEST_TOKEN_BYTES: Final = 24
"""Longer tokens are not looked for; shorter ones spell the same."""

MAX_PLACES: Final = 64
"""Most places of the source that are looked at for one token."""

_WORD: Final = re.compile(rb"[0-9A-Za-z\x80-\xff]+")


class CopySpeller(Protocol):
    """What copying needs of a speller."""

    def token(self, text: bytes) -> int | None:
        """Return the token of exactly this text, or None."""
        ...

    @property
    def quotes(self) -> I32:
        """Tokens that begin with a quote: (n,) int32, ascending."""
        ...


class Copying:
    """A text that string values may be copied from.

    Args:
        source: UTF-8.
        speller: of the model's tokenizer.

    """

    def __init__(self, source: bytes, speller: CopySpeller) -> None:
        self._source = source
        self._speller = speller
        self._words = [found.start() for found in _WORD.finditer(source)]
        self._ends = {found.end() for found in _WORD.finditer(source)}

    def favoured(self, written: bytes) -> I32:
        """Return the tokens that go on with a copy: (n,) int32, ascending.

        Copies begin where a word does; where what is written ends with a word, its end is favoured
        as well.

        Args:
            written: the string as far as it is written.

        """
        found: set[int] = set()
        ends = False
        for place in self._places(written):
            ends = ends or (bool(written) and place in self._ends)
            for length in range(1, LONGEST_TOKEN_BYTES + 1):
                token = self._speller.token(self._source[place : place + length])
                if token is not None and place + length <= len(self._source):
                    found.add(token)
        copies = np.array(sorted(found), np.int32)
        return np.union1d(copies, self._speller.quotes).astype(np.int32) if ends else copies

    def _places(self, written: bytes) -> Iterator[int]:
        """Yield where the source goes on after what is written."""
        count = 0
        for start in self._words:
            if self._source.startswith(written, start):
                yield start + len(written)
                count += 1
                if count == MAX_PLACES:
                    return
