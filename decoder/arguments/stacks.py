"""What the machine is in the middle of: a stack of frames, the innermost first.

Owns the frames' fields. A stack is its top frame, which knows the one above it (what goes on when
it ends); None is the end of the whole value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from decoder.arguments.characters import Partial

FIRST, AFTER, SPACE, ITEM = range(4)
"""Phases of a container: after its opening, after an item or member, after a comma, after its
space. In an object, KEY is within a declared key, and COLON and VALUE follow a free one."""
KEY, COLON, VALUE = 4, 5, 6


@dataclass(frozen=True, slots=True)
class Opening:
    """Before the first byte of a string, an array or an object: the node alone."""

    node: int
    depth: int
    above: Stack


@dataclass(frozen=True, slots=True)
class LiteralFrame:
    """Within one of some fixed texts, at a node of their trie."""

    place: int
    above: Stack


@dataclass(frozen=True, slots=True)
class NumberFrame:
    """Within a number, at a state of its automaton."""

    automaton: int
    state: int
    above: Stack


@dataclass(frozen=True, slots=True)
class TextFrame:
    """Within a string: the automaton's state, characters so far, what there is of the next."""

    node: int
    state: int
    chars: int
    partial: Partial
    above: Stack


@dataclass(frozen=True, slots=True)
class ArrayFrame:
    """Within an array, `count` items of which are begun or done; depth counts this one too."""

    node: int
    count: int
    phase: int
    depth: int
    above: Stack


@dataclass(frozen=True, slots=True)
class DistinctFrame:
    """Within an array of distinct literals; `place` is a trie node where the phase is KEY."""

    node: int
    used: int
    phase: int
    place: int
    above: Stack


@dataclass(frozen=True, slots=True)
class ObjectFrame:
    """Within an object.

    Attributes:
        node: its row.
        next: the first declared property that may still come.
        count: members begun.
        used: free keys that it has had.
        phase: see above.
        place: a node of the key trie where the phase is KEY, a free key's label in COLON and VALUE.
        depth: containers that are open, this one too.
        above: the frame around it.

    """

    node: int
    next: int
    count: int
    used: frozenset[str]
    phase: int
    place: int
    depth: int
    above: Stack


@dataclass(frozen=True, slots=True)
class FreeKeyFrame:
    """Within a free key of the object above, whose automaton is at `state`."""

    state: int
    text: str
    partial: Partial
    above: ObjectFrame


Frame: TypeAlias = (
    Opening
    | LiteralFrame
    | NumberFrame
    | TextFrame
    | ArrayFrame
    | DistinctFrame
    | ObjectFrame
    | FreeKeyFrame
)
Stack: TypeAlias = Frame | None
Configuration: TypeAlias = frozenset[Stack]

NO_TEXT: Final = frozenset[str]()
