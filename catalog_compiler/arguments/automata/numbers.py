"""Numbers as texts: intervals and multiples, exact in decimal.

Owns the language of JSON's number texts. A bounded number has no exponent, so that its digits say
all; one that nothing bounds may have one. Zero may carry a sign.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata import char_sets
from catalog_compiler.arguments.automata.build import (
    automaton_of,
    difference,
    intersect,
)
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.expressions import Expressions
from catalog_compiler.arguments.automata.patterns import whole_pattern
from catalog_compiler.arguments.automata.tables import RawAutomaton, canonical

if TYPE_CHECKING:
    from decimal import Decimal

    from catalog_compiler.arguments.automata.expressions import Expr
    from catalog_compiler.arguments.automaton import Automaton

MAX_DIGITS: Final = 400
"""A bound with more digits before or after its point is refused."""

MAX_REMAINDERS: Final = 2_000
"""A divisor whose remainders are more, in units of its last digit, is refused."""

_EXPONENT: Final = r"(?:[eE](?:\+?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-8])|-[0-9]{1,3}))?"
"""One that binary64 has, since a reader turns a larger number into infinity."""

_WHOLE: Final = r"-?(?:0|[1-9][0-9]*)"


@functools.lru_cache(maxsize=4_096)
def number(
    minimum: Decimal | None = None,
    exclusive_minimum: Decimal | None = None,
    maximum: Decimal | None = None,
    exclusive_maximum: Decimal | None = None,
    multiple_of: Decimal | None = None,
    *,
    integer: bool = False,
    exclude: tuple[Decimal, ...] = (),
) -> Automaton:
    """Return the texts of the numbers within bounds.

    Args:
        minimum: inclusive bound.
        exclusive_minimum: exclusive bound.
        maximum: inclusive bound.
        exclusive_maximum: exclusive bound.
        multiple_of: a divisor above 0.
        integer: whether neither fraction nor exponent is written.
        exclude: numbers that are left out, in whatever spelling.

    Raises:
        PatternError: a bound with too many digits, a divisor that is not positive or too fine.

    """
    bounds = (minimum, exclusive_minimum, maximum, exclusive_maximum)
    free = multiple_of is None and not exclude and all(bound is None for bound in bounds)
    fraction = "" if integer else r"(?:\.[0-9]+)?"
    exponent = _EXPONENT if free and not integer else ""
    parts = [whole_pattern(_WHOLE + fraction + exponent)]
    if any(bound is not None for bound in bounds):
        parts.append(_interval(*bounds))
    if multiple_of is not None:
        parts.append(_multiples(multiple_of))
    found = intersect(*parts) if len(parts) > 1 else parts[0]
    for value in exclude:
        found = difference(found, number(minimum=value, maximum=value))
    return found


def _interval(
    minimum: Decimal | None,
    exclusive_minimum: Decimal | None,
    maximum: Decimal | None,
    exclusive_maximum: Decimal | None,
) -> Automaton:
    arena = Expressions()
    digits = _Digits(arena)
    within = []
    for low, strict in ((minimum, False), (exclusive_minimum, True)):
        if low is not None:
            within.append(digits.at_least(low, strict=strict))
    for high, strict in ((maximum, False), (exclusive_maximum, True)):
        if high is not None:
            within.append(digits.at_most(high, strict=strict))
    return automaton_of(arena, arena.both(within))


class _Digits:
    """Comparisons of decimal texts as expressions; leading zeros are kept out elsewhere."""

    def __init__(self, arena: Expressions) -> None:
        self._arena = arena
        self._digit = self._between(0, 9)
        self._digits = arena.loop(self._digit, 0, None)
        self._point = arena.text(".")
        self._minus = arena.text("-")
        self._zeros = arena.loop(self._between(0, 0), 0, None)
        self._fraction = arena.alt([arena.empty, arena.cat(self._point, self._digits)])
        self._whole = arena.loop(self._digit, 1, None)
        self._any = arena.cat(self._whole, self._fraction)
        self._zero = arena.cat(
            self._zeros, arena.alt([arena.empty, arena.cat(self._point, self._zeros)])
        )

    def at_least(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the signed texts above a bound."""
        arena = self._arena
        if bound > 0:
            return self._size_above(bound, strict=strict)
        negative = arena.cat(self._minus, self._size_below(-bound, strict=strict))
        if bound == 0 and strict:
            return self._size_above(bound, strict=True)
        return arena.alt([self._any, negative])

    def at_most(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the signed texts below a bound."""
        arena = self._arena
        if bound < 0 or (bound == 0 and strict):
            return arena.cat(self._minus, self._size_above(-bound, strict=strict))
        negative = arena.cat(self._minus, self._any)
        return arena.alt([negative, self._size_below(bound, strict=strict)])

    def _between(self, low: int, high: int) -> Expr:
        return self._arena.chars(
            char_sets.of_ranges([(48 + low, 48 + high)]) if low <= high else ()
        )

    def _size_above(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the unsigned texts above a bound that is not negative."""
        arena = self._arena
        whole, fraction = _split(bound)
        more_digits = arena.loop(self._digit, len(whole) + 1, None)
        larger = [arena.cat(more_digits, self._fraction)]
        for place, digit in enumerate(whole):
            rest = arena.loop(self._digit, len(whole) - place - 1, len(whole) - place - 1)
            head = arena.text(whole[:place])
            larger.append(arena.cat(head, self._between(int(digit) + 1, 9), rest, self._fraction))
        same = arena.cat(arena.text(whole), self._fraction_above(fraction, strict=strict))
        return arena.alt([*larger, same])

    def _size_below(self, bound: Decimal, *, strict: bool) -> Expr:
        """Return the unsigned texts below a bound that is not negative."""
        arena = self._arena
        whole, fraction = _split(bound)
        smaller = [arena.cat(arena.loop(self._digit, 1, len(whole) - 1), self._fraction)]
        if len(whole) == 1:
            smaller = []
        for place, digit in enumerate(whole):
            rest = arena.loop(self._digit, len(whole) - place - 1, len(whole) - place - 1)
            head = arena.text(whole[:place])
            smaller.append(arena.cat(head, self._between(0, int(digit) - 1), rest, self._fraction))
        same = arena.cat(arena.text(whole), self._fraction_below(fraction, strict=strict))
        return arena.alt([*smaller, same])

    def _fraction_above(self, fraction: str, *, strict: bool) -> Expr:
        """Return the ends of a text, point included, whose fraction is above one without zeros."""
        arena = self._arena
        if not fraction and not strict:
            return self._fraction
        ends = []
        for place, digit in enumerate(fraction):
            head = arena.text(fraction[:place])
            ends.append(arena.cat(head, self._between(int(digit) + 1, 9), self._digits))
        if strict:
            nonzero = arena.cat(self._digits, self._between(1, 9), self._digits)
            ends.append(arena.cat(arena.text(fraction), nonzero))
        else:
            ends.append(arena.cat(arena.text(fraction), self._digits))
        return arena.cat(self._point, arena.alt(ends))

    def _fraction_below(self, fraction: str, *, strict: bool) -> Expr:
        """Return the ends of a text whose fraction is below one without trailing zeros."""
        arena = self._arena
        ends, none = [], []
        for place, digit in enumerate(fraction):
            head = arena.text(fraction[:place])
            ends.append(arena.cat(head, self._between(0, int(digit) - 1), self._digits))
            ends.append(head)  # shorter is smaller, since the fraction ends in no zero
            none = [arena.empty]
        if not strict:
            ends.append(arena.cat(arena.text(fraction), self._zeros))
            none = [arena.empty] if not fraction else none
        return arena.alt([*none, arena.cat(self._point, arena.alt(ends))])


def _split(bound: Decimal) -> tuple[str, str]:
    """Return the digits before the point, and those after it without trailing zeros."""
    if not bound.is_finite() or abs(bound.adjusted()) > MAX_DIGITS:
        raise PatternError(f"a bound of more than {MAX_DIGITS} digits")
    whole, _, fraction = f"{abs(bound):f}".partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > MAX_DIGITS:
        raise PatternError(f"a bound of more than {MAX_DIGITS} digits after its point")
    return whole.lstrip("0") or "0", fraction


def _multiples(divisor: Decimal) -> Automaton:
    """Return the decimal texts whose value is a multiple; leading zeros are kept out elsewhere."""
    if not divisor.is_finite() or divisor <= 0:
        raise PatternError(f"a divisor that is not above 0 ({divisor})")
    if abs(divisor.adjusted()) > MAX_DIGITS:
        raise PatternError(f"a divisor of more than {MAX_DIGITS} digits")
    whole, fraction = _split(divisor)
    places = len(fraction)
    units = int(whole + fraction)  # the divisor in units of its last place
    if units * (places + 1) > MAX_REMAINDERS:
        raise PatternError(f"a divisor with more than {MAX_REMAINDERS} remainders ({divisor})")
    starts = [0, 45, 46, 47, *range(48, 59)]
    classes = [0, 11, 12, 0, *range(1, 11), 0]
    # State (0, r): before the point. (1 + k, r): after k digits of the fraction, k = 0 to places.
    rows: list[list[int]] = []
    ends: list[int] = []
    for layer in range(places + 2):
        read = max(layer - 1, 0)
        for remainder in range(units):
            row = [-1] * 13
            for digit in range(10):
                after = (remainder * 10 + digit) % units
                if layer == 0:
                    row[digit + 1] = after
                elif read < places:
                    row[digit + 1] = (layer + 1) * units + after
                elif digit == 0:
                    row[digit + 1] = layer * units + remainder
            if layer == 0:
                row[11] = remainder  # a sign; where one may stand is said elsewhere
                row[12] = units + remainder
            rows.append(row)
            ends.append(0 if remainder * 10 ** (places - read) % units == 0 else -1)
    return canonical(RawAutomaton(starts, classes, rows, ends))
