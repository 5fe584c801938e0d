"""Decimal texts whose value is a multiple of a divisor, exactly.

Owns their automaton. A state stands for all that may still follow, not for a remainder, so that
a divisor of 10,000 or 86,400 takes few states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata.decimals import split
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.tables import RawAutomaton, canonical

if TYPE_CHECKING:
    from decimal import Decimal

    from catalog_compiler.arguments.automaton import Automaton

MAX_STATES: Final = 2_000
"""A divisor that takes more is refused."""

MAX_UNIT_DIGITS: Final = 50
"""A divisor with more digits, zeros at its start aside, is refused."""

_STARTS: Final = (0, 45, 46, 47, *range(48, 59))
_OTHER, _MINUS, _POINT, _ZERO = 0, 1, 2, 3
_CLASSES: Final = (_OTHER, _MINUS, _POINT, _OTHER, *range(_ZERO, _ZERO + 10), _OTHER)


def multiples(divisor: Decimal) -> Automaton:
    """Return the decimal texts whose value is a multiple; leading zeros are kept out elsewhere.

    Raises:
        PatternError: the divisor is not above 0, or takes too many states.

    """
    if not divisor.is_finite() or divisor <= 0:
        raise PatternError(f"a divisor that is not above 0 ({divisor})")
    return _Multiples(divisor).automaton()


class _Multiples:
    """What is built, state by state.

    A state is the number of digits read after the point (-1 before it) and the remainder, in units
    of the divisor's last place; those from which the same may follow are one.
    """

    def __init__(self, divisor: Decimal) -> None:
        whole, fraction = split(divisor)
        self._divisor = divisor
        self._places = len(fraction)
        self._units = int(whole + fraction)
        if self._units >= 10**MAX_UNIT_DIGITS:
            raise PatternError(f"a divisor of more than {MAX_UNIT_DIGITS} digits ({divisor:.3e})")
        if (
            _part_beside_tens(self._units) > MAX_STATES
        ):  # its remainders are told apart, however far away
            raise self._too_many()
        self._numbers: dict[tuple[int, ...], int] = {}
        self._states: list[tuple[int, int]] = []

    def automaton(self) -> Automaton:
        rows: list[list[int]] = []
        ends: list[int] = []
        self._number(-1, 0)
        for read, remainder in self._states:  # grows while it is read
            row = [-1] * (_ZERO + 10)
            if read < 0:
                row[_MINUS] = len(rows)  # where a sign may stand is said elsewhere
                row[_POINT] = self._number(0, remainder)
            for digit in range(10):
                after = (remainder * 10 + digit) % self._units
                if read < self._places:
                    row[_ZERO + digit] = self._number(read + (read >= 0), after)
                elif digit == 0:
                    row[_ZERO] = len(rows)
            left = self._places - max(read, 0)
            ends.append(0 if remainder * 10**left % self._units == 0 else -1)
            rows.append(row)
        return canonical(RawAutomaton(_STARTS, _CLASSES, rows, ends))

    def _too_many(self) -> PatternError:
        return PatternError(f"a divisor that takes more than {MAX_STATES} states ({self._divisor})")

    def _number(self, read: int, remainder: int) -> int:
        """Return the state of what may follow: which next digits make a multiple, for any count."""
        follows = self._follows(read, remainder)
        found = self._numbers.get(follows)
        if found is None:
            if len(self._states) >= MAX_STATES:
                raise self._too_many()
            found = self._numbers[follows] = len(self._states)
            self._states.append((read, remainder))
        return found

    def _follows(self, read: int, remainder: int) -> tuple[int, ...]:
        """Return, for each number of digits that may follow, the least that make a multiple, or -1.

        Behind the point there are as many digits as the divisor has, fewer standing for zeros.
        Before it there may be any number more; once they can say every remainder, more tell no
        more.
        """
        last = self._places - max(read, 0)
        found = [read]
        while True:
            window = 10**last
            least = -remainder * window % self._units
            found.append(least if least < window else -1)
            if read >= 0 or window >= self._units:
                return tuple(found)
            last += 1


def _part_beside_tens(units: int) -> int:
    """Return what is left of a number without its factors 2 and 5."""
    for factor in (2, 5):
        while units % factor == 0:
            units //= factor
    return units
