"""How many states an automaton of an expression must have, before it is made.

Owns a lower bound, cheap and never too high: from the length of the shortest text, and that of the
longest where there is one. On the way of either an automaton never comes to a state twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog_compiler.arguments.automata.expressions import ALT, AND, CAT, CHARS, LOOP

if TYPE_CHECKING:
    from catalog_compiler.arguments.automata.expressions import Expr, Expressions


class _Lengths(NamedTuple):
    """Of an expression's texts.

    Attributes:
        shortest: no text has fewer characters.
        longest: some text has as many and none has more, or None where that isn't known.
        certain: whether it is known that there is a text.

    """

    shortest: int
    longest: int | None
    certain: bool


def least_states(arena: Expressions, expression: Expr) -> int:
    """Return a number of states that no automaton of the expression has fewer of."""
    try:
        found = _Sizes(arena).of(expression)
    except RecursionError:
        return 1
    if not found.certain:
        return 1
    return max(found.shortest, found.longest or 0) + 1


class _Sizes:
    def __init__(self, arena: Expressions) -> None:
        self._arena = arena
        self._known: dict[Expr, _Lengths] = {}

    def of(self, part: Expr) -> _Lengths:
        found = self._known.get(part)
        if found is None:
            found = self._known[part] = self._lengths(part)
        return found

    def _lengths(self, part: Expr) -> _Lengths:
        arena = self._arena
        key = arena.key(part)
        kind = key[0]
        if kind == CHARS:
            return _Lengths(1, 1, bool(key[1]))
        if kind == CAT:
            return self._cat(part)
        if kind == ALT:
            options = [self.of(each) for each in key[1:]]
            ends = [each.longest for each in options if each.longest is not None]
            return _Lengths(
                min(each.shortest for each in options),
                max(ends) if len(ends) == len(options) else None,
                any(each.certain for each in options),
            )
        if kind == LOOP:
            _, inner, low, high = key
            once = self.of(inner)
            longest = None if high is None or once.longest is None else once.longest * high
            return _Lengths(once.shortest * low, longest, low == 0 or once.certain)
        if kind == AND:
            parts = [self.of(each) for each in key[1:]]
            return _Lengths(max(each.shortest for each in parts), None, arena.nullable(part))
        # The empty text, the complement of something, or what leads back to itself.
        if part == arena.empty:
            return _Lengths(0, 0, certain=True)
        nullable = arena.nullable(part)
        return _Lengths(0 if nullable else 1, None, nullable)

    def _cat(self, part: Expr) -> _Lengths:
        """Add up a concatenation without recursion: patterns may have thousands of parts."""
        arena = self._arena
        parts = []
        while (key := arena.key(part))[0] == CAT:
            parts.append(self.of(key[1]))
            part = key[2]
        parts.append(self.of(part))
        ends = [each.longest for each in parts if each.longest is not None]
        return _Lengths(
            sum(each.shortest for each in parts),
            sum(ends) if len(ends) == len(parts) else None,
            all(each.certain for each in parts),
        )
