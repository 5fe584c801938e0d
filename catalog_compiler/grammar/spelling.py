"""How a name is spelt in a model's tokens, proved for each name.

Owns the tokenisation in place: the tokens of ``context + prefix + name + delimiter`` with those
around the name taken off, and other segmentations where a tokenizer merges across a border or
takes a piece of a name for a control token. A segmentation counts only when it is *proved*: the
tokens after the prefix decode to the name exactly and none of them is an added token.
Never builds the trie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenizers import Tokenizer

from catalog_compiler.errors import GrammarError
from catalog_compiler.grammar.cuts import AddedTokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_compiler.grammar.placement import Placement

MAX_NAME_CHARS: Final = 2_000
"""Longer names are refused before they are tokenised, in characters."""

MAX_NAME_TOKENS: Final = 256
"""Longer spellings are refused: every token of a name costs the decoder a position."""

_BATCH: Final = 8_192
_ANCHORS: Final = ("a", "x", "0", ":")
"""Texts a delimiter is tokenised after, to see its tokens in place."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A name's tokens, those of the prefix and the delimiter not among them.

    Attributes:
        tokens: token ids; never empty.
        in_place: whether they are the tokenizer's own choice in place, or a proved alternative.

    """

    tokens: tuple[int, ...]
    in_place: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a name cannot be spelt.

    Attributes:
        code: stable kebab-case identifier.
        reason: one sentence.
        mend: one sentence.

    """

    code: str
    reason: str
    mend: str


class Speller:
    """Spells names for one tokenizer and one placement."""

    def __init__(self, tokenizer: Tokenizer, placement: Placement) -> None:
        """Tokenise what surrounds a name.

        Args:
            tokenizer: any Hugging Face tokenizer; never changed.
            placement: the texts around a name.

        Raises:
            GrammarError: the tokenizer is random (BPE dropout), or the delimiter has no tokens of
                its own after a name.

        """
        if getattr(tokenizer.model, "dropout", None):
            raise GrammarError(
                "the tokenizer's BPE drops merges at random, so no spelling is stable; "
                "set its model's dropout to null"
            )
        tokenizer = without_limits(tokenizer)
        self._tokenizer = tokenizer
        self._lead = placement.context + placement.prefix
        self._delimiter_text = placement.delimiter
        self._added = AddedTokens(tokenizer)
        self._lead_tokens = self._encode(self._lead)
        self._lead_text = self._decode(self._lead_tokens)
        self.delimiter = self._delimiter_tokens()
        self._alternatives: list[Tokenizer] | None = None

    def spell(self, names: Sequence[str]) -> list[Spelling | Refusal]:
        """Spell every name, in the order given; one that can't be spelt harms no other."""
        answers: list[Spelling | Refusal] = []
        for start in range(0, len(names), _BATCH):
            answers += self._spell_batch(names[start : start + _BATCH])
        return answers

    def _spell_batch(self, names: Sequence[str]) -> list[Spelling | Refusal]:
        refused = [_refuse_unread(name) for name in names]
        readable = [i for i, refusal in enumerate(refused) if refusal is None]
        encodings = self._tokenizer.encode_batch_fast(
            [self._lead + names[i] + self._delimiter_text for i in readable],
            add_special_tokens=False,
        )
        cut = [self._between(encoding.ids) for encoding in encodings]
        proofs = self._decode_batch([self._lead_tokens + (tokens or []) for tokens in cut])
        answers: list[Spelling | Refusal | None] = list(refused)
        for i, tokens, text in zip(readable, cut, proofs, strict=True):
            if tokens and text == self._lead_text + names[i] and not self._added.any_in(tokens):
                answers[i] = _bounded(tokens, in_place=True)
            else:
                answers[i] = self._spell_otherwise(names[i], tokens)
        return [answer for answer in answers if answer is not None]

    def _between(self, ids: list[int]) -> list[int] | None:
        """Take the lead's and the delimiter's tokens off; None where they are not intact."""
        front, back = len(self._lead_tokens), len(self.delimiter)
        if len(ids) <= front + back:
            return None
        if ids[:front] != self._lead_tokens or tuple(ids[-back:]) != self.delimiter:
            return None
        return ids[front:-back]

    def _spell_otherwise(self, name: str, in_place: list[int] | None) -> Spelling | Refusal:
        with_added: list[list[int]] = []
        for tokens in self._segmentations(name):
            if self._proved(tokens, name):
                if not self._added.any_in(tokens):
                    return _bounded(tokens, in_place=False)
                with_added.append(tokens)
        # Some vocabularies hold ordinary text (runs of blanks, digits) as added tokens that are
        # not special; with nothing better they are as good a spelling as any.
        if in_place and self._proved(in_place, name):
            with_added.append(in_place)
        for tokens in with_added:
            if not self._added.any_special_in(tokens):
                return _bounded(tokens, in_place=False)
        return Refusal(
            "name-not-spellable",
            "the model's tokenizer cannot give this name back exactly "
            "(it lower-cases, normalises or does not know some of its characters)",
            "rename the tool (plain ASCII letters, digits, _ and - nearly always work), keep the "
            "old name as an alias, or compile for a model with another tokenizer",
        )

    def _proved(self, tokens: list[int], name: str) -> bool:
        return bool(tokens) and self._decode(self._lead_tokens + tokens) == self._lead_text + name

    def _segmentations(self, name: str) -> Iterator[list[int]]:
        """Yield other ways to spell a name: its text alone, uncut or cut inside control tokens."""
        pieces = self._added.cut(name)
        for tokenizer in self._text_tokenizers():
            for anchor in ("", "\n", *_ANCHORS):
                tokens = _after_anchor(tokenizer, anchor, pieces)
                if tokens:
                    yield tokens

    def _text_tokenizers(self) -> list[Tokenizer]:
        """Return tokenizers that take everything for text: as it is, and without normaliser."""
        if self._alternatives is None:
            plain = Tokenizer.from_str(self._tokenizer.to_str())
            plain.encode_special_tokens = True
            self._alternatives = [plain]
            if plain.normalizer is not None:
                exact = Tokenizer.from_str(self._tokenizer.to_str())
                exact.encode_special_tokens = True
                exact.normalizer = None
                self._alternatives.append(exact)
        return self._alternatives

    def _delimiter_tokens(self) -> tuple[int, ...]:
        for anchor in _ANCHORS:
            before = self._encode(self._lead + anchor)
            whole = self._encode(self._lead + anchor + self._delimiter_text)
            tokens = whole[len(before) :]
            if not tokens or whole[: len(before)] != before:
                continue
            if self._decode(whole) == self._decode(before) + self._delimiter_text:
                return tuple(tokens)
        raise GrammarError(
            f"the delimiter {self._delimiter_text!r} has no tokens of its own after a name; "
            "use the model's end-of-turn token (an added token of its tokenizer); a tokenizer that "
            "cannot give texts back exactly, as WordPiece, serves no routing"
        )

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _decode(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=False)

    def _decode_batch(self, sequences: list[list[int]]) -> list[str]:
        return self._tokenizer.decode_batch(sequences, skip_special_tokens=False)


def without_limits(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that neither cuts nor pads: itself, or a copy where it does."""
    if tokenizer.truncation is None and tokenizer.padding is None:
        return tokenizer
    whole: Tokenizer = Tokenizer.from_str(tokenizer.to_str())
    whole.no_truncation()
    whole.no_padding()
    return whole


def _after_anchor(tokenizer: Tokenizer, anchor: str, pieces: list[str]) -> list[int] | None:
    """Tokenise each piece as it stands after the anchor; None where the anchor's tokens change."""
    tokens: list[int] = []
    anchored = tokenizer.encode(anchor, add_special_tokens=False).ids if anchor else []
    for piece in pieces:
        ids = tokenizer.encode(anchor + piece, add_special_tokens=False).ids
        if ids[: len(anchored)] != anchored:
            return None
        tokens += ids[len(anchored) :]
    return tokens


def _refuse_unread(name: str) -> Refusal | None:
    """Refuse what no tokenizer can be handed: nothing, too much, or half a surrogate pair."""
    if not name:
        return Refusal("name-empty", "the name is empty", "name the tool")
    if len(name) > MAX_NAME_CHARS:
        return Refusal(
            "name-too-long",
            f"the name has {len(name):,} characters; at most {MAX_NAME_CHARS:,} are routed",
            "shorten the name",
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        return Refusal(
            "name-not-unicode",
            "the name holds half a surrogate pair, which is no Unicode text",
            "write the name as valid Unicode",
        )
    return None


def _bounded(tokens: list[int], *, in_place: bool) -> Spelling | Refusal:
    if len(tokens) > MAX_NAME_TOKENS:
        return Refusal(
            "name-too-long",
            f"the name takes {len(tokens)} tokens; at most {MAX_NAME_TOKENS} are routed",
            "shorten the name",
        )
    return Spelling(tuple(tokens), in_place)
