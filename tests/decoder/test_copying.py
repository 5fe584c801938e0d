"""What goes on with a copy of the request is named, and favoured only where it is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from decoder.copying import Copying
from decoder.engine import GenerateRequest
from tests.decoder.test_generation import FIRST, SPELLER, WORDS, OneOf, engine, letters, run

if TYPE_CHECKING:
    from decoder.kernels.base import I32


class Words:
    """Tokens 0, 1, 2 ... are these texts."""

    texts = (b'"', b'",', b"P", b"Par", b"Paris", b"is", b" ", b" and", b"an", b"Rome", b"\xc3")

    def token(self, text: bytes) -> int | None:
        return self.texts.index(text) if text in self.texts else None

    @property
    def quotes(self) -> I32:
        return np.array([0, 1], np.int32)


SOURCE = Copying("to Paris and Rome, Éire".encode(), Words())


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (b"", [b"P", b"Par", b"Paris", b"an", b"Rome", b"\xc3"]),  # wherever a word begins
        (b"Par", [b"is"]),  # inside one it does not end
        (b"Paris", [b'"', b'",', b" ", b" and"]),
        (b"Paris and Ro", []),
        (b"Paris and Rome", [b'"', b'",']),
        (b"Berlin", []),
        (b"aris", []),  # no copy begins inside a word
    ],
)
def test_copies_begin_with_words_and_end_with_words(written: bytes, named: list[bytes]) -> None:
    """The tokens, ascending."""
    found = SOURCE.favoured(written)
    assert [Words.texts[token] for token in found] == sorted(named, key=Words.texts.index)
    assert found.dtype == np.int32


def test_what_is_favoured_is_written_where_it_may_be() -> None:
    """By enough nats the copy is taken, whatever the model says; the grammar still rules."""

    class Speller:
        def token(self, text: bytes) -> int | None:
            return FIRST + WORDS.index(text) if text in WORDS else None

        @property
        def quotes(self) -> I32:
            return (FIRST + np.flatnonzero([w.startswith(b'"') for w in WORDS])).astype(np.int32)

    texts = letters(0, 1, 2, 3, 4)
    for first in range(5, 25):
        for source, text in ((b"say abba", b'{"a":"abba"}'), (b"say aaaaaa", b'{"a":"aaaa"}')):
            request = GenerateRequest(
                np.array([first], np.int32),
                OneOf(texts),
                SPELLER,
                40,
                copying=Copying(source[4:], Speller()),
                copy_nats=50.0,
            )
            generated = run(engine(), request)[0].generated
            assert generated is not None
            assert generated.text in texts
            if source == b"say abba":
                assert generated.text == text
            assert generated.logprob <= 0.0
