"""From names to the name trie.

Owns the choice of the spelling of "no tool fits" and the setting aside of names that can't be
routed. Never reads a catalog and never touches a file.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_compiler.errors import GrammarError
from catalog_compiler.grammar.placement import NONE_TEXTS, Placement
from catalog_compiler.grammar.spelling import Refusal, Speller, Spelling
from catalog_compiler.grammar.trie import NONE_LEAF, NameTrie, trie_from_sequences

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class NameGrammar:
    """The trie and what was decided on the way.

    Attributes:
        trie: its tool indices count the *kept* names in the order given.
        placement: as asked for, with the spelling of "no tool fits" filled in.
        kept: positions, ascending, of the names that are routed.
        refused: position to reason for the others.
        respelt: positions whose tokens are a proved alternative to the tokenizer's own choice.

    """

    trie: NameTrie
    placement: Placement
    kept: tuple[int, ...]
    refused: dict[int, Refusal]
    respelt: tuple[int, ...]


def build_name_grammar(
    names: Sequence[str],
    tokenizer: Tokenizer,
    placement: Placement,
    *,
    reserved: Collection[str] = (),
) -> NameGrammar:
    """Spell every name and "no tool fits", and build the trie over those that can be spelt.

    Args:
        names: distinct routed names.
        tokenizer: any Hugging Face tokenizer.
        placement: the texts around a name.
        reserved: other texts (aliases) that "no tool fits" must not be spelt like.

    Raises:
        GrammarError: a name occurs twice, no name can be spelt, or "no tool fits" can't.

    """
    if len(set(names)) != len(names):
        twice = next(name for name, group in itertools.groupby(sorted(names)) if len([*group]) > 1)
        raise GrammarError(f"the name {twice!r} occurs twice; routed names must be distinct")
    speller = Speller(tokenizer, placement)
    spellings = speller.spell(names)
    taken = {name.casefold() for name in (*names, *reserved)}
    none_text, none_tokens = _spell_none(speller, placement.none_text, taken)

    refused: dict[int, Refusal] = {}
    sequences: dict[int, tuple[int, ...]] = {}
    respelt = []
    for position, spelling in enumerate(spellings):
        if isinstance(spelling, Refusal):
            refused[position] = spelling
            continue
        sequences[position] = spelling.tokens + speller.delimiter
        if not spelling.in_place:
            respelt.append(position)
    clashes = _swallowed(sequences, none_tokens)
    for position in clashes:
        del sequences[position]
        refused[position] = Refusal(
            "name-holds-delimiter",
            f"the name goes on after the delimiter {placement.delimiter!r} where another name ends",
            "rename the tool, or choose a delimiter that no name holds (an end-of-turn token)",
        )
    if not sequences:
        reason = next(iter(refused.values()), None)
        raise GrammarError(
            f"none of the {len(names)} names can be routed: {reason.reason}; {reason.mend}"
            if reason
            else "there is no name to route; give at least one tool"
        )
    kept = tuple(sorted(sequences))
    trie = trie_from_sequences(
        [*(sequences[position] for position in kept), none_tokens],
        [*range(len(kept)), NONE_LEAF],
    )
    return NameGrammar(
        trie=trie,
        placement=replace(placement, none_text=none_text),
        kept=kept,
        refused=dict(sorted(refused.items())),
        respelt=tuple(position for position in respelt if position in sequences),
    )


def build_name_trie(names: Sequence[str], tokenizer: Tokenizer, placement: Placement) -> NameTrie:
    """Build the trie over all names; leaf tools count them in the order given.

    Raises:
        GrammarError: as `build_name_grammar`, and where one name cannot be routed, naming it.

    """
    grammar = build_name_grammar(names, tokenizer, placement)
    for position, refusal in grammar.refused.items():
        raise GrammarError(f"tool {names[position]!r}: {refusal.reason}; {refusal.mend}")
    return grammar.trie


def _spell_none(
    speller: Speller, wanted: str, taken: Collection[str]
) -> tuple[str, tuple[int, ...]]:
    """Return the text for "no tool fits" and its tokens, delimiter included."""
    if wanted and wanted.casefold() in taken:
        raise GrammarError(
            f'"no tool fits" is to be spelt {wanted!r}, which is a tool\'s name or alias; '
            "choose another spelling, or leave it to the compiler"
        )
    for text in [wanted] if wanted else _none_texts(taken):
        spelling = speller.spell([text])[0]
        if isinstance(spelling, Spelling):
            return text, spelling.tokens + speller.delimiter
    raise GrammarError(
        f'the tokenizer cannot spell "no tool fits" ({wanted or ", ".join(NONE_TEXTS)}); '
        "it cannot give texts back exactly, so it cannot be used for routing"
    )


def _none_texts(taken: Collection[str]) -> Iterator[str]:
    """Yield the first spellings that are free."""
    numbered = (f"no_tool_fits_{number}" for number in itertools.count(2))
    free = (text for text in itertools.chain(NONE_TEXTS, numbered) if text.casefold() not in taken)
    return itertools.islice(free, len(NONE_TEXTS))


def _swallowed(sequences: dict[int, tuple[int, ...]], none: tuple[int, ...]) -> list[int]:
    """Find the positions whose tokens begin with the whole tokens of another leaf."""
    if any(none[: len(other)] == other for other in sequences.values()):
        raise GrammarError(
            'the tokens of "no tool fits" begin with those of a tool\'s name and the delimiter; '
            "spell it otherwise"
        )
    rows = sorted([(tokens, position) for position, tokens in sequences.items()] + [(none, -1)])
    swallowed = []
    last = rows[0][0]
    for tokens, position in rows[1:]:
        if tokens[: len(last)] == last:
            swallowed.append(position)
        else:
            last = tokens
    return swallowed
