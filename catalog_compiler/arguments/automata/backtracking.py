"""Patterns that no automaton has, as the `regex` package reads them.

Owns the translation: sets of characters by their code points, so that nothing is left to how an
engine reads a class, an escape or a flag. Never used where there is an automaton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata.ecma import WORD, parse
from catalog_compiler.arguments.automata.syntax import (
    BackReference,
    Chars,
    Choice,
    Edge,
    Group,
    Look,
    Repeat,
    Sequence,
    WordEdge,
)

if TYPE_CHECKING:
    from catalog_compiler.arguments.automata.char_sets import CharSet
    from catalog_compiler.arguments.automata.syntax import Syntax

_LOOKS: Final = {
    (False, False): "(?=", (True, False): "(?!", (False, True): "(?<=", (True, True): "(?<!",
}  # fmt: skip


def translate(source: str) -> str:
    """Return a pattern of ECMA-262 (unicode mode) as the `regex` package's, which finds the same.

    Raises:
        PatternError: it is malformed, or means what can't be said there.

    """
    return _written(parse(source, backtracking=True))


def _written(part: Syntax) -> str:
    match part:
        case Chars(chars):
            return _set(chars)
        case Sequence(parts):
            return "".join(map(_written, parts))
        case Choice(parts):
            return f"(?:{'|'.join(map(_written, parts))})"
        case Repeat(inner, low, high):
            return f"(?:{_written(inner)}){{{low},{'' if high is None else high}}}"
        case Edge(at_start):
            return r"\A" if at_start else r"\Z"
        case WordEdge(negated):
            word = _set(WORD)
            same, other = f"(?<={word})(?={word})", f"(?<!{word})(?!{word})"
            if not negated:
                same, other = f"(?<={word})(?!{word})", f"(?<!{word})(?={word})"
            return f"(?:{same}|{other})"
        case Look(inner, negated, behind):
            return f"{_LOOKS[negated, behind]}{_written(inner)})"
        case Group(inner, _):  # in the order of their numbers
            return f"({_written(inner)})"
        case BackReference(number):  # to a group that matched nothing it matches the empty text
            return f"(?({number})\\g<{number}>)"


def _set(chars: CharSet) -> str:
    if not chars:
        return "(?!)"
    ranges = (f"{_code(low)}-{_code(high)}" if low < high else _code(low) for low, high in chars)
    return f"[{''.join(ranges)}]"


def _code(point: int) -> str:
    return f"\\U{point:08x}"
