"""The added tokens of a tokenizer, and how text that merely spells them is kept apart from them.

Owns the set of added token ids and the cutting of names. Never tokenises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenizers import Tokenizer


class AddedTokens:
    """What a tokenizer treats as one piece wherever its text occurs."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Read the added tokens once."""
        added = tokenizer.get_added_tokens_decoder()
        self._all = frozenset(added)
        self._special = frozenset(number for number, token in added.items() if token.special)
        spellings = sorted(
            {token.content for token in added.values() if len(token.content) > 1},
            key=lambda spelling: (-len(spelling), spelling),
        )
        self._spelt = re.compile(f"(?={'|'.join(map(re.escape, spellings))})")
        self._any = bool(spellings)

    def any_in(self, tokens: Iterable[int]) -> bool:
        """Tell whether one of the ids is an added token."""
        return not self._all.isdisjoint(tokens)

    def any_special_in(self, tokens: Iterable[int]) -> bool:
        """Tell whether one of the ids is a special (control) token."""
        return not self._special.isdisjoint(tokens)

    def cut(self, text: str) -> list[str]:
        """Cut the text inside every place where it spells an added token; joined it is `text`."""
        if not self._any:
            return [text]
        cuts = [match.start() + 1 for match in self._spelt.finditer(text)]
        pieces = [text[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return [piece for piece in pieces if piece]
