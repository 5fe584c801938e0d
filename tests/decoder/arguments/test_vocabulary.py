"""Tokens by their bytes: the trie, and how tokenizers spell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from decoder.arguments import TokenVocabulary, vocabulary_of
from decoder.errors import RequestError, UnsupportedModelError
from decoder.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from pathlib import Path


def test_the_trie_is_depth_first() -> None:
    """Equal spellings stand together; empty ones are none."""
    vocabulary = TokenVocabulary([b"b", b"ab", None, b"a", b"b", b"", b"abc"])
    assert vocabulary.bytes.tolist() == [0, *b"abcb"]
    assert vocabulary.ends.tolist() == [5, 4, 4, 4, 5]
    assert vocabulary.token_starts.tolist() == [0, 0, 1, 2, 3, 5]
    assert vocabulary.tokens.tolist() == [3, 1, 6, 0, 4]
    assert vocabulary.children == [[(97, 1), (98, 4)], [(98, 2)], [(99, 3)], [], []]
    assert vocabulary.longest == 3
    assert vocabulary.size == 7
    assert vocabulary.spelling(1) == b"ab"
    assert [vocabulary.spelling(token) for token in (-1, 2, 5, 7)] == [None] * 4


def test_a_vocabulary_without_texts_is_refused() -> None:
    """Nothing could ever be allowed."""
    with pytest.raises(RequestError, match="no token"):
        TokenVocabulary([None, b""])


def test_byte_level_tokens_are_the_bytes_that_their_letters_stand_for() -> None:
    """A space is Ġ, a line feed Ċ, é two letters; added tokens are None."""
    texts = ["a", "Ġa", "Ċ", "Ã©", "ľ", "~"]
    tokenizer = Tokenizer(models.BPE({text: rank for rank, text in enumerate(texts)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.add_tokens([AddedToken("a")])
    found = vocabulary_of(tokenizer)
    assert found == [None, b" a", b"\n", "é".encode(), b"\x9c", b"~", None]


def test_byte_fallback_tokens() -> None:
    """A lower one eighth block is a space, and bytes have tokens of their own."""
    texts = ["<unk>", "▁a", "é", "<0x0A>", "<0xe9>", "▁▁"]
    vocab = {text: rank for rank, text in enumerate(texts)}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>"])
    assert vocabulary_of(tokenizer) == [None, b" a", "é".encode(), b"\n", b"\xe9", b"  "]


def test_other_tokenizers_are_refused() -> None:
    """Word pieces can't be joined byte by byte."""
    tokenizer = Tokenizer(models.WordPiece({"a": 0, "##b": 1}, unk_token="a"))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModelError, match="WordPiece"):
        vocabulary_of(tokenizer)


@pytest.mark.model
def test_the_real_vocabulary_spells_what_it_encodes(smollm2_gguf: Path) -> None:
    """Tokens' bytes, joined, are the text."""
    tokenizer = load_tokenizer(smollm2_gguf).tokenizer
    spellings = vocabulary_of(tokenizer)
    assert len(spellings) == tokenizer.get_vocab_size()
    for text in ('{"city": "Ulm", "days": [1, 2]}', "日本 😀\n\té~", 'a "quoted\\" text'):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert b"".join(spellings[token] or b"?" for token in ids) == text.encode()
    # Not every byte stands alone in it, and control tokens have no text.
    assert spellings[tokenizer.token_to_id("<|im_end|>")] is None
    assert sum(text is not None for text in spellings) > 49_000
