"""From a conjunction of schemas to its shapes.

Owns the memory of what was expanded, what is being expanded, and what is given up where that is too
much. Never knows a keyword and never builds a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from catalog_compiler.arguments.schema import applying
from catalog_compiler.arguments.schema.holding import holds
from catalog_compiler.arguments.schema.meet import CrowdedError, meet, overlap
from catalog_compiler.arguments.schema.places import FALSE, TRUE
from catalog_compiler.arguments.schema.reading import Reader
from catalog_compiler.arguments.schema.result import Note, RefusedError, too_large
from catalog_compiler.arguments.schema.shapes import (
    EVERYTHING,
    Shapes,
)  # fmt: skip
from catalog_compiler.arguments.schema.unevaluated import all_evaluated
from catalog_compiler.arguments.values import Json, json_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_compiler.arguments.schema.places import Atom, Conj, Place, Places
    from catalog_compiler.arguments.schema.result import Budget

_Answer = TypeVar("_Answer")
EMPTINESS_DEPTH: Final = 3
"""Levels of required members below which an intersection is taken to have values."""
MAX_EXCLUDED: Final = 24
"""Alternatives of one option of a oneOf past which the others are not excluded."""
MAX_NESTING: Final = 90
"""Schemas within which another is looked into, past which what it says is not known."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The shapes of a conjunction, and what they don't enforce."""

    shapes: Shapes
    notes: frozenset[Note]


class _BusyError(Exception):
    """The answer needs an expansion that is not finished."""


class Expander:
    """Expands conjunctions, each once."""

    def __init__(self, places: Places, budget: Budget, *, assert_formats: bool) -> None:
        self.places = places
        self._budget = budget
        self._assert_formats = assert_formats
        self._atoms: dict[Atom, Expansion] = {}
        self._conjs: dict[Conj, Expansion] = {}
        self._active: list[Atom] = []
        self._outer: frozenset[Atom] = frozenset()
        self._empty: dict[Conj, bool] = {}
        self._depth = 0
        self.asked: set[Note] = set()
        """Notes on what literals and keys were held against."""
        self.told: set[Note] = set()
        """Notes on what is worth telling, though nothing is left out."""

    def expand(self, conj: Conj) -> Expansion:
        """Return the shapes of a conjunction."""
        found = self._conjs.get(conj)
        if found is not None:
            return found
        if conj == FALSE:
            return Expansion({}, frozenset())
        shapes: Shapes = EVERYTHING
        notes: set[Note] = set()
        for atom in sorted(conj):
            shapes = self._meet_atom(shapes, atom, notes)
        found = self._conjs[conj] = Expansion(shapes, frozenset(notes))
        return found

    def meet_conj(self, shapes: Shapes, conj: Conj, notes: set[Note]) -> Shapes:
        """Return what of the shapes is in a conjunction in the same place."""
        for atom in conj:
            shapes = self._meet_atom(shapes, atom, notes)
        return shapes

    def _meet_atom(self, shapes: Shapes, atom: Atom, notes: set[Note]) -> Shapes:
        if atom == (0, True):
            return {}
        expansion = self._atom(atom)
        try:
            shapes = meet(shapes, expansion.shapes, self, self._budget.limits.alternatives)
        except CrowdedError:
            notes.add(_crowded(self.places[atom[0]]))
            return self._unknown(shapes)
        except _BusyError:
            if self._outer:
                raise
            notes.add(_recursive(self.places[atom[0]]))
            return self._unknown(shapes)
        notes |= expansion.notes
        return shapes

    def _nesting(self) -> int:
        return len(self._active) + len(self._outer)

    def _unknown(self, shapes: Shapes) -> Shapes:
        """Return the shapes where something that holds was left out, and what it evaluates."""
        return all_evaluated(shapes) if self.places.uses_unevaluated else shapes

    def _atom(self, atom: Atom) -> Expansion:
        found = self._atoms.get(atom)
        if found is not None:
            return found
        place = self.places[atom[0]]
        if atom in self._active:
            raise RefusedError(
                "ref-loop", place.pointer, "a $ref leads back to itself with nothing between",
                "let recursion pass through properties or items",
            )  # fmt: skip
        if atom in self._outer or (self._outer and self._nesting() > MAX_NESTING):
            raise _BusyError
        if len(self._active) > self._budget.limits.depth:
            deepest = self._budget.limits.depth
            raise too_large(f"more than {deepest} schemas apply in one place", place.pointer)
        self._budget.spend(10)
        self._active.append(atom)
        notes: set[Note] = set()
        try:
            reader = Reader(place, self.places, notes, assert_formats=self._assert_formats)
            shapes = (applying.holding if atom[1] else applying.failing)(reader, self, notes)
        finally:
            self._active.pop()
        self.told |= reader.told
        found = self._atoms[atom] = Expansion(shapes, frozenset(notes))
        return found

    # What the intersection of shapes asks (`holding.Oracle`).

    def spend(self, steps: int) -> None:
        """Take steps from the budget."""
        self._budget.spend(steps)

    def is_empty(self, conj: Conj) -> bool:
        """Tell whether no value is in it; False where that isn't known."""
        if conj == FALSE or self._depth >= EMPTINESS_DEPTH:
            return conj == FALSE
        found = self._empty.get(conj)
        if found is None:
            try:
                found = self._inside(conj, self._has_nothing)
            except (_BusyError, CrowdedError):
                return False
            self._empty[conj] = found
        return found

    def _has_nothing(self, conj: Conj) -> bool:
        """Tell whether no value is in it, without making all that is."""
        if conj in self._conjs or len(conj) < 2:
            return not self.expand(conj).shapes
        *others, last = sorted(conj)
        return not overlap(self.expand(frozenset(others)).shapes, self._atom(last).shapes, self)

    def holds(self, conj: Conj, value: Json) -> bool:
        """Tell whether a value is in it."""
        if conj in (TRUE, FALSE):
            return conj == TRUE
        expansion = self._inside(conj, self.expand)
        shapes = expansion.shapes.get(json_type(value), ())
        if not any(holds(shape, value, self) for shape in shapes):
            return False
        self.asked |= expansion.notes
        return True

    def pointer(self, number: int) -> str:
        """Return where a place is."""
        return self.places[number].pointer

    def negation(self, conj: Conj) -> Conj:
        """Return the negation of at most one atom."""
        return self.places.negation(conj)

    def _inside(self, conj: Conj, ask: Callable[[Conj], _Answer]) -> _Answer:
        """Ask about what is not in the same place as what is being expanded."""
        before = self._active, self._outer
        self._outer = self._outer.union(self._active)
        self._active = []
        self._depth += 1
        try:
            return ask(conj)
        finally:
            self._depth -= 1
            self._active, self._outer = before

    def meet_values(self, shapes: Shapes, values: Shapes, reader: Reader) -> Shapes:
        """Return what of the values is in the shapes."""
        try:
            return meet(shapes, values, self, self._budget.limits.alternatives)
        except _BusyError:
            if self._outer:
                raise
            reader.notes.add(_recursive(reader.place))
            return values

    def without(self, shapes: Shapes, conj: Conj, reader: Reader, notes: set[Note]) -> Shapes:
        """Return the shapes without what another option of a oneOf has."""
        if conj == TRUE:
            return {}
        negation = self.places.negation(conj)
        most = max(MAX_EXCLUDED, *(len(each) for each in shapes.values()))
        try:
            if not overlap(shapes, self.expand(conj).shapes, self):
                return shapes
            left = meet(shapes, self.expand(negation).shapes, self, most)
        except _BusyError:
            if self._outer:
                raise
            notes.add(_recursive(reader.place))
            return shapes
        except CrowdedError:
            reader.note(
                "one-of-overlap", "oneOf", "that only one option holds is not wholly enforced",
                "tell the options apart by a required property with a const",
            )  # fmt: skip
            return shapes
        notes |= self.expand(negation).notes
        return left


def _crowded(place: Place) -> Note:
    return Note(
        "too-many-alternatives", place.pointer,
        "with what else holds here it makes too many alternatives",
        "use fewer anyOf and oneOf beside each other",
    )  # fmt: skip


def _recursive(place: Place) -> Note:
    return Note(
        "literals-in-recursion", place.pointer,
        "whether a literal or key is allowed depends on the schema that it stands in",
        "move enum, const and propertyNames out of the recursion",
    )  # fmt: skip
