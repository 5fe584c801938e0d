"""A regular expression as a tree. Owns its nodes; never reads a pattern nor says what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from catalog_compiler.arguments.automata.char_sets import CharSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some parts."""

    parts: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part again and again; `high` is None without end."""

    part: Syntax
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    """The start of the text, or its end."""

    at_start: bool


@dataclass(frozen=True, slots=True)
class WordEdge:
    """A place between a word character and another (`negated`: any other place)."""

    negated: bool


@dataclass(frozen=True, slots=True)
class Look:
    """What must follow here, or must not (`behind`: what must come before)."""

    part: Syntax
    negated: bool
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A part that back references may mean, by its number from 1 on."""

    part: Syntax
    number: int


@dataclass(frozen=True, slots=True)
class BackReference:
    """What a group matched; nothing where it matched nothing yet."""

    number: int


Syntax: TypeAlias = (
    Chars | Sequence | Choice | Repeat | Edge | WordEdge | Look | Group | BackReference
)
