"""A model's vocabulary by the bytes of its tokens, as a trie.

Owns the trie's layout, which both machines walk, and how a tokenizer's tokens are spelt in bytes.
Tokens without bytes of their own (control tokens, added ones) are never allowed.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from decoder.errors import RequestError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from decoder.kernels.base import I32

_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_KEYS_WITHIN: Final = re.compile(rb'": .*, ".', re.DOTALL)
_LOWER_ONE_EIGHTH: Final = "\u2581"
MAX_TOKEN_BYTES: Final = 512
"""Longest token that is ever allowed, since tokens are walked by recursion."""


class TokenVocabulary:
    """The tokens that a grammar may choose among.

    Args:
        spellings: (v,) the bytes of each token, None for one that is never allowed; nor is one of
            more than MAX_TOKEN_BYTES.

    Attributes:
        size: v.
        longest: bytes of the longest token.
        bytes: (n,) int32: the byte that leads to each trie node (0 for the root), in depth-first
            order, node 0 the root.
        ends: (n,) int32: the node after the last one below each node, so that the children of a
            node k are k+1, ends[k+1] and so on, before ends[k].
        token_starts: (n+1,) int32: the tokens of node k are `tokens[token_starts[k]:
            token_starts[k+1]]`, those at and below it end at token_starts[ends[k]].
        tokens: int32 token ids by their bytes, equal ones by id.
        child_starts, child_nodes: (n+1,) and (n-1,) int32: the children of node k again, side by
            side, as `child_nodes[child_starts[k]:child_starts[k+1]]`.

    Raises:
        RequestError: no token has bytes.

    """

    def __init__(self, spellings: Sequence[bytes | None]) -> None:
        self.spellings: tuple[bytes | None, ...] = tuple(
            text if text and len(text) <= MAX_TOKEN_BYTES else None for text in spellings
        )
        self.size = len(self.spellings)
        known = sorted((text, token) for token, text in enumerate(self.spellings) if text)
        if not known:
            raise RequestError("the vocabulary has no token with bytes; was it read as it should?")
        self.longest = max(len(text) for text, _ in known)
        letters, parents, starts = [0], [-1], [0]
        path = [0]  # the node after each byte of the text before
        before = b""
        for place, (text, _) in enumerate(known):
            shared = _shared(before, text)
            del path[shared + 1 :]
            for byte in text[shared:]:
                path.append(len(letters))
                parents.append(path[-2])
                letters.append(byte)
                starts.append(place)
            before = text
        ends = list(range(1, len(letters) + 1))
        for node in range(len(letters) - 1, 0, -1):
            parent = parents[node]
            ends[parent] = max(ends[parent], ends[node])
        self.bytes: I32 = np.array(letters, np.int32)
        self.ends: I32 = np.array(ends, np.int32)
        self.token_starts: I32 = np.array([*starts, len(known)], np.int32)
        self.tokens: I32 = np.array([token for _, token in known], np.int32)
        above = np.array(parents[1:], np.int32)
        self.child_nodes: I32 = (np.argsort(above, kind="stable") + 1).astype(np.int32)
        self.child_starts: I32 = np.zeros(len(letters) + 1, np.int32)
        self.child_starts[1:] = np.cumsum(np.bincount(above, minlength=len(letters)))

    @cached_property
    def children(self) -> list[list[tuple[int, int]]]:
        """For each node, the bytes that lead on and where to."""
        ends, letters = self.ends.tolist(), self.bytes.tolist()
        found: list[list[tuple[int, int]]] = []
        for node, end in enumerate(ends):
            own, child = [], node + 1
            while child < end:
                own.append((letters[child], child))
                child = ends[child]
            found.append(own)
        return found

    @cached_property
    def joined(self) -> tuple[I32, NDArray[np.uint8]]:
        """All spellings one after the other: where each begins, (v+1,) int32, and their bytes."""
        texts = [text or b"" for text in self.spellings]
        starts = np.zeros(len(texts) + 1, np.int32)
        starts[1:] = np.cumsum([len(text) for text in texts])
        return starts, np.frombuffer(b"".join(texts), np.uint8)

    @cached_property
    def keys_within_tokens(self) -> bool:
        """Whether a token holds the end of one key and letters of the next."""
        return any(_KEYS_WITHIN.search(text) for text in self.spellings if text)

    def spelling(self, token: int) -> bytes | None:
        """Return a token's bytes; None for one that is never allowed, or that there is not."""
        return self.spellings[token] if 0 <= token < self.size else None


def _shared(left: bytes, right: bytes) -> int:
    limit = min(len(left), len(right))
    return next((i for i in range(limit) if left[i] != right[i]), limit)


def vocabulary_of(tokenizer: Tokenizer) -> list[bytes | None]:
    """Return the bytes of each token of a byte-level or byte-fallback tokenizer.

    Added tokens are None, whatever their text: they are control tokens or stand for one.

    Raises:
        UnsupportedModelError: its tokens are spelt in a way that is not known here.

    """
    document: dict[str, Any] = json.loads(tokenizer.to_str())
    spell = _speller(document)
    added = {entry["id"] for entry in document.get("added_tokens") or ()}
    texts = tokenizer.get_vocab(with_added_tokens=True)
    found: list[bytes | None] = [None] * (max(texts.values(), default=-1) + 1)
    for text, token in texts.items():
        if token not in added:
            found[token] = spell(text)
    return found


def _speller(document: dict[str, Any]) -> Any:
    steps = _steps(document.get("decoder"))
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"]:
        return _byte_level
    model = document.get("model") or {}
    if "ByteFallback" in kinds and model.get("byte_fallback"):
        replaced = [step for step in steps if step.get("type") == "Replace"]
        marks = [(step.get("pattern"), step.get("content")) for step in replaced]
        if marks in ([], [({"String": _LOWER_ONE_EIGHTH}, " ")]):
            return _byte_fallback
    raise UnsupportedModelError(
        f"the tokenizer's decoder is {kinds}; known are byte-level ones and those with a byte "
        "fallback (sentencepiece). Arguments can't be written with this model"
    )


def _steps(decoder: Any) -> list[dict[str, Any]]:
    if not isinstance(decoder, dict):
        return []
    if decoder.get("type") == "Sequence":
        return [step for part in decoder.get("decoders", ()) for step in _steps(part)]
    return [decoder]


def _letters() -> dict[str, int]:
    """Return the byte behind each printable character that byte-level vocabularies are spelt in."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    letters = {chr(byte): byte for byte in plain}
    return letters | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}


_LETTERS: Final = _letters()


def _byte_level(text: str) -> bytes | None:
    known = [_LETTERS.get(letter) for letter in text]
    return None if None in known else bytes(byte for byte in known if byte is not None)


def _byte_fallback(text: str) -> bytes | None:
    match = _BYTE_TOKEN.fullmatch(text)
    if match:
        return bytes([int(match[1], 16)])
    try:
        return text.replace(_LOWER_ONE_EIGHTH, " ").encode()
    except UnicodeEncodeError:
        return None
