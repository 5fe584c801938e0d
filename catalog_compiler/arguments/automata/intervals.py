"""Decimal texts within bounds, exactly.

Owns the comparison of texts with numbers. Leading zeros and misplaced points are kept out
elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments.automata import char_sets
from catalog_compiler.arguments.automata.build import automaton_of
from catalog_compiler.arguments.automata.decimals import split
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.expressions import Expressions

if TYPE_CHECKING:
    from decimal import Decimal

    from catalog_compiler.arguments.automata.expressions import Expr
    from catalog_compiler.arguments.automaton import Automaton


def interval(
    minimum: Decimal | None,
    exclusive_minimum: Decimal | None,
    maximum: Decimal | None,
    exclusive_maximum: Decimal | None,
) -> Automaton:
    """Return the decimal texts whose value keeps all bounds that are given.

    Raises:
        PatternError: a bound has too many digits, or is no number.

    """
    for bound in (minimum, exclusive_minimum, maximum, exclusive_maximum):
        if bound is not None and not bound.is_finite():
            raise PatternError(f"a bound that is no number ({bound})")
    arena = Expressions()
    texts = _Texts(arena)
    within = []
    for low, strict in ((minimum, False), (exclusive_minimum, True)):
        if low is not None:
            within.append(texts.at_least(low, strict=strict))
    for high, strict in ((maximum, False), (exclusive_maximum, True)):
        if high is not None:
            within.append(texts.at_most(high, strict=strict))
    return automaton_of(arena, arena.both(within))


class _Texts:
    """Comparisons digit by digit, from the last one on: a bound takes as many parts as digits."""

    def __init__(self, arena: Expressions) -> None:
        self._arena = arena
        self._digit = self._between(0, 9)
        self._digits = arena.loop(self._digit, 0, None)
        self._zeros = arena.loop(self._between(0, 0), 0, None)
        self._point = arena.text(".")
        self._minus = arena.text("-")
        self._fraction = arena.alt([arena.empty, arena.cat(self._point, self._digits)])
        self._any = arena.cat(arena.loop(self._digit, 1, None), self._fraction)

    def at_least(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the signed texts above a bound."""
        if bound > 0 or (bound == 0 and strict):
            return self._above(bound, strict=strict)
        negative = self._arena.cat(self._minus, self._below(bound, strict=strict))
        return self._arena.alt([self._any, negative])

    def at_most(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the signed texts below a bound."""
        if bound < 0 or (bound == 0 and strict):
            return self._arena.cat(self._minus, self._above(bound, strict=strict))
        negative = self._arena.cat(self._minus, self._any)
        return self._arena.alt([negative, self._below(bound, strict=strict)])

    def _between(self, low: int, high: int) -> Expr:
        return self._arena.chars(
            char_sets.of_ranges([(48 + low, 48 + high)]) if low <= high else ()
        )

    def _above(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the unsigned texts above a bound's size."""
        arena = self._arena
        whole, fraction = split(bound)
        # After the point: equal so far, then a larger digit; or more behind the bound's last one.
        more = arena.cat(self._digits, self._between(1, 9), self._digits)
        found = more if strict else self._digits
        for digit in reversed(fraction):
            larger = arena.cat(self._between(int(digit) + 1, 9), self._digits)
            found = arena.alt([larger, arena.cat(arena.text(digit), found)])
        found = arena.cat(self._point, found)
        if not fraction and not strict:
            found = arena.alt([arena.empty, found])
        for place, digit in enumerate(reversed(whole)):
            rest = arena.loop(self._digit, place, place)
            larger = arena.cat(self._between(int(digit) + 1, 9), rest, self._fraction)
            found = arena.alt([larger, arena.cat(arena.text(digit), found)])
        longer = arena.cat(arena.loop(self._digit, len(whole) + 1, None), self._fraction)
        return arena.alt([longer, found])

    def _below(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the unsigned texts below a bound's size."""
        arena = self._arena
        whole, fraction = split(bound)
        found = arena.nothing if strict else self._zeros
        for digit in reversed(fraction):
            smaller = arena.cat(self._between(0, int(digit) - 1), self._digits)
            # What ends here is smaller, since the bound's last digit is no zero.
            found = arena.alt([arena.empty, smaller, arena.cat(arena.text(digit), found)])
        found = arena.cat(self._point, found)
        if fraction or not strict:
            found = arena.alt([arena.empty, found])
        for place, digit in enumerate(reversed(whole)):
            rest = arena.loop(self._digit, place, place)
            smaller = arena.cat(self._between(0, int(digit) - 1), rest, self._fraction)
            found = arena.alt([smaller, arena.cat(arena.text(digit), found)])
        if len(whole) == 1:
            return found
        shorter = arena.cat(arena.loop(self._digit, 1, len(whole) - 1), self._fraction)
        return arena.alt([shorter, found])
