"""Where subschemas are: every place that can be reached, by number, and what `$ref` leads to.

Owns base URIs, anchors and pointers. Never fetches anything and never reads a constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from jsonschema_specifications import REGISTRY

from catalog_compiler import pointers
from catalog_compiler.arguments.schema.dialect import OWN, Dialect, dialect_of, ignored, today
from catalog_compiler.arguments.schema.result import RefusedError, SchemaLimits, too_large

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_compiler.arguments.values import Json

Atom: TypeAlias = tuple[int, bool]
"""A place's number, and whether its schema holds (or its negation)."""

Conj: TypeAlias = frozenset[Atom]
"""Atoms that all hold: what every part of a grammar is made from."""

TRUE: Final[Conj] = frozenset()
FALSE: Final[Conj] = frozenset({(0, True)})

_MAPS: Final = (
    *("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"),
    "dependencies",
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE: Final = (
    *("items", "additionalItems", "contains", "additionalProperties", "propertyNames"),
    *("not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A subschema that is an object.

    Attributes:
        number: of the place.
        keywords: what constrains, in the terms of draft 2020-12 (`dialect.today`).
        ignored: keywords that the dialect passes over (`dialect.ignored`).
        base: URI that references are relative to.
        pointer: where it is written.

    """

    number: int
    keywords: dict[str, Json]
    ignored: tuple[str, ...]
    base: str
    pointer: str
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class _Spot:
    """A value with what its surroundings say of it."""

    value: Json
    base: str
    pointer: str
    dialect: Dialect


def both(one: Conj, other: Conj) -> Conj:
    """Return what holds where both hold."""
    if one == other or not other:
        return one
    merged = one | other
    if (0, True) in merged or any((number, not holds) in merged for number, holds in merged):
        return FALSE
    return merged


class Places:
    """The subschemas of one schema, numbered as they are first asked for; 0 is the false one."""

    def __init__(self, schema: Json, limits: SchemaLimits, *, close_objects: bool = False) -> None:
        self._limits = limits
        self.close_objects = close_objects
        self._all: list[Place | None] = [None]
        self._numbers: dict[tuple[int, str], int] = {}
        self._resources: dict[str, _Spot] = {}
        self._anchors: dict[tuple[str, str], _Spot] = {}
        self._dynamic: dict[str, list[tuple[str, str]]] = {}
        self._kept_alive: list[Json] = []
        self.uses_unevaluated = False
        self.root = _Spot(schema, "", "", dialect_of(schema))
        self._resources[""] = self.root
        self._index(self.root)

    def __getitem__(self, number: int) -> Place:
        place = self._all[number]
        assert place is not None
        return place

    def root_conj(self) -> Conj:
        """Return the whole schema."""
        return self._conj(self.root)

    def below(self, place: Place, value: Json, *path: str | int) -> Conj:
        """Return the subschema `value`, which stands at the path below a place."""
        pointer = pointers.join(place.pointer, *path)
        return self._conj(_Spot(value, place.base, pointer, place.dialect))

    def made(self, place: Place, keywords: dict[str, Json], keyword: str) -> Conj:
        """Return a schema that stands for a keyword of a place, in 2020-12's terms.

        Within it a `Conj` may stand where a schema may.
        """
        number = len(self._all)
        pointer = pointers.join(place.pointer, keyword)
        self._all.append(Place(number, keywords, (), place.base, pointer, OWN))
        self._check_count(pointer)
        return frozenset({(number, True)})

    def made_at_root(self, keywords: dict[str, Json]) -> Conj:
        """Return a schema beside the whole one, in 2020-12's terms."""
        number = len(self._all)
        self._all.append(Place(number, keywords, (), "", "", OWN))
        return frozenset({(number, True)})

    def negation(self, conj: Conj) -> Conj:
        """Return the negation of at most one atom."""
        if conj == TRUE:
            return FALSE
        ((number, holds),) = conj
        return TRUE if number == 0 and holds else frozenset({(number, not holds)})

    def referred(self, place: Place, keyword: str) -> Conj:
        """Return what a `$ref`, `$dynamicRef` or `$recursiveRef` leads to."""
        reference = place.keywords[keyword]
        at = pointers.join(place.pointer, keyword)
        if not isinstance(reference, str):
            raise malformed(at, "a reference is no string")
        if reference.startswith("#"):
            uri = place.base + reference
        else:
            uri = _joined(place.base, reference, at)
        spot = self._find(uri, at)
        anchor = urldefrag(uri).fragment
        dynamic = self._dynamic.get(anchor if keyword == "$dynamicRef" else "", [])
        if keyword != "$ref" and len(dynamic) > 1:
            raise RefusedError(
                "ref-dynamic", at, f"which schema {keyword} means depends on who refers to it",
                "use $ref",
            )  # fmt: skip
        return self._conj(spot)

    def _conj(self, spot: _Spot) -> Conj:
        value = spot.value
        if isinstance(value, frozenset):  # within keywords that were made
            return value
        if value is True:
            return TRUE
        if value is False:
            return FALSE
        if not isinstance(value, dict):
            raise malformed(spot.pointer, "a schema is neither an object nor true nor false")
        spot = self._own_base(spot)
        key = (id(value), spot.base)
        number = self._numbers.get(key)
        if number is None:
            keywords = today(value, spot.dialect)
            number = self._numbers[key] = len(self._all) if keywords else -1
            self._kept_alive.append(value)
            if keywords:
                passed = ignored(value, spot.dialect, keywords)
                place = Place(number, keywords, passed, spot.base, spot.pointer, spot.dialect)
                self._all.append(place)
                self._check_count(spot.pointer)
        return TRUE if number < 0 else frozenset({(number, True)})

    def _check_count(self, pointer: str) -> None:
        if len(self._all) > self._limits.schemas:
            raise too_large(f"it has more than {self._limits.schemas} subschemas", pointer)

    def _own_base(self, spot: _Spot) -> _Spot:
        """Return the spot with the base URI and dialect that its schema gives itself."""
        value, dialect = spot.value, spot.dialect
        if not isinstance(value, dict):
            return spot
        if isinstance(value.get("$schema"), str) and spot.pointer:
            dialect = dialect_of(value, spot.pointer)
        named = value.get(dialect.id_keyword)
        base = spot.base
        if isinstance(named, str) and not ("$ref" in value and dialect.ref_stands_alone):
            at = pointers.join(spot.pointer, dialect.id_keyword)
            joined = urldefrag(_joined(base, named, at))[0]
            base = base if named.startswith("#") else joined
        if base == spot.base and dialect == spot.dialect:
            return spot
        return _Spot(value, base, spot.pointer, dialect)

    def _index(self, root: _Spot) -> None:
        """Find every schema that has a name."""
        queue = [(root, 0)]
        seen = 0
        while queue:
            spot, depth = queue.pop()
            seen += 1
            if seen > self._limits.schemas:
                raise too_large(f"it has more than {self._limits.schemas} subschemas", spot.pointer)
            if depth > self._limits.depth:
                raise too_large(f"it is more than {self._limits.depth} deep", spot.pointer)
            value = spot.value
            if not isinstance(value, dict):
                continue
            own = self._own_base(spot)
            if own.base != spot.base:
                self._resources.setdefault(own.base, own)
            self._name(own)
            if "unevaluatedProperties" in value or "unevaluatedItems" in value:
                self.uses_unevaluated = True
            queue.extend((below, depth + 1) for below in _children(own))

    def _name(self, spot: _Spot) -> None:
        value, base = spot.value, spot.base
        if spot.dialect.year >= 2019:
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(value.get(keyword), str):
                    self._anchors.setdefault((base, value[keyword]), spot)
            dynamic = value.get("$dynamicAnchor")
            if isinstance(dynamic, str):
                self._dynamic.setdefault(dynamic, []).append((base, spot.pointer))
            if value.get("$recursiveAnchor") is True:
                self._dynamic.setdefault("", []).append((base, spot.pointer))
        else:
            named = value.get(spot.dialect.id_keyword)
            if isinstance(named, str) and "#" in named:
                self._anchors.setdefault((base, named.partition("#")[2]), spot)

    def _find(self, uri: str, at: str) -> _Spot:
        """Return the schema that an absolute reference leads to."""
        base, fragment = urldefrag(uri)
        spot = self._resources.get(base) or self._well_known(base)
        if spot is None:
            raise RefusedError(
                "ref-remote", at, f"{uri!r} lies outside the schema, and nothing is fetched",
                "copy what it leads to into $defs",
            )  # fmt: skip
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get((spot.base, fragment))
            if found is None:
                raise _unresolved(at, uri)
            return found
        spot = self._own_base(spot)
        for part in pointers.split(fragment):
            try:
                value = pointers.follow(spot.value, [part])
            except KeyError:
                raise _unresolved(at, uri) from None
            spot = self._own_base(
                _Spot(value, spot.base, pointers.join(spot.pointer, part), spot.dialect)
            )
        return spot

    def _well_known(self, base: str) -> _Spot | None:
        """Return a metaschema, which needs no fetching."""
        for key in (base, f"{base}#"):
            if key in REGISTRY:
                contents = REGISTRY[key].contents
                spot = _Spot(contents, base, base, dialect_of(contents))
                self._resources[base] = spot
                self._index(spot)
                return spot
        return None


def _children(spot: _Spot) -> Iterator[_Spot]:
    """Yield the subschemas of a schema."""
    value = spot.value

    def below(each: Json, *path: str | int) -> _Spot:
        return _Spot(each, spot.base, pointers.join(spot.pointer, *path), spot.dialect)

    for keyword in _MAPS:
        if isinstance(value.get(keyword), dict):
            for key, each in value[keyword].items():
                yield below(each, keyword, key)
    for keyword in _LISTS:
        if isinstance(value.get(keyword), list):
            for position, each in enumerate(value[keyword]):
                yield below(each, keyword, position)
    for keyword in _SINGLE:
        if isinstance(value.get(keyword), dict):
            yield below(value[keyword], keyword)


def _joined(base: str, reference: str, at: str) -> str:
    """Return what a reference means beside a base URI. Raises RefusedError where it is no URI."""
    try:
        uri = urljoin(base, reference)
        urlsplit(uri)
    except ValueError as error:
        raise malformed(at, f"{reference[:100]!r} is no URI reference: {error}") from error
    return uri


def malformed(pointer: str, message: str) -> RefusedError:
    """Return the refusal of what is no schema."""
    return RefusedError("schema-malformed", pointer, message, "write it as JSON Schema asks")


def _unresolved(at: str, uri: str) -> RefusedError:
    return RefusedError(
        "ref-unresolved", at, f"{uri!r} leads nowhere", "correct it, or define what it names"
    )
