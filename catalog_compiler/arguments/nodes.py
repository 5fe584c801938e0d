"""The grammar of one tool's arguments: a graph of nodes, each the set of texts of one JSON value.

Owns the nodes' meaning, which is the seam between the reading of schemas (`schema`), the tables
that are stored (`tables`) and the machine that walks them. Never reads a schema.

Texts are canonical: ``, `` between members and items, ``: `` after a key, no other white space;
members in the order of `Object.properties`, then free ones in any order, no key twice. Inside
strings any escape that RFC 8259 allows is allowed, lone surrogates excepted; literals and the keys
of properties have one spelling, that of `json.dumps(..., ensure_ascii=False)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton

ITEM_SEPARATOR: Final = b", "
KEY_SEPARATOR: Final = b": "


@dataclass(frozen=True, slots=True)
class Literals:
    """One of some texts: enum, const, true, false, null.

    Attributes:
        texts: canonical JSON texts, UTF-8, sorted, distinct, at least one.

    """

    texts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A string.

    Attributes:
        automaton: what its characters (decoded, not as spelt) may be; None for any.
        min_chars, max_chars: bounds on their number (code points); None is no bound. Where there is
            an automaton, the two never contradict each other: from each state that is reached
            after n characters, and whose shortest rest keeps max_chars, some completion keeps both
            bounds.

    """

    automaton: Automaton | None = None
    min_chars: int = 0
    max_chars: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number.

    Attributes:
        automaton: over the characters of its text (ASCII).

    """

    automaton: Automaton


@dataclass(frozen=True, slots=True)
class Array:
    """An array.

    Attributes:
        prefix: nodes of the first items.
        rest: node of the items after them, or None where there are none.
        min_items, max_items: bounds; min_items is at most len(prefix) where rest is None.

    """

    prefix: tuple[int, ...]
    rest: int | None
    min_items: int = 0
    max_items: int | None = None


@dataclass(frozen=True, slots=True)
class DistinctLiterals:
    """An array of literals of which none comes twice.

    Attributes:
        texts: as in `Literals`, at most 64, no two the same value.
        min_items, max_items: bounds, both at most len(texts).

    """

    texts: tuple[bytes, ...]
    min_items: int
    max_items: int


@dataclass(frozen=True, slots=True)
class Property:
    """A declared member of an object: its key (decoded), the node of its value."""

    key: str
    node: int
    required: bool


@dataclass(frozen=True, slots=True)
class Object:
    """An object.

    Attributes:
        properties: in the order in which they are written; keys are distinct.
        keys: which keys a further member may have, or None where there are none; it accepts none
            of `properties`' keys, and its labels index `values`.
        values: the nodes of free members' values, by label.
        min_properties, max_properties: bounds on members of both kinds; they can be kept, and
            max_properties is at least the number of required properties.

    """

    properties: tuple[Property, ...]
    keys: Automaton | None = None
    values: tuple[int, ...] = ()
    min_properties: int = 0
    max_properties: int | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """What any of some nodes accepts; none of them is a union, and they may overlap."""

    options: tuple[int, ...]


Node: TypeAlias = Literals | Text | Number | Array | DistinctLiterals | Object | Union


@dataclass(frozen=True, slots=True)
class ArgumentGrammar:
    """The values that a schema allows.

    Attributes:
        nodes: every one of them can be reached from the root and accepts some finite value.
            Nodes may lead back to one another (recursive schemas).
        root: position of the first.

    """

    nodes: tuple[Node, ...]
    root: int = 0
