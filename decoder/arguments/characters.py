"""Characters of JSON strings as they come, byte by byte: UTF-8, escapes, surrogate pairs.

Owns which bytes may follow within one character and which characters it can still become. Never
knows what a string may hold.
"""

from __future__ import annotations

from typing import Final, NamedTuple

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
SURROGATES: Final = (0xD800, 0xDFFF)
MAX_CODE_POINT: Final = 0x10FFFF

WHOLE, ESCAPE, TWO, THREE, FOUR, HEX, HIGH, LOW = range(8)
_SHORT: Final = {
    ord(letter): ord(meant) for letter, meant in zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True)
}
_LENGTHS: Final = {TWO: (0x80, 0x7FF), THREE: (0x800, 0xFFFF), FOUR: (0x10000, MAX_CODE_POINT)}


class Partial(NamedTuple):
    r"""How much of a character is there.

    Attributes:
        kind: WHOLE is nothing; ESCAPE a backslash; TWO to FOUR a UTF-8 sequence of that length;
            HEX a `\\u` escape; HIGH the escape of a high surrogate; LOW the escape after it.
        bits: what is known of the code point.
        left: bytes (TWO, THREE, FOUR, HIGH) or digits that are still to come.

    """

    kind: int
    bits: int = 0
    left: int = 0


START: Final = Partial(WHOLE)


def read(partial: Partial, byte: int) -> Partial | int | None:
    """Return what a byte makes of it: more of a character, a whole one, or None where it can't be.

    A closing quote is none of the characters' business: it is None here.
    """
    kind, bits, left = partial
    if kind == WHOLE:
        return _first(byte)
    if kind == ESCAPE:
        return Partial(HEX, 0, 4) if byte == ord("u") else _SHORT.get(byte)
    if kind in _LENGTHS:
        if byte & 0xC0 != 0x80:
            return None
        return _known(Partial(kind, bits << 6 | byte & 0x3F, left - 1))
    if kind == HIGH:
        if byte != (BACKSLASH if left == 2 else ord("u")):
            return None
        return Partial(HIGH, bits, 1) if left == 2 else Partial(LOW, bits, 4)
    digit = _digit(byte)
    if digit is None:
        return None
    if kind == HEX:
        return _known(Partial(HEX, bits << 4 | digit, left - 1))
    if left == 4:
        return Partial(LOW, bits, 3) if digit == 0xD else None
    if left == 3:
        return Partial(LOW, bits << 2 | digit - 0xC, 2) if digit >= 0xC else None
    return _known(Partial(LOW, bits << 4 | digit, left - 1))


def ranges(partial: Partial) -> list[tuple[int, int]]:
    """Return the code points that it can become: first and last of each range, surrogates out."""
    kind, bits, left = partial
    if kind in (WHOLE, ESCAPE):
        return _without_surrogates(0, MAX_CODE_POINT)
    if kind in _LENGTHS:
        low, high = _LENGTHS[kind]
        first = bits << 6 * left
        return _without_surrogates(max(first, low), min(first + (1 << 6 * left) - 1, high))
    if kind == HEX:
        first = bits << 4 * left
        last = first + (1 << 4 * left) - 1
        found = _without_surrogates(first, last)
        high_first, high_last = max(first, 0xD800), min(last, 0xDBFF)
        if high_first <= high_last:
            start = 0x10000 + (high_first - 0xD800 << 10)
            found.append((start, 0x10000 + (high_last - 0xD800 + 1 << 10) - 1))
        return found
    open_bits = 10 if kind == HIGH else {4: 10, 3: 10, 2: 8, 1: 4, 0: 0}[left]
    first = 0x10000 + (bits << open_bits)
    return [(first, first + (1 << open_bits) - 1)]


def _first(byte: int) -> Partial | int | None:
    if byte < 0x20 or byte == QUOTE:
        return None
    if byte == BACKSLASH:
        return Partial(ESCAPE)
    if byte < 0x80:
        return byte
    if 0xC2 <= byte < 0xE0:
        return Partial(TWO, byte & 0x1F, 1)
    if 0xE0 <= byte < 0xF0:
        return Partial(THREE, byte & 0x0F, 2)
    if 0xF0 <= byte < 0xF5:
        return Partial(FOUR, byte & 0x07, 3)
    return None


def _known(partial: Partial) -> Partial | int | None:
    """Return the character where it is whole, None where it can become none."""
    if partial.kind == HEX and partial.left == 0 and 0xD800 <= partial.bits <= 0xDBFF:
        return Partial(HIGH, partial.bits - 0xD800, 2)
    left = ranges(partial)
    if not left:
        return None
    return left[0][0] if partial.left == 0 else partial


def _digit(byte: int) -> int | None:
    try:
        return int(chr(byte), 16) if byte < 0x80 else None
    except ValueError:
        return None


def _without_surrogates(first: int, last: int) -> list[tuple[int, int]]:
    parts = [(first, min(last, SURROGATES[0] - 1)), (max(first, SURROGATES[1] + 1), last)]
    return [(low, high) for low, high in parts if low <= high]
