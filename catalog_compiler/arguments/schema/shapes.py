"""The normal form: for each JSON type, alternatives, each a set of values of that type.

Owns what an alternative says. Never reads a keyword and never looks into a subschema: what an item
or a member may be is a `Conj`, by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from catalog_compiler.arguments.schema.places import TRUE, Conj
from catalog_compiler.arguments.values import TYPES, Json, Literal, json_type, literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

ALL_ITEMS: Final = 1 << 40
"""As `Arrays.evaluated`: every item."""
SOME_ITEMS: Final = ALL_ITEMS - 1
"""As `Arrays.evaluated`: nobody knows which (those that a `contains` matched)."""


@dataclass(frozen=True, slots=True)
class Some:
    """A few values."""

    literals: frozenset[Literal]


@dataclass(frozen=True, slots=True, order=True)
class Test:
    """What a string must match or must not: kind is "pattern" or "format"."""

    kind: str
    source: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Strings:
    """Strings that pass all tests, low to high characters long, `without` left out."""

    tests: frozenset[Test] = frozenset()
    low: int = 0
    high: int | None = None
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers within bounds.

    Attributes:
        minimum, above, maximum, below: bounds; `above` and `below` are not reached.
        whole: without a fraction.
        broken: with one.
        multiples: of all of these.
        unmultiples: of none of these.
        without: keys of literals that are left out.

    """

    minimum: Decimal | None = None
    above: Decimal | None = None
    maximum: Decimal | None = None
    below: Decimal | None = None
    whole: bool = False
    broken: bool = False
    multiples: frozenset[Decimal] = frozenset()
    unmultiples: frozenset[Decimal] = frozenset()
    without: frozenset[Literal] = frozenset()


@dataclass(frozen=True, slots=True)
class Contained:
    """At least low and at most high items of an array, from a position on, are `item`."""

    item: Conj
    low: int
    high: int | None
    pointer: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arrays.

    Attributes:
        prefix, rest: what the first items are, and the others.
        low, high: bounds on the number of items.
        unique: pointer of the keyword by which no two items are equal; None where they may.
        repeated: pointer of the keyword by which some item comes twice, or None.
        contained: what else they must hold.
        evaluated: how many of the first items `unevaluatedItems` leaves alone.

    """

    prefix: tuple[Conj, ...] = ()
    rest: Conj = TRUE
    low: int = 0
    high: int | None = None
    unique: str | None = None
    repeated: str | None = None
    contained: frozenset[Contained] = frozenset()
    evaluated: int = 0

    def item(self, position: int) -> Conj:
        """Return what the item at a position is."""
        return self.prefix[position] if position < len(self.prefix) else self.rest


@dataclass(frozen=True, slots=True)
class Matching:
    """Keys in which a pattern is found."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Others:
    """Keys that are none of some keys and match none of some patterns."""

    keys: frozenset[str]
    patterns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Keys that are not what `propertyNames` asks for."""

    names: Conj


Keys: TypeAlias = Matching | Others | Unnamed


@dataclass(frozen=True, slots=True)
class Held:
    """Some key of a kind has a value that is `value`."""

    keys: Keys
    value: Conj
    pointer: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Keys that `unevaluatedProperties` leaves alone."""

    keys: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects.

    Attributes:
        members: what the values of declared keys are, in order of declaration.
        required: keys that must be there.
        rules: what the values of all keys of a kind are, declared keys included.
        low, high: bounds on the number of members.
        held: what members there must be besides.
        seen: what `unevaluatedProperties` leaves alone; only kept where it is used.
        declares, speaks: whether `properties` stands somewhere, and a keyword about further
            members; only kept where objects are to be closed.

    """

    members: tuple[tuple[str, Conj], ...] = ()
    required: tuple[str, ...] = ()
    rules: frozenset[tuple[Keys, Conj]] = frozenset()
    low: int = 0
    high: int | None = None
    held: frozenset[Held] = frozenset()
    seen: Seen = field(default=Seen())
    declares: bool = False
    speaks: bool = False


Shape: TypeAlias = Some | Strings | Numbers | Arrays | Objects

Shapes: TypeAlias = dict[str, tuple[Shape, ...]]
"""Alternatives by type; a type that is absent has none."""


def _some(*values: Json) -> Some:
    return Some(frozenset(map(literal, values)))


ANY: Final[dict[str, Shape]] = {
    "object": Objects(),
    "array": Arrays(),
    "string": Strings(),
    "number": Numbers(),
    "boolean": _some(*(False, True)),
    "null": _some(None),
}
EVERYTHING: Final[Shapes] = {kind: (shape,) for kind, shape in ANY.items()}


def everything_but(kinds: Iterable[str]) -> Shapes:
    """Return all values of the other types."""
    left_out = frozenset(kinds)
    return {kind: EVERYTHING[kind] for kind in TYPES if kind not in left_out}


def named(values: Iterable[Json]) -> Shapes:
    """Return exactly these values."""
    by_kind: dict[str, set[Literal]] = {}
    for value in values:
        by_kind.setdefault(json_type(value), set()).add(literal(value))
    return {kind: (Some(frozenset(some)),) for kind, some in by_kind.items()}


def join(*parts: Shapes) -> Shapes:
    """Return what is in any of them, nothing twice."""
    out: Shapes = {}
    for kind in TYPES:
        shapes = [shape for part in parts for shape in part.get(kind, ())]
        if not shapes:
            continue
        if ANY[kind] in shapes:
            evaluated = dict.fromkeys(each for each in shapes if _is_evaluated(each))
            out[kind] = (*EVERYTHING[kind], *evaluated)
            continue
        literals: set[Literal] = set()
        for shape in shapes:
            if isinstance(shape, Some):
                literals |= shape.literals
        rest = dict.fromkeys(shape for shape in shapes if not isinstance(shape, Some))
        some = (Some(frozenset(literals)),) if literals else ()
        out[kind] = (*some, *rest)
    return out


def _is_evaluated(shape: Shape) -> bool:
    """Tell whether it matters to unevaluated keywords, whatever values others allow."""
    if isinstance(shape, Arrays):
        return shape.evaluated != 0
    return isinstance(shape, Objects) and shape.seen != Seen()
