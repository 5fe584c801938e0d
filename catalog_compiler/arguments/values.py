"""JSON values as values: when two are equal, which type one has, how one is spelt.

Owns exact numbers (never through binary fractions) and the one spelling of a literal. Never knows
a schema.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable

Json: TypeAlias = Any
"""What `json.loads` makes; numbers may be `decimal.Decimal` as well."""

MAX_PLAIN_EXPONENT: Final = 400
"""Beyond it (doubles end at 308) a number is spelt with an exponent alone."""

TYPES: Final = ("object", "array", "string", "number", "boolean", "null")
"""The types of JSON values; an integer is a number without a fraction."""


def json_type(value: Json) -> str:
    """Return which of `TYPES` the value is of. Raises TypeError where it is no JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float() | Decimal():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    raise TypeError(f"{type(value).__name__} is no type of JSON values")


def is_finite(number: float | Decimal) -> bool:
    """Tell whether JSON can write the number."""
    return not isinstance(number, float | Decimal) or math.isfinite(number)


def decimal(number: float | Decimal) -> Decimal:
    """Return the number exactly as it is written: 0.1 is one tenth."""
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def scaled(number: float | Decimal) -> tuple[int, int]:
    """Return (c, e), the number being c * 10 ** e with c no multiple of ten, or (0, 0)."""
    sign, digits, exponent = decimal(number).as_tuple()
    if not isinstance(exponent, int):
        raise TypeError(f"{number} is no number that JSON can write")
    while digits and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    coefficient = int("".join(map(str, digits)) or "0")
    return (-coefficient if sign else coefficient, exponent) if coefficient else (0, 0)


def number_spellings(value: float | Decimal) -> tuple[str, ...]:
    """Return spellings of a number: without exponent, with a fraction, with an exponent.

    Raises:
        ValueError: it is not finite.

    """
    exact = decimal(value)
    if not exact.is_finite():
        raise ValueError(f"{value!r} is no JSON number")
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).lstrip("0")
    kept = figures.rstrip("0")
    exponent += len(figures) - len(kept)
    if not kept:
        return ("0", "0.0", "0e0")
    minus = "-" if sign else ""
    scientific = f"{minus}{kept[0]}{'.' if kept[1:] else ''}{kept[1:]}e{exponent + len(kept) - 1}"
    if abs(exponent) > MAX_PLAIN_EXPONENT:
        return (scientific,)
    if exponent >= 0:
        whole = f"{minus}{kept}{'0' * exponent}"
        return (whole, f"{whole}.0", scientific)
    padded = kept.rjust(1 - exponent, "0")
    return (f"{minus}{padded[:exponent]}.{padded[exponent:]}", scientific)


def is_whole(number: float | Decimal) -> bool:
    """Tell whether the number has no fraction."""
    return isinstance(number, int) or scaled(number)[1] >= 0


def is_multiple(number: float | Decimal, unit: Decimal) -> bool:
    """Tell whether the number is a whole number of units, however large its exponent is."""
    coefficient, exponent = scaled(number)
    unit_coefficient, unit_exponent = scaled(unit)
    shift = exponent - unit_exponent
    if shift >= 0:
        power: int = pow(10, shift, abs(unit_coefficient))
        return coefficient * power % unit_coefficient == 0
    # No multiple of ten is divisible by ten to a power that exceeds its digits.
    if -shift > coefficient.bit_length():
        return coefficient == 0
    scale: int = 10 ** (-shift)
    return coefficient % (unit_coefficient * scale) == 0


def freeze(value: Json) -> Hashable:
    """Return what is equal for exactly the values that JSON Schema calls equal."""
    match json_type(value):
        case "number":
            return ("number", *scaled(value))
        case "array":
            return ("array", *map(freeze, value))
        case "object":
            return ("object", frozenset((key, freeze(each)) for key, each in value.items()))
    return (json_type(value), value)


def has_surrogate(text: str) -> bool:
    """Tell whether half of a surrogate pair stands in the text, which then has no UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def spell(value: Json) -> bytes:
    """Return the canonical text. Raises UnicodeEncodeError at a lone surrogate: it has none."""
    return json.dumps(value, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Literal:
    """One value that a schema names; equal where the values are."""

    key: Hashable
    value: Json = field(compare=False)


def literal(value: Json) -> Literal:
    """Return the value as a literal."""
    return Literal(freeze(value), value)
