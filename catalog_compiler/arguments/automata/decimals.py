"""Decimals as digits. Owns the bound on how many there may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata.errors import PatternError

if TYPE_CHECKING:
    from decimal import Decimal

MAX_DIGITS: Final = 400
"""A bound with more digits before or after its point is refused; a double's largest has 309."""


def split(number: Decimal) -> tuple[str, str]:
    """Return a finite number's digits before its point, those after it without trailing zeros.

    Raises:
        PatternError: they are too many.

    """
    if not number:
        return "0", ""
    if abs(number.adjusted()) > MAX_DIGITS:
        raise PatternError(f"a number of more than {MAX_DIGITS} digits ({number:.3e})")
    # Not abs(), which rounds to the precision of the thread's context.
    whole, _, fraction = f"{number.copy_abs():f}".partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > MAX_DIGITS:
        raise PatternError(f"a number of more than {MAX_DIGITS} digits after its point")
    return whole.lstrip("0") or "0", fraction
