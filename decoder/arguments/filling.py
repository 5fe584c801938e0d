"""Characters that complete a string or a number in few bytes, and how many bytes are too many.

Owns the choice among characters that an automaton takes alike. Never knows containers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar

from decoder.arguments.automata import ANY_TEXT
from decoder.arguments.graph import MANY
from decoder.errors import BudgetError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from decoder.arguments.automata import Automaton

ANY: Final = ((0, 0xD7FF), (0xE000, 0x10FFFF))
MAX_TEXT_BYTES: Final = 1 << 18
"""Longest completion that is worked out; no model writes that much in one answer."""
T = TypeVar("T")
ASCII: Final = ((0, 0x7F),)
_PLAIN: Final = (
    *((0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0x20, 0x20), (0x21, 0x21), (0x23, 0x2F)),
    *((0x3A, 0x40), (0x5B, 0x5B), (0x5D, 0x60), (0x7B, 0x7F)),
)
"""Characters that are one byte in a string, in the order in which they are preferred."""


def too_long() -> BudgetError:
    """Return the error for what can't be completed within reason."""
    return BudgetError(
        f"the shortest text takes more than {MAX_TEXT_BYTES} bytes, or too many members; lower the "
        "schema's bounds"
    )


def spell(text: str) -> bytes:
    """Return characters as they stand in a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def rest_of_text(
    automaton: Automaton,
    state: int,
    least: int = 0,
    ranges: Iterable[tuple[int, int]] = ANY,
) -> str:
    """Return a rest with the fewest characters, at least `least` where that many can come.

    Raises:
        RequestError: the tables promise a rest that there is none of.
        BudgetError: it is longer than any that could be written.

    """
    length = max(least, automaton.rest(state))
    if length > MAX_TEXT_BYTES:
        raise too_long()
    if automaton is ANY_TEXT:
        return "a" * length
    text: list[str] = []
    for left in range(length, 0, -1):
        moves = [move for move in automaton.moves(state, ranges) if automaton.rest(move[2]) < left]
        if not moves:
            raise RequestError(
                "an automaton has no text within its bounds; compile the catalog again"
            )
        character, state = min(
            ((next(_nicest(low, high)), target) for low, high, target in moves), key=_weight
        )
        text.append(chr(character))
    return "".join(text)


def rest_of_key(automaton: Automaton, state: int, text: str, used: frozenset[str]) -> str:
    """Return a rest that makes of `text` a key that is not used.

    Raises:
        RequestError: the tables promise a rest that there is none of.

    """
    begun = text
    while True:
        gone = [key for key in used if key.startswith(text)]
        if not gone:
            return text[len(begun) :] + rest_of_text(automaton, state)
        if text not in gone and automaton.accepts(state) >= 0:
            return text[len(begun) :]
        found: list[tuple[int, int, int]] = []
        for low, high, target in automaton.moves(state, ANY):
            for rank, character in enumerate(_nicest(low, high)):
                if rank > len(gone):
                    break
                taken = sum(1 for key in gone if key.startswith(text + chr(character)))
                rests = automaton.rests(target)
                if rests > taken or rests >= MANY:
                    found.append((automaton.rest(target) + taken, character, target))
        if not found:
            raise RequestError("an object has no free key left; compile the catalog again")
        _, character, state = min(found)
        text += chr(character)


def _nicest(low: int, high: int) -> Iterator[int]:
    """Yield the characters of a range, those of one byte first."""
    for first, last in _PLAIN:
        yield from range(max(low, first), min(high, last) + 1)
    for character in range(low, high + 1):
        if not any(first <= character <= last for first, last in _PLAIN):
            yield character


def _weight(choice: tuple[int, int]) -> tuple[int, int]:
    return len(spell(chr(choice[0]))), choice[0]


def grown(size: int, text: bytes, times: int = 1) -> int:
    """Return the size with a text more; raise BudgetError where that is beyond reason."""
    if size + times * len(text) > MAX_TEXT_BYTES:
        raise too_long()
    return size + times * len(text)


def shortest_of(complete: Callable[[T], bytes], stacks: Iterable[T]) -> bytes:
    """Return the shortest of some stacks' completions, those that are beyond reason left out.

    Raises:
        BudgetError: all are.

    """
    found: list[bytes] = []
    problem = too_long()
    for stack in stacks:
        try:
            found.append(complete(stack))
        except BudgetError as error:
            problem = error
    if not found:
        raise problem
    return min(found, key=lambda text: (len(text), text))
