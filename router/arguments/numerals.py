"""The numbers that a text speaks of: digits with their signs, separators and units, and words.

Owns the reading of English numerals. Never judges what a number is for.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from router.retrieval.words import split_words

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNIT_WORDS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TEN_WORDS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_WORDS: Final = "first second third fourth fifth sixth seventh eighth ninth tenth"


def _numbered(words: str, start: int = 0, step: int = 1) -> dict[str, Decimal]:
    return {word: Decimal(step * n) for n, word in enumerate(words.split(), start=start)}


_UNITS: Final = _numbered(_UNIT_WORDS)
_TENS: Final = _numbered(_TEN_WORDS, start=2, step=10)
_SCALES: Final = {
    "hundred": Decimal(100),
    "thousand": Decimal(1_000),
    "million": Decimal(1_000_000),
    "billion": Decimal(1_000_000_000),
    "trillion": Decimal(1_000_000_000_000),
}
_OTHERS: Final = {
    **_numbered(_ORDINAL_WORDS, start=1),
    "once": Decimal(1),
    "twice": Decimal(2),
    "couple": Decimal(2),
    "pair": Decimal(2),
    "dozen": Decimal(12),
    "half": Decimal("0.5"),
    "quarter": Decimal("0.25"),
    "single": Decimal(1),
    "double": Decimal(2),
    "triple": Decimal(3),
}
_ARTICLES: Final = {"a": Decimal(1), "an": Decimal(1)}
"""One, where a scale follows: "a hundred"."""

_DIGITS: Final = re.compile(
    r"(?P<sign>(?<![\w.)\]-])[-−])?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?P<unit> ?%| percent\b|k\b|K\b|M\b|m\b| ?(?:hundred|thousand|million|billion|trillion)\b)?"
)
_SUFFIXES: Final = {"k": _SCALES["thousand"], "m": _SCALES["million"]}


def numbers_in(text: str) -> list[Decimal]:
    """Return the numbers of a text, repeats included.

    A number with a unit gives each of its readings: "5%" 5 and 0.05, "3k" 3 and 3000.
    """
    return [*_from_digits(text), *_from_words(split_words(_DIGITS.sub(" . ", text)))]


def _from_digits(text: str) -> Iterator[Decimal]:
    for match in _DIGITS.finditer(text):
        value = Decimal(match["number"].replace(",", ""))
        if match["sign"]:
            value = -value
        yield value
        unit = (match["unit"] or "").strip().casefold()
        if unit in {"%", "percent"}:
            yield value / 100
        elif unit:
            yield value * (_SUFFIXES.get(unit) or _SCALES[unit])


def _from_words(words: list[str]) -> Iterator[Decimal]:
    """Join runs of numerals: "two hundred and five" is one number."""
    total, part, open_ = Decimal(0), Decimal(0), False
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        if word in _SCALES and open_:
            if word == "hundred":
                part *= _SCALES[word]
            else:
                total, part = total + part * _SCALES[word], Decimal(0)
            continue
        if word in _UNITS or word in _TENS:
            joins = open_ and _joins(part, word)
            if open_ and not joins:
                yield total + part
                total, part = Decimal(0), Decimal(0)
            part += _UNITS.get(word, Decimal(0)) + _TENS.get(word, Decimal(0))
            open_ = True
            continue
        if word == "and" and open_ and (total or part >= 100) and following in _UNITS | _TENS:
            continue
        if open_:
            yield total + part
            total, part, open_ = Decimal(0), Decimal(0), False
        if word in _ARTICLES and following in _SCALES:
            part, open_ = _ARTICLES[word], True
        elif word in _OTHERS:
            yield _OTHERS[word]
    if open_:
        yield total + part


def _joins(part: Decimal, word: str) -> bool:
    """Tell whether a numeral goes on a number: "twenty five" does, "five six" does not."""
    rest = part % 100
    if word in _TENS:
        return not rest
    return not rest or (rest >= 20 and not rest % 10 and 0 < _UNITS[word] < 10)
