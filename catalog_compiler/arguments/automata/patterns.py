"""What a pattern accepts: from its syntax to an automaton.

Owns the meaning of anchors and of what must follow. A part is translated together with all that
comes after it, so that "here, X follows" is an intersection with what comes after.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata import char_sets, ecma
from catalog_compiler.arguments.automata.build import automaton_of
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.expressions import Expressions

if TYPE_CHECKING:
    from catalog_compiler.arguments.automata.ecma import Syntax
    from catalog_compiler.arguments.automata.expressions import Expr
    from catalog_compiler.arguments.automaton import Automaton

MAX_UNROLLED: Final = 8
"""A part with anchors in it is repeated at most so often."""


@functools.lru_cache(maxsize=4_096)
def pattern(source: str) -> Automaton:
    """Return the texts in which the pattern is found somewhere, as JSON Schema's `pattern` says.

    Args:
        source: an ECMA-262 regular expression.

    Raises:
        PatternError: it is malformed, not regular, or too large.

    """
    return _translated(source, whole=False)


@functools.lru_cache(maxsize=4_096)
def whole_pattern(source: str) -> Automaton:
    """Return the texts that the pattern matches from start to end; raises as `pattern`."""
    return _translated(source, whole=True)


def _translated(source: str, *, whole: bool) -> Automaton:
    arena = Expressions()
    translator = _Translator(arena)
    try:
        syntax = ecma.parse(source)
        if whole:
            found = translator.after(syntax, arena.empty, _Left.START)
        else:
            options = [translator.after(syntax, arena.any_text, _Left.START)]
            options += [
                arena.cat(before, translator.after(syntax, arena.any_text, left))
                for left, before in translator.endings(arena.any_text, split=_asks_left(syntax))
            ]
            found = arena.alt(options)
        return automaton_of(arena, found)
    except RecursionError:
        raise PatternError(f"{source[:80]!r} is nested too deep") from None
    except PatternError as error:
        raise PatternError(f"{source[:80]!r}: {error}") from None


class _Left(enum.Enum):
    """What stands before a place: nothing, a word character, another one."""

    START = enum.auto()
    WORD = enum.auto()
    OTHER = enum.auto()


class _Translator:
    def __init__(self, arena: Expressions) -> None:
        self._arena = arena
        other = char_sets.complement(ecma.WORD)
        self._ends = {
            _Left.WORD: arena.cat(arena.any_text, arena.chars(ecma.WORD)),
            _Left.OTHER: arena.cat(arena.any_text, arena.chars(other)),
        }

    def endings(self, part: Expr, *, split: bool) -> list[tuple[_Left, Expr]]:
        """Return the texts of a part that are not empty, by what they end in where it matters."""
        arena = self._arena
        if not split:
            some = arena.cat(arena.any_char, arena.any_text)
            return [(_Left.OTHER, arena.both([part, some]))]
        return [(left, arena.both([part, end])) for left, end in self._ends.items()]

    def after(self, part: Syntax, rest: Expr, left: _Left) -> Expr:
        """Translate a part with what comes after it.

        Args:
            part: the syntax.
            rest: what may follow it, to the end of the text.
            left: what stands before it.

        """
        arena = self._arena
        if not _has_edges(part):
            return arena.cat(self._plain(part), rest)
        match part:
            case ecma.Sequence(parts):
                return self._sequence(parts, rest, left)
            case ecma.Choice(parts):
                return arena.alt([self.after(each, rest, left) for each in parts])
            case ecma.Repeat(inner, low, high):
                counts = _counts(low, high)
                return arena.alt([self._sequence((inner,) * n, rest, left) for n in counts])
            case ecma.Edge(at_start):
                if at_start:
                    return rest if left is _Left.START else arena.nothing
                return arena.empty if arena.nullable(rest) else arena.nothing
            case ecma.WordEdge(negated):
                # After a word character a boundary is where none follows, and the other way round.
                look = ecma.Look(ecma.Chars(ecma.WORD), negated=(left is _Left.WORD) != negated)
                return self.after(look, rest, left)
            case ecma.Look(inner, negated):
                seen = self.after(inner, arena.any_text, left)
                return arena.both([arena.without(seen) if negated else seen, rest])
        raise TypeError(f"{part!r} is no syntax")  # pragma: no cover

    def _sequence(self, parts: tuple[Syntax, ...], rest: Expr, left: _Left) -> Expr:
        """Translate parts from the last to the first, unless one asks what stands before it."""
        arena = self._arena
        if not parts:
            return rest
        head, tail = parts[0], parts[1:]
        if not _asks_left(ecma.Sequence(tail)):
            return self.after(head, self._sequence(tail, rest, left), left)
        match head:
            case ecma.Edge() | ecma.WordEdge() | ecma.Look():
                return self.after(head, self._sequence(tail, rest, left), left)
            case ecma.Sequence(inner):
                return self._sequence((*inner, *tail), rest, left)
            case ecma.Choice(options):
                return arena.alt([self._sequence((each, *tail), rest, left) for each in options])
            case ecma.Repeat(inner, low, high) if _has_edges(inner):
                counts = _counts(low, high)
                return arena.alt([self._sequence((inner,) * n + tail, rest, left) for n in counts])
        plain = self._plain(head)
        found = [
            arena.cat(texts, self._sequence(tail, rest, end))
            for end, texts in self.endings(plain, split=True)
        ]
        if arena.nullable(plain):
            found.append(self._sequence(tail, rest, left))
        return arena.alt(found)

    def _plain(self, part: Syntax) -> Expr:
        """Translate a part without anchors."""
        arena = self._arena
        match part:
            case ecma.Chars(chars):
                return arena.chars(chars)
            case ecma.Sequence(parts):
                return arena.cat(*map(self._plain, parts))
            case ecma.Choice(parts):
                return arena.alt(map(self._plain, parts))
            case ecma.Repeat(inner, low, high):
                return arena.loop(self._plain(inner), low, high)
        raise TypeError(f"{part!r} has an anchor")  # pragma: no cover


def _counts(low: int, high: int | None) -> range:
    if high is None or high > MAX_UNROLLED:
        raise PatternError(f"an anchor inside what is repeated more than {MAX_UNROLLED} times")
    return range(low, high + 1)


def _has_edges(part: Syntax) -> bool:
    match part:
        case ecma.Sequence(parts) | ecma.Choice(parts):
            return any(map(_has_edges, parts))
        case ecma.Repeat(inner, _, _):
            return _has_edges(inner)
    return not isinstance(part, ecma.Chars)


def _asks_left(part: Syntax) -> bool:
    """Tell whether what a part accepts depends on what stands before it."""
    match part:
        case ecma.Sequence(parts) | ecma.Choice(parts):
            return any(map(_asks_left, parts))
        case ecma.Repeat(inner, _, _) | ecma.Look(inner, _):
            return _asks_left(inner)
        case ecma.Edge(at_start):
            return at_start
    return isinstance(part, ecma.WordEdge)
