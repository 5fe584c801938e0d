"""What a pattern accepts: from its syntax to an automaton.

Owns the meaning of anchors and of what must follow. A part is translated together with all that
comes after it, so that "here, X follows" is an intersection with what comes after.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from catalog_compiler.arguments.automata import char_sets, ecma, syntax
from catalog_compiler.arguments.automata.build import automaton_of
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.expressions import CHARS, Expressions

if TYPE_CHECKING:
    from catalog_compiler.arguments.automata.char_sets import CharSet
    from catalog_compiler.arguments.automata.expressions import Expr
    from catalog_compiler.arguments.automata.syntax import Syntax
    from catalog_compiler.arguments.automaton import Automaton

_OTHER: Final = char_sets.complement(ecma.WORD)

MAX_UNROLLED: Final = 100
"""A part with anchors in it is repeated at most so often, or without end."""


def pattern(source: str) -> Automaton:
    """Return the texts in which the pattern is found somewhere, as JSON Schema's `pattern` says.

    Args:
        source: an ECMA-262 regular expression.

    Raises:
        PatternError: it is malformed, not regular, or too large.

    """
    return _known(source, whole=False)


def whole_pattern(source: str) -> Automaton:
    """Return the texts that the pattern matches from start to end; raises as `pattern`."""
    return _known(source, whole=True)


def _known(source: str, *, whole: bool) -> Automaton:
    found = _tried(source, whole=whole)
    if isinstance(found, PatternError):
        raise PatternError(*found.args)
    return found


@functools.lru_cache(maxsize=4_096)
def _tried(source: str, *, whole: bool) -> Automaton | PatternError:
    """Return what became of a pattern; a refusal may have taken as much work as an automaton."""
    try:
        return _translated(source, whole=whole)
    except PatternError as error:
        return error.with_traceback(None)


def _translated(source: str, *, whole: bool) -> Automaton:
    arena = Expressions()
    try:
        tree, translator = ecma.parse(source), _Translator(arena)
        found = translator.whole(tree) if whole else translator.found(tree)
        return automaton_of(arena, found)
    except RecursionError:
        raise PatternError(f"{source[:80]!r} is nested too deep") from None
    except PatternError as error:
        raise PatternError(f"{source[:80]!r}: {error}") from None


class _Ahead(NamedTuple):
    """What may follow a place, by what stands before it.

    Attributes:
        start: at the start of the text.
        word: after a word character.
        other: after another one.

    """

    start: Expr
    word: Expr
    other: Expr


class _Translator:
    """Translates from the end to the start: what follows a part is known when the part is."""

    def __init__(self, arena: Expressions) -> None:
        self._arena = arena
        self._some = arena.loop(arena.any_char, 1, None)
        self._word = arena.chars(ecma.WORD)

    def whole(self, tree: Syntax) -> Expr:
        """Return the texts that a tree matches from start to end."""
        return self._before(tree, _same(self._arena.empty)).start

    def found(self, tree: Syntax) -> Expr:
        """Return the texts in which a tree matches somewhere."""
        arena = self._arena
        there = self._before(tree, _same(arena.any_text))
        later = self._plain_before(arena.any_text, there).start
        # Where it makes no difference what stands before, it may as well be at the start.
        return later if len(set(there)) == 1 else arena.alt([there.start, later])

    def _before(self, part: Syntax, rest: _Ahead) -> _Ahead:
        """Return a part with what may follow it."""
        arena = self._arena
        match part:
            case syntax.Look(inner, negated):
                seen = self._before(inner, _same(arena.any_text))
                asked = [arena.without(each) if negated else each for each in seen]
                return _Ahead(*(arena.both(pair) for pair in zip(asked, rest, strict=True)))
            case syntax.Edge(at_start):
                if at_start:
                    return _Ahead(rest.start, arena.nothing, arena.nothing)
                ends = [arena.empty if arena.nullable(each) else arena.nothing for each in rest]
                return _Ahead(*ends)
            case syntax.WordEdge(negated):
                # After a word character a boundary is where none follows, and the other way round.
                then = arena.cat(self._word, arena.any_text)
                looks = [then, arena.without(then), then]
                asked = [arena.without(each) if negated else each for each in looks]
                return _Ahead(*(arena.both(pair) for pair in zip(asked, rest, strict=True)))
        if not _has_edges(part) and len(set(rest)) == 1:
            return _same(arena.cat2(self._plain(part), rest.start))
        match part:
            case syntax.Sequence(parts):
                for each in reversed(parts):
                    rest = self._before(each, rest)
                return rest
            case syntax.Choice(parts):
                options = [self._before(each, rest) for each in parts]
                return _Ahead(*(arena.alt(each) for each in zip(*options, strict=True)))
            case syntax.Repeat(inner, low, high) if _has_edges(inner):
                return self._repeat_before(inner, low, high, rest)
        return self._plain_before(self._plain(part), rest)

    def _plain_before(self, plain: Expr, rest: _Ahead) -> _Ahead:
        """Return texts without anchors, with what may follow them."""
        arena = self._arena
        if rest.word == rest.other:
            if rest.start == rest.word or not arena.nullable(plain):
                return _same(arena.cat2(plain, rest.word))
            moved = arena.cat2(arena.both([plain, self._some]), rest.word)
        else:
            moved = arena.alt(
                arena.cat2(self._ending(plain, chars), then)
                for chars, then in ((ecma.WORD, rest.word), (_OTHER, rest.other))
            )
        if not arena.nullable(plain):
            return _same(moved)
        return _Ahead(*(arena.alt([moved, each]) for each in rest))

    def _ending(self, plain: Expr, chars: CharSet) -> Expr:
        """Return those of some texts that end in a character of a set."""
        arena = self._arena
        key = arena.key(plain)
        if key[0] == CHARS:
            return arena.chars(char_sets.intersection(key[1], chars))
        return arena.both([plain, arena.cat(arena.any_text, arena.chars(chars))])

    def _repeat_before(self, inner: Syntax, low: int, high: int | None, rest: _Ahead) -> _Ahead:
        """Return a part with anchors in it, again and again, with what may follow it."""
        arena = self._arena
        if max(low, high or 0) > MAX_UNROLLED:
            raise PatternError(f"an anchor in what is repeated more than {MAX_UNROLLED} times")
        if high is not None:
            found = rest
            for _ in range(high - low):
                once = self._before(inner, found)
                found = _Ahead(*(arena.alt(pair) for pair in zip(rest, once, strict=True)))
        elif len(set(rest)) == 1 and not _asks_left(inner):
            found = _same(arena.again(nullable=arena.nullable(rest.start)))
            arena.define(found.start, rest.start, self._before(inner, found).start)
        else:
            found = _Ahead(*(arena.again(nullable=arena.nullable(each)) for each in rest))
            laps = self._before(inner, found)
            for name, end, lap in zip(found, rest, laps, strict=True):
                arena.define(name, end, lap)
        for _ in range(low):
            found = self._before(inner, found)
        return found

    def _plain(self, part: Syntax) -> Expr:
        """Translate a part without anchors."""
        arena = self._arena
        match part:
            case syntax.Chars(chars):
                return arena.chars(chars)
            case syntax.Sequence(parts):
                return arena.cat(*map(self._plain, parts))
            case syntax.Choice(parts):
                return arena.alt(map(self._plain, parts))
            case syntax.Repeat(inner, low, high):
                return arena.loop(self._plain(inner), low, high)
        raise TypeError(f"{part!r} has an anchor")  # pragma: no cover


def _same(expression: Expr) -> _Ahead:
    return _Ahead(expression, expression, expression)


def _has_edges(part: Syntax) -> bool:
    match part:
        case syntax.Sequence(parts) | syntax.Choice(parts):
            return any(map(_has_edges, parts))
        case syntax.Repeat(inner, _, _):
            return _has_edges(inner)
    return not isinstance(part, syntax.Chars)


def _asks_left(part: Syntax) -> bool:
    """Tell whether what a part accepts depends on what stands before it."""
    match part:
        case syntax.Sequence(parts) | syntax.Choice(parts):
            return any(map(_asks_left, parts))
        case syntax.Repeat(inner, _, _) | syntax.Look(inner, _):
            return _asks_left(inner)
        case syntax.Edge(at_start):
            return at_start
    return isinstance(part, syntax.WordEdge)
