"""What a request speaks of: which optional parameters, and which values.

Owns the evidence, all of it words and numbers of the request and of the turn before: no model is
asked, and the same request gives the same findings. Two questions are answered.

`mentions`, before anything is written: does the request speak of a parameter? An optional one of
which it does not is left out. It does where a choice of the parameter is named (of its enum, or in
quotes in its description), where a telling word of its key is there, or where the request holds
something of the parameter's own kind: an address for an e-mail, a day for a date, a number more
than the required ones need, a text in quotes or a proper name more than the required texts need.

`examine`, of what was written: which values are in the request, and which required ones are not?
A text is there where its words stand there in a row, or at least half of its telling words do; a
number where it is written in digits or words; a list where at least half of its items are; an
object is looked at member by member. A value that the schema gives as its default, or that is the
only one it allows, was not invented. What stands in the request once serves one text only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from catalog_compiler import pointers
from router.arguments.numerals import numbers_in
from router.arguments.parameters import QUOTED
from router.retrieval.words import fold, split_words, stem, terms_of

if TYPE_CHECKING:
    from catalog_compiler.model import Json
    from router.arguments.parameters import Parameter, Parameters

SHARE: Final = 0.5
"""Share of a text's telling words, and of a list's items, from which on it counts as there."""

_PROPER: Final = re.compile(r"(?<![.!?\n\"'] )(?<!^)\b[A-Z][\w'-]*(?:[ ,]+[A-Z][\w'-]*)*")
"""Capitalised words in a row that do not begin a sentence."""

_SHAPES: Final = {
    "email": re.compile(r"\S@\S"),
    "idn-email": re.compile(r"\S@\S"),
    "uri": re.compile(r"[A-Za-z]://|\bwww\."),
    "uri-reference": re.compile(r"[A-Za-z]://|\bwww\.|/\w"),
    "uuid": re.compile(r"\b[0-9a-fA-F]{8}-"),
    "ipv4": re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"),
    "ipv6": re.compile(r"[0-9a-fA-F]*:[0-9a-fA-F]*:"),
}
_MONTHS: Final = {
    name: Decimal(number)
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul",
            "august aug", "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_WHEN_WORDS: Final = (
    "today tonight tomorrow yesterday now monday tuesday wednesday thursday friday saturday sunday "
    "weekend week weeks month months year years day days hour hours morning afternoon evening "
    "midnight noon am pm"
)
_WHEN: Final = frozenset(_WHEN_WORDS.split())
_DATE: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ].*)?|\d{1,2}[:/]\d{2}.*|\d{1,2}/\d{1,2}/\d{2,4}"
)
_DATE_FORMATS: Final = frozenset({"date", "date-time", "time", "duration"})
_NUMERIC: Final = frozenset({"integer", "number"})
_TEXTUAL: Final = frozenset({"string"})
_DATE_KEYS: Final = frozenset({"date", "time", "day", "when", "start", "end"})


@dataclass(frozen=True, slots=True)
class Found:
    """What of some arguments is in the request.

    Attributes:
        missing: JSON pointers of required values that are not.
        known: the arguments without any value that is not.

    """

    missing: tuple[str, ...]
    known: dict[str, Json]


class Evidence:
    """What a request and the turn before it say.

    Args:
        text: the request.
        previous: the turn before, or "".

    """

    def __init__(self, text: str, previous: str = "") -> None:
        self._text = f"{previous}\n{text}" if previous else text
        self._folded = fold(self._text).casefold()
        self._words = split_words(self._text)
        self._row = f" {' '.join(self._words)} "
        self._stems = frozenset(map(stem, self._words))
        self._numbers = frozenset(numbers_in(self._text)) | {
            _MONTHS[word] for word in self._words if word in _MONTHS
        }
        self._count = len(numbers_in(self._text))
        self._dated = bool(_WHEN & set(self._words)) or any(w in _MONTHS for w in self._words)
        self._texts = len(QUOTED.findall(self._text)) + len(_PROPER.findall(self._text))
        self._served: Counter[str] = Counter()

    def mentions(self, parameter: Parameter, parameters: Parameters) -> bool:
        """Tell whether the request speaks of one of the top parameters."""
        if set(terms_of(parameter.key)) & self._stems:
            return True
        choices = parameters.choices(parameter).candidates(self._stems, self._numbers)
        if any(self._names(choice, whole=True) for choice in choices):
            return True
        shape = _SHAPES.get(parameter.text_format)
        if shape is not None:
            return shape.search(self._text) is not None
        kinds = set(parameter.types)
        if parameter.choices or not kinds:
            return False
        if "string" not in kinds:
            return bool(kinds & _NUMERIC) and self._count > parameters.required(_NUMERIC)
        if parameter.text_format in _DATE_FORMATS or _DATE_KEYS & set(split_words(parameter.key)):
            return self._dated or bool(_DATE.search(self._text))
        return self._texts > parameters.required(_TEXTUAL)

    def examine(self, value: dict[str, Json], parameters: Parameters) -> Found:
        """Tell what of some arguments is in the request."""
        self._served.clear()
        return self._examine(value, parameters.arguments, parameters, "")

    def holds(self, value: Json, parameter: Parameter, parameters: Parameters) -> bool:
        """Tell whether a value is in the request."""
        given = parameter.choices if len(parameter.choices) == 1 else ()
        if any(_same(value, other) for other in (*parameter.defaults, *given)):
            return True
        match value:
            case bool():
                return bool(set(terms_of(parameter.key)) & self._stems)
            case int() | float() | Decimal():
                return self._counts(Decimal(str(value)))
            case str():
                return self._names(value, whole=bool(parameter.choices)) and self._serves(value)
            case list():
                items = parameters.items(parameter)
                found = sum(self.holds(item, items, parameters) for item in value)
                return bool(value) and found >= SHARE * len(value)
            case dict():
                members = {member.key: member for member in parameters.members(parameter)}
                return any(
                    self.holds(item, members[key], parameters)
                    for key, item in value.items()
                    if key in members
                )
        return False

    def _examine(
        self, value: dict[str, Json], parent: Parameter, parameters: Parameters, pointer: str
    ) -> Found:
        declared = {member.key: member for member in parameters.members(parent)}
        missing: list[str] = []
        known: dict[str, Json] = {}
        for key, item in value.items():
            member = declared.get(key) or parameters.free(key)
            place = pointers.join(pointer, key)
            if isinstance(item, dict) and item:
                below = self._examine(item, member, parameters, place)
                if below.known:
                    known[key] = below.known
                    missing += below.missing
                    continue
            elif self.holds(item, member, parameters):
                known[key] = item
                continue
            if member.required:
                missing.append(place)
        return Found(tuple(missing), known)

    def _names(self, text: str, *, whole: bool = False) -> bool:
        words = split_words(text)
        if not words:
            return bool(text.strip()) and fold(text).casefold().strip() in self._folded
        if f" {' '.join(words)} " in self._row:
            return True
        stems = [stem(word) for word in words]
        if whole:
            return all(self._there(each) for each in stems)
        if _DATE.fullmatch(text.strip()) and self._dated:
            return True
        telling = terms_of(text) or stems
        if sum(map(self._there, telling)) >= SHARE * len(telling):
            return True
        return self._abbreviates(text)

    def _there(self, term: str) -> bool:
        return term in self._stems or (term.isdecimal() and Decimal(term) in self._numbers)

    def _abbreviates(self, text: str) -> bool:
        """Tell whether a text in capitals is made of the first letters of words in a row."""
        if not (text.isupper() and 2 <= len(text) <= 5):
            return False
        initials = "".join(word[0] for word in self._words)
        return text.casefold() in initials

    def _counts(self, number: Decimal) -> bool:
        return number in self._numbers or -number in self._numbers

    def _serves(self, text: str) -> bool:
        """Let what stands in the request serve a text, as often as it stands there."""
        row = f" {' '.join(split_words(text))} "
        standing = self._row.count(row)
        if not standing:
            return True  # by its words, not by its place
        self._served[row] += 1
        return self._served[row] <= standing


def _same(value: Json, other: Json) -> bool:
    """Tell whether two JSON values are one, numbers compared as they are written."""
    return json.dumps(value, default=float, sort_keys=True) == json.dumps(other, sort_keys=True)
