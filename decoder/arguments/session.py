"""What a session of either machine offers, and the plain one in Python.

Owns the border between tokens and bytes. Never chooses a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from decoder.arguments.reference import begin, step, step_all
from decoder.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from decoder.arguments.completion import Completer
    from decoder.arguments.grammar import Grammar
    from decoder.arguments.stacks import Configuration
    from decoder.arguments.vocabulary import TokenVocabulary
    from decoder.kernels.base import I32

MAX_FORCED_BYTES: Final = 65_536
"""Bound on one forced run; a longer one goes on in the next."""


class ArgumentSession(Protocol):
    """One value that is being written: what has been read, and what may follow.

    Whatever raises leaves the session as it was.
    """

    @property
    def accepts(self) -> bool:
        """Whether what was read is a whole value."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it is whole and nothing may follow."""
        ...

    def allowed(self) -> I32:
        """Return the tokens that may follow: (n,) int32, ascending. It must not be written to."""
        ...

    def mask(self) -> NDArray[np.uint32]:
        """Return the same as bits: (ceil(v/32),) uint32, token t is bit t%32 of word t//32.

        It must not be written to. Each call may write its mask to the same memory.
        """
        ...

    def advance(self, token: int) -> None:
        """Read a token.

        Raises:
            RequestError: it is not allowed here.

        """
        ...

    def advance_bytes(self, text: bytes) -> bool:
        """Read bytes; False, and nothing read, where they are not allowed here."""
        ...

    def forced(self) -> bytes:
        """Return the longest text that every continuation begins with (at most 64 KiB of it)."""
        ...

    def shortest(self) -> bytes:
        """Return a text, the shortest or nearly, that makes what was read a whole value."""
        ...

    def closing(self) -> bytes:
        """Return a short text that ends the string that is open, or b"" where none is."""
        ...


class ReferenceSession:
    """An `ArgumentSession` on the definition itself; slow."""

    def __init__(
        self, grammar: Grammar, vocabulary: TokenVocabulary, completer: Completer, root: int
    ) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._completer = completer
        self._here: Configuration = begin(grammar, root)
        self._masks: dict[Configuration, I32] = {}

    @property
    def accepts(self) -> bool:
        """See `ArgumentSession`."""
        return None in self._here

    @property
    def finished(self) -> bool:
        """See `ArgumentSession`."""
        return self._here == frozenset([None])

    def allowed(self) -> I32:
        """See `ArgumentSession`."""
        found = self._masks.get(self._here)
        if found is None:
            tokens = np.array(sorted(self._tokens()), np.int32)
            found = self._masks[self._here] = tokens.reshape(len(tokens))
        return found

    def mask(self) -> NDArray[np.uint32]:
        """See `ArgumentSession`."""
        return bits_of(self.allowed(), self._vocabulary.size)

    def advance(self, token: int) -> None:
        """See `ArgumentSession`."""
        text = self._vocabulary.spelling(token)
        if text is None or not self.advance_bytes(text):
            raise refused(token, text)

    def advance_bytes(self, text: bytes) -> bool:
        """See `ArgumentSession`."""
        after = step_all(self._grammar, self._here, text)
        if after:
            self._here = after
        return bool(after)

    def forced(self) -> bytes:
        """See `ArgumentSession`."""
        run = bytearray()
        here = self._here
        while len(run) < MAX_FORCED_BYTES and None not in here:
            after = [(byte, found) for byte in range(256) if (found := self._step(here, byte))]
            if len(after) != 1:
                break
            run.append(after[0][0])
            here = after[0][1]
        return bytes(run)

    def shortest(self) -> bytes:
        """See `ArgumentSession`."""
        return self._completer.shortest(self._here)

    def closing(self) -> bytes:
        """See `ArgumentSession`."""
        return self._completer.closing(self._here)

    def _step(self, here: Configuration, byte: int) -> Configuration:
        return step(self._grammar, here, byte)

    def _tokens(self) -> Iterable[int]:
        vocabulary = self._vocabulary
        starts, tokens = vocabulary.token_starts.tolist(), vocabulary.tokens.tolist()
        waiting = [(0, self._here)]
        while waiting:
            node, here = waiting.pop()
            yield from tokens[starts[node] : starts[node + 1]]
            for byte, child in vocabulary.children[node]:
                after = step(self._grammar, here, byte)
                if after:
                    waiting.append((child, after))


def bits_of(tokens: I32, size: int) -> NDArray[np.uint32]:
    """Return ascending tokens as bits."""
    words = np.zeros(-(-size // 32), np.uint32)
    np.bitwise_or.at(words, tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
    return words


def refused(token: int, text: bytes | None) -> RequestError:
    """Return the error for a token that is not allowed."""
    spelt = "has no text of its own" if text is None else f"({text!r}) is not allowed here"
    return RequestError(f"token {token} {spelt}; take one of `allowed()`")
