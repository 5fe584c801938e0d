"""Texts become tokens whose bytes are the text, whatever the tokenizer does to it."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from decoder.errors import RequestError
from decoder.speller import TokenSpeller

WORDS = ["<end>", "a", "b", "ab", '"', '":', ":", "A", "é"]
SPELLINGS = [None, b"a", b"b", b"ab", b'"', b'":', b":", b"A", "é".encode()]


def word_tokenizer(normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(WORDS)}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("x", "removed")
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


def test_the_tokenizers_own_choice_is_taken() -> None:
    """Its merges, not the longest words."""
    speller = TokenSpeller(word_tokenizer(), SPELLINGS)
    assert speller.spell(b'ab":') == (3, 4, 6)  # it has no merge for the last two
    assert b"".join(map(speller.spelling, (3, 4, 6))) == b'ab":'
    assert speller.spell(b"") == ()
    assert speller.spelling(0) == b""


def test_what_a_tokenizer_would_change_is_spelt_by_the_longest_tokens() -> None:
    """A normaliser that lowers letters, half a character, an added token's spelling."""
    speller = TokenSpeller(word_tokenizer(normalizers.Lowercase()), SPELLINGS)
    assert speller.spell(b'Aab":') == (7, 3, 5)
    assert speller.spell("é".encode()) == (8,)
    with pytest.raises(RequestError, match="0xc3"):
        speller.spell(b"a\xc3")
    with pytest.raises(RequestError, match="0x3c"):
        TokenSpeller(word_tokenizer(), SPELLINGS).spell(b"<end>")
