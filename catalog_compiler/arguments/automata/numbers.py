"""Numbers as texts: intervals and multiples, exact in decimal.

Owns the language of JSON's number texts. A bounded number has no exponent, so that its digits say
all; one that nothing bounds may have one. Zero may carry a sign.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata.build import difference, intersect
from catalog_compiler.arguments.automata.intervals import interval
from catalog_compiler.arguments.automata.multiples import multiples
from catalog_compiler.arguments.automata.patterns import whole_pattern

if TYPE_CHECKING:
    from decimal import Decimal

    from catalog_compiler.arguments.automaton import Automaton

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
        PatternError: a bound with too many digits, a divisor that is not positive or takes too
            many states.

    """
    bounds = (minimum, exclusive_minimum, maximum, exclusive_maximum)
    free = multiple_of is None and not exclude and all(bound is None for bound in bounds)
    fraction = "" if integer else r"(?:\.[0-9]+)?"
    exponent = _EXPONENT if free and not integer else ""
    parts = [whole_pattern(_WHOLE + fraction + exponent)]
    if any(bound is not None for bound in bounds):
        parts.append(interval(*bounds))
    if multiple_of is not None:
        parts.append(multiples(multiple_of))
    found = intersect(*parts) if len(parts) > 1 else parts[0]
    for value in exclude:
        found = difference(found, number(minimum=value, maximum=value))
    return found
