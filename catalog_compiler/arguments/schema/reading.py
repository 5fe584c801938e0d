"""Reading of a place's keywords: values of the right kind, or a refusal that names the place.

Owns what a keyword's value may be. Never says what it means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog_compiler import pointers
from catalog_compiler.arguments import automata
from catalog_compiler.arguments.schema.patterns import search
from catalog_compiler.arguments.schema.places import malformed
from catalog_compiler.arguments.schema.result import Note, RefusedError
from catalog_compiler.arguments.schema.shapes import Contained, Held, Objects, Test
from catalog_compiler.arguments.values import Json, decimal, freeze, is_finite, is_whole

if TYPE_CHECKING:
    from decimal import Decimal

    from catalog_compiler.arguments.schema.places import Conj, Place, Places
    from catalog_compiler.arguments.schema.shapes import Keys

MAX_COUNT: Final = 1 << 30
"""What a bound on lengths or numbers of items is at most: no text is written that is so long."""
TYPE_NAMES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


class Reader:
    """The keywords of one place, checked as they are read."""

    def __init__(
        self, place: Place, places: Places, notes: set[Note], *, assert_formats: bool
    ) -> None:
        self.place = place
        self.places = places
        self.notes = notes
        self.told: set[Note] = set()
        """What is worth telling, though nothing is left out."""
        for name in place.ignored:
            self.told.add(
                Note(
                    "keyword-ignored",
                    self.pointer(name),
                    f"{name} says nothing here in the schema's dialect",
                    "name draft 2020-12 by $schema, and write it as that draft does",
                )
            )
        self._assert_formats = assert_formats

    def __contains__(self, keyword: str) -> bool:
        return keyword in self.place.keywords

    def __getitem__(self, keyword: str) -> Json:
        return self.place.keywords[keyword]

    def pointer(self, *path: str | int) -> str:
        """Return the pointer to what lies below the place."""
        return pointers.join(self.place.pointer, *path)

    def note(self, code: str, keyword: str, message: str, mend: str) -> None:
        """Say that a keyword is not, or not wholly, enforced."""
        self.notes.add(Note(code, self.pointer(keyword), message, mend))

    def malformed(self, keyword: str, message: str) -> RefusedError:
        """Return the refusal of a keyword's value."""
        return malformed(self.pointer(keyword), message)

    def types(self) -> frozenset[str] | None:
        """Return the names in `type`, or None where there is none."""
        if "type" not in self:
            return None
        value = self["type"]
        names = value if isinstance(value, list) else [value]
        for name in names:
            if not isinstance(name, str) or name not in TYPE_NAMES:
                raise RefusedError(
                    "type-unknown", self.pointer("type"), f"{name!r} is no type of JSON Schema",
                    f"write one of {', '.join(sorted(TYPE_NAMES))}",
                )  # fmt: skip
        return frozenset(names)

    def count(self, keyword: str) -> int | None:
        """Return a bound that counts something, at most `MAX_COUNT`."""
        if keyword not in self:
            return None
        value = self[keyword]
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        if wrong or not is_finite(value) or value < 0 or not is_whole(value):
            raise self.malformed(keyword, f"{keyword} is no whole number of 0 or more")
        return min(int(value), MAX_COUNT)

    def number(self, keyword: str) -> Decimal | None:
        """Return a bound of a number."""
        if keyword not in self:
            return None
        value = self[keyword]
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
            raise self.malformed(keyword, f"{keyword} is no number")
        return decimal(value)

    def unit(self) -> Decimal | None:
        """Return `multipleOf`."""
        found = self.number("multipleOf")
        if found is not None and found <= 0:
            raise self.malformed("multipleOf", "multipleOf is not above 0")
        return found

    def names(self, keyword: str) -> tuple[str, ...]:
        """Return a list of keys."""
        value = self.place.keywords.get(keyword, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.malformed(keyword, f"{keyword} is no list of strings")
        return tuple(dict.fromkeys(value))

    def values(self, keyword: str) -> list[Json]:
        """Return the values of `enum` or `const`."""
        value = [self[keyword]] if keyword == "const" else self[keyword]
        if not isinstance(value, list):
            raise self.malformed(keyword, f"{keyword} is no list")
        try:
            for each in value:
                freeze(each)
        except TypeError as error:
            raise self.malformed(keyword, f"a value in it is none of JSON's: {error}") from None
        return value

    def schema(self, keyword: str) -> Conj:
        """Return the schema of a keyword that has one."""
        return self.places.below(self.place, self[keyword], keyword)

    def schemas(self, keyword: str) -> list[Conj]:
        """Return the schemas of a keyword that has a list of them."""
        value = self.place.keywords.get(keyword, [])
        if not isinstance(value, list):
            raise self.malformed(keyword, f"{keyword} is no list")
        below = self.places.below
        return [below(self.place, each, keyword, at) for at, each in enumerate(value)]

    def schema_map(self, keyword: str) -> dict[str, Conj]:
        """Return the schemas of a keyword that has them by name."""
        value = self.place.keywords.get(keyword, {})
        if not isinstance(value, dict):
            raise self.malformed(keyword, f"{keyword} is no object")
        if not all(isinstance(key, str) for key in value):
            raise self.malformed(keyword, f"a key of {keyword} is no string")
        below = self.places.below
        return {key: below(self.place, each, keyword, key) for key, each in value.items()}

    def contained(self, item: Conj, low: int, high: int | None) -> Contained:
        """Return a count of items, for `contains` of this place."""
        return Contained(item, low, high, self.pointer("contains"))

    def held(self, keys: Keys, value: Conj, *path: str) -> Objects:
        """Return objects in which some key of a kind has a value."""
        return Objects(low=1, held=frozenset({Held(keys, value, self.pointer(*path))}))

    def tests(self) -> list[Test]:
        """Return what strings are tested for, as far as automata can."""
        found = []
        for keyword, make in (("pattern", self.is_pattern), ("format", self._is_asserted)):
            if keyword not in self:
                continue
            value = self[keyword]
            if not isinstance(value, str):
                raise self.malformed(keyword, f"{keyword} is no string")
            if make(value, keyword):
                found.append(Test(keyword, value, holds=True))
        return found

    def is_pattern(self, source: str, keyword: str) -> bool:
        """Tell whether a pattern can be an automaton, and note it where it can't."""
        try:
            automata.pattern(source)
        except automata.PatternError as error:
            message = f"{source[:100]!r}: {error}"
            mend = "write the pattern without what the message names"
            try:
                search(source)
            except automata.PatternError:
                # Nothing could check it after decoding either.
                code, at = "pattern-unsupported", self.pointer(keyword)
                raise RefusedError(code, at, message, mend) from None
            self.note("pattern-unsupported", keyword, message, mend)
            return False
        return True

    def _is_asserted(self, name: str, _: str) -> bool:
        """Tell whether a format is known and asserted."""
        if not self._assert_formats:
            return False
        if automata.string_format(name) is None:
            self.told.add(
                Note(
                    "format-unknown",
                    self.pointer("format"),
                    f"the format {name[:100]!r} is not known; it only describes",
                    "use a format of JSON Schema, or a pattern",
                )
            )
            return False
        return True
