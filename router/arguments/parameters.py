"""A tool's input schema in short: what a prompt tells of a parameter, and what evidence asks.

Owns the lenient reading of a schema for these two ends: local references followed, alternatives
laid together. What may be written is the grammar's to say, never this module's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from catalog_compiler import pointers
from router.retrieval.words import split_words, stem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from catalog_compiler.model import Json

MAX_STEPS: Final = 64
"""Most references and alternatives that are followed for one parameter (recursive schemas)."""

QUOTED: Final = re.compile(r"\"[^\"]+\"|“[^”]+”|`[^`]+`|(?<!\w)'[^']+'(?!\w)")

_DEFAULT: Final = re.compile(r"\b[Dd]efault")
"""What a description says from here on is what holds where nothing is asked for."""

_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """One place of the arguments, as far as it is known; equal to itself alone.

    Attributes:
        key: its member's key; "" for the arguments themselves and for items.
        required: whether its object must have it.
        types: JSON types it may have, in the schema's order; empty where nothing is said.
        choices: values of enum and const.
        description: the schema's, or its title.
        text_format: the schema's "format", or "".
        defaults: the schema's default, or nothing.
        schemas: the schemas that were laid together, references followed.

    """

    key: str
    required: bool
    types: tuple[str, ...]
    choices: tuple[Json, ...]
    description: str
    text_format: str
    defaults: tuple[Json, ...]
    schemas: tuple[Mapping[str, Json], ...]


class Parameters:
    """Reads the parameters of one tool's schema, each once.

    The same subschemas give the same `Parameter`, however many ways lead there, so that what is
    worked out for one can be kept, and recursion comes round.

    Args:
        schema: the tool's input schema.

    """

    def __init__(self, schema: Json) -> None:
        self._root = schema
        self._members: dict[tuple[int, ...], tuple[Parameter, ...]] = {}
        self._items: dict[tuple[int, ...], Parameter] = {}
        self._choices: dict[Parameter, ChoiceIndex] = {}
        self._required: dict[frozenset[str], int] = {}
        self.arguments = self._parameter("", schema, required=True)
        self.top = self.members(self.arguments)

    def members(self, parent: Parameter) -> tuple[Parameter, ...]:
        """Return the declared members of an object, in order."""
        place = _identity(parent, ("properties", "required"))
        if place not in self._members:
            self._members[place] = self._read_members(parent)
        return self._members[place]

    def items(self, parent: Parameter) -> Parameter:
        """Return what is known of an array's items."""
        place = _identity(parent, ("prefixItems", "items"))
        if place not in self._items:
            self._items[place] = self._read_items(parent)
        return self._items[place]

    def required(self, kinds: frozenset[str]) -> int:
        """Count the required top parameters of some types whose values are not listed."""
        if kinds not in self._required:
            self._required[kinds] = sum(
                each.required and not each.choices and bool(kinds & set(each.types))
                for each in self.top
            )
        return self._required[kinds]

    def choices(self, parameter: Parameter) -> ChoiceIndex:
        """Return the texts that the schema, or its description in quotes, names as values."""
        if parameter not in self._choices:
            self._choices[parameter] = ChoiceIndex(_named_choices(parameter))
        return self._choices[parameter]

    def _read_members(self, parent: Parameter) -> tuple[Parameter, ...]:
        found: dict[str, list[Json]] = {}
        required: set[str] = set()
        for schema in parent.schemas:
            properties = schema.get("properties")
            if isinstance(properties, dict):
                for key, member in properties.items():
                    found.setdefault(key, []).append(member)
            names = schema.get("required")
            if isinstance(names, list):
                required.update(name for name in names if isinstance(name, str))
        return tuple(
            self._parameter(key, *members, required=key in required)
            for key, members in found.items()
        )

    def _read_items(self, parent: Parameter) -> Parameter:
        found: list[Json] = []
        for schema in parent.schemas:
            for name in ("prefixItems", "items"):
                items = schema.get(name)
                found += items if isinstance(items, list) else [items]
        return self._parameter("", *found, required=False)

    def free(self, key: str) -> Parameter:
        """Return a member that its object does not declare."""
        return self._parameter(key, required=False)

    def _parameter(self, key: str, *schemas: Json, required: bool) -> Parameter:
        flat = tuple(self._flatten(schemas))
        types: dict[str, None] = {}
        choices: list[Json] = []
        defaults: list[Json] = []
        for schema in flat:
            named = schema.get("type")
            types.update(dict.fromkeys(t for t in _listed(named) if isinstance(t, str)))
            enum = schema.get("enum")
            choices += enum if isinstance(enum, list) else []
            choices += [schema["const"]] if "const" in schema else []
            defaults += [schema["default"]] if "default" in schema else []
        return Parameter(
            key=key,
            required=required,
            types=tuple(types),
            choices=tuple(choices),
            description=_first_text(flat, ("description", "title")),
            text_format=_first_text(flat, ("format",)),
            defaults=tuple(defaults),
            schemas=flat,
        )

    def _flatten(self, schemas: Iterable[Json]) -> list[Mapping[str, Json]]:
        """Lay schemas, what they refer to and their alternatives side by side."""
        flat: list[Mapping[str, Json]] = []
        waiting = list(schemas)
        for _ in range(MAX_STEPS):
            if not waiting:
                break
            schema = waiting.pop(0)
            if not isinstance(schema, dict):
                continue
            flat.append(schema)
            for name in _ALTERNATIVES:
                waiting += _listed(schema.get(name, []))
            if isinstance(schema.get("$ref"), str):
                waiting.append(self._target(schema["$ref"]))
        return flat

    def _target(self, reference: str) -> Json:
        """Return what a local pointer leads to; None where it is another kind of reference."""
        if not reference.startswith("#"):
            return None
        try:
            return pointers.follow(self._root, pointers.split(pointers.fragment(reference)))
        except KeyError:
            return None


class ChoiceIndex:
    """Texts by their first word, so that a request is held against few of many.

    Args:
        texts: the choices.

    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_stem: dict[str, list[str]] = {}
        for text in texts:
            words = split_words(text)
            self._by_stem.setdefault(stem(words[0]) if words else "", []).append(text)
        self._numbers = {text: Decimal(text) for text in self._by_stem if text.isdecimal()}

    def candidates(self, stems: frozenset[str], numbers: frozenset[Decimal]) -> Iterator[str]:
        """Yield the choices that begin with one of the words or numbers, or have none."""
        for first in sorted(stems & self._by_stem.keys()):
            yield from self._by_stem[first]
        for text, number in self._numbers.items():
            if number in numbers and text not in stems:
                yield from self._by_stem[text]
        yield from self._by_stem.get("", ())


def _identity(parameter: Parameter, keywords: tuple[str, ...]) -> tuple[int, ...]:
    """Tell apart what has other keywords of some kind; the root keeps every subschema alive."""
    return tuple(
        id(schema) for schema in parameter.schemas if any(name in schema for name in keywords)
    )


def _named_choices(parameter: Parameter) -> Iterator[str]:
    yield from (choice for choice in parameter.choices if isinstance(choice, str))
    for quoted in QUOTED.findall(_DEFAULT.split(parameter.description, maxsplit=1)[0]):
        yield quoted[1:-1]


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _first_text(schemas: Iterable[Mapping[str, Json]], names: tuple[str, ...]) -> str:
    for name in names:
        for schema in schemas:
            text = schema.get(name)
            if isinstance(text, str) and text.strip():
                return text
    return ""
