"""From texts to a model's tokens and back, proved for each text.

Owns the choice of tokens for a text that is written without asking the model. The tokenizer's own
choice counts only where its tokens' bytes are the text (a normaliser may change it); else the
longest tokens that fit are taken, from the left. Added tokens are never among them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from decoder.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from decoder.kernels.base import I32

MAX_KEPT = 65_536
"""Most texts whose tokens are remembered."""

MAX_KEPT_BYTES = 256
"""Longest text that is remembered."""


class TokenSpeller:
    """Spells texts for one tokenizer.

    Args:
        tokenizer: the model's.
        spellings: (vocabulary,) the bytes of each token; None where it is never written.

    """

    def __init__(self, tokenizer: Tokenizer, spellings: Sequence[bytes | None]) -> None:
        self._tokenizer = tokenizer
        self._spellings = spellings
        self._ids = {text: token for token, text in reversed(list(enumerate(spellings))) if text}
        self._longest = max(map(len, self._ids), default=0)
        self._kept: dict[bytes, tuple[int, ...]] = {}

    @cached_property
    def quotes(self) -> I32:
        """Tokens that begin with a quote: (n,) int32, ascending."""
        found = [t for t, text in enumerate(self._spellings) if text and text.startswith(b'"')]
        return np.array(found, np.int32)

    def token(self, text: bytes) -> int | None:
        """Return the token of exactly this text, or None."""
        return self._ids.get(text)

    def spelling(self, token: int) -> bytes:
        """Return the bytes of a token; none for one that is never written."""
        return self._spellings[token] or b""

    def spell(self, text: bytes) -> tuple[int, ...]:
        """Return tokens whose bytes, joined, are the text.

        Raises:
            RequestError: the vocabulary cannot write it.

        """
        found = self._kept.get(text)
        if found is None:
            found = self._own_choice(text) or self._longest_first(text)
            if len(text) <= MAX_KEPT_BYTES and len(self._kept) < MAX_KEPT:
                self._kept[text] = found
        return found

    def _own_choice(self, text: bytes) -> tuple[int, ...]:
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            return ()
        ids = self._tokenizer.encode(decoded, add_special_tokens=False).ids
        known = [self._spellings[token] if token < len(self._spellings) else None for token in ids]
        return tuple(ids) if b"".join(part or b"" for part in known) == text else ()

    def _longest_first(self, text: bytes) -> tuple[int, ...]:
        tokens: list[int] = []
        start = 0
        while start < len(text):
            for length in range(min(self._longest, len(text) - start), 0, -1):
                token = self._ids.get(text[start : start + length])
                if token is not None:
                    break
            else:
                raise RequestError(f"the vocabulary has no token for byte {text[start]:#04x}")
            tokens.append(token)
            start += length
        return tuple(tokens)
