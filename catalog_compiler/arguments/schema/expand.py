"""From a conjunction of schemas to its shapes: keywords that apply schemas in the same place.

Owns `allOf`, `anyOf`, `oneOf`, `not`, `if`, `$ref`, the dependent and the unevaluated keywords, and
the memory of what was expanded. Never builds a node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeVar

from catalog_compiler.arguments.schema import keywords, negation
from catalog_compiler.arguments.schema.holding import holds
from catalog_compiler.arguments.schema.meet import CrowdedError, meet, overlap, settled
from catalog_compiler.arguments.schema.places import FALSE, TRUE, both
from catalog_compiler.arguments.schema.reading import Reader
from catalog_compiler.arguments.schema.result import Note, RefusedError, too_large
from catalog_compiler.arguments.schema.shapes import (
    ALL_ITEMS,
    EVERYTHING,
    SOME_ITEMS,
    Arrays,
    Objects,
    Others,
    Seen,
    Shapes,
    Some,
    join,
)  # fmt: skip
from catalog_compiler.arguments.values import TYPES, Json, json_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from catalog_compiler.arguments.schema.places import Atom, Conj, Place, Places
    from catalog_compiler.arguments.schema.result import Budget

_Answer = TypeVar("_Answer")
EMPTINESS_DEPTH: Final = 3
"""Levels of required members below which an intersection is taken to have values."""
MAX_EXCLUDED: Final = 24
"""Alternatives of one option of a oneOf past which the others are not excluded."""
MAX_NESTING: Final = 90
"""Schemas within which another is looked into, past which what it says is not known."""
MAX_SUBSETS: Final = 5
"""Options of an anyOf past which unevaluated keywords don't tell apart which of them hold."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


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
        self._places = places
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

    def _meet_conj(self, shapes: Shapes, conj: Conj, notes: set[Note]) -> Shapes:
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
            notes.add(_crowded(self._places[atom[0]]))
            return self._unknown(shapes)
        except _BusyError:
            if self._outer:
                raise
            notes.add(_recursive(self._places[atom[0]]))
            return self._unknown(shapes)
        notes |= expansion.notes
        return shapes

    def _nesting(self) -> int:
        return len(self._active) + len(self._outer)

    def _unknown(self, shapes: Shapes) -> Shapes:
        """Return the shapes where something that holds was left out, and what it evaluates."""
        return _all_evaluated(shapes) if self._places.uses_unevaluated else shapes

    def _atom(self, atom: Atom) -> Expansion:
        found = self._atoms.get(atom)
        if found is not None:
            return found
        place = self._places[atom[0]]
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
            reader = Reader(place, self._places, notes, assert_formats=self._assert_formats)
            shapes = self._holding(reader, notes) if atom[1] else self._failing(reader, notes)
        finally:
            self._active.pop()
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
        return self._places[number].pointer

    def negation(self, conj: Conj) -> Conj:
        """Return the negation of at most one atom."""
        return self._places.negation(conj)

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

    # A schema that holds.

    def _holding(self, reader: Reader, notes: set[Note]) -> Shapes:
        shapes = keywords.of_types(reader, self)
        for values in keywords.of_values(reader):
            shapes = self._meet_values(shapes, values, reader)
        for keyword in _REFERENCES:
            if keyword in reader:
                target = self._places.referred(reader.place, keyword)
                shapes = self._meet_conj(shapes, target, notes)
        for conj in reader.schemas("allOf"):
            shapes = self._meet_conj(shapes, conj, notes)
        if "if" in reader:
            shapes = self._if(shapes, reader, notes)
        for conj in self._dependent(reader):
            shapes = self._meet_conj(shapes, conj, notes)
        if "anyOf" in reader:
            shapes = self._any_of(shapes, reader.schemas("anyOf"), notes, reader)
        if "oneOf" in reader:
            shapes = self._one_of(shapes, reader, notes)
        if "not" in reader:
            shapes = self._meet_conj(shapes, self._places.negation(reader.schema("not")), notes)
        if "unevaluatedItems" in reader or "unevaluatedProperties" in reader:
            shapes = self._unevaluated(shapes, reader)
        return shapes

    def _meet_values(self, shapes: Shapes, values: Shapes, reader: Reader) -> Shapes:
        try:
            return meet(shapes, values, self, self._budget.limits.alternatives)
        except _BusyError:
            if self._outer:
                raise
            reader.notes.add(_recursive(reader.place))
            return values

    def _if(self, shapes: Shapes, reader: Reader, notes: set[Note]) -> Shapes:
        condition = reader.schema("if")
        then = reader.schema("then") if "then" in reader else TRUE
        otherwise = reader.schema("else") if "else" in reader else TRUE
        if then == otherwise == TRUE and not self._places.uses_unevaluated:
            return shapes
        holding = self._meet_conj(self._meet_conj(shapes, condition, notes), then, notes)
        failing = self._meet_conj(shapes, self._places.negation(condition), notes)
        return join(holding, self._meet_conj(failing, otherwise, notes))

    def _dependent(self, reader: Reader) -> list[Conj]:
        """Return what dependentRequired and dependentSchemas say, as other schemas."""
        found: list[Conj] = []
        required = reader.place.keywords.get("dependentRequired", {})
        if not isinstance(required, dict):
            raise reader.malformed("dependentRequired", "dependentRequired is no object")
        for key, names in required.items():
            if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
                raise reader.malformed("dependentRequired", "its values are no lists of strings")
            if names:
                options = [{"properties": {key: False}}, {"required": [key, *names]}]
                made = {"anyOf": [{"type": _ALL_BUT_OBJECT}, *options]}
                found.append(self._places.made(reader.place, made, "dependentRequired"))
        for key, schema in reader.schema_map("dependentSchemas").items():
            if schema == TRUE:
                continue
            made = {
                "anyOf": [
                    {"type": _ALL_BUT_OBJECT},
                    {"properties": {key: False}},
                    {"type": "object", "required": [key], "allOf": [schema]},
                ]
            }
            found.append(self._places.made(reader.place, made, "dependentSchemas"))
        return found

    def _any_of(
        self, shapes: Shapes, options: list[Conj], notes: set[Note], reader: Reader
    ) -> Shapes:
        found = [self._meet_conj(shapes, conj, notes) for conj in options]
        if not self._places.uses_unevaluated or len(options) < 2:
            return join(*found)
        if len(options) > MAX_SUBSETS:
            reader.note(
                "unevaluated-any-of", "anyOf", "which options hold is not told apart",
                f"use at most {MAX_SUBSETS} options beside unevaluated keywords",
            )  # fmt: skip
            return _all_evaluated(join(*found))
        for size in range(2, len(options) + 1):
            for chosen in combinations(options, size):
                part = shapes
                for conj in chosen:
                    part = self._meet_conj(part, conj, notes)
                found.append(part)
        return join(*found)

    def _one_of(self, shapes: Shapes, reader: Reader, notes: set[Note]) -> Shapes:
        options = reader.schemas("oneOf")
        parts = [self._meet_conj(shapes, conj, notes) for conj in options]
        found: list[Shapes] = []
        for at, part in enumerate(parts):
            alone = part
            for other, conj in enumerate(options):
                if other == at or not parts[other] or not alone:
                    continue
                alone = self._without(alone, conj, reader, notes)
            found.append(alone)
        return join(*found)

    def _without(self, shapes: Shapes, conj: Conj, reader: Reader, notes: set[Note]) -> Shapes:
        """Return the shapes without what another option of a oneOf has."""
        if conj == TRUE:
            return {}
        negation = self._places.negation(conj)
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

    def _unevaluated(self, shapes: Shapes, reader: Reader) -> Shapes:
        rest = reader.schema("unevaluatedItems") if "unevaluatedItems" in reader else None
        if rest is not None:
            found: list[Arrays | Some] = []
            for shape in shapes.get("array", ()):
                assert isinstance(shape, Arrays | Some)
                if isinstance(shape, Some) or shape.evaluated == SOME_ITEMS:
                    if rest != TRUE:
                        self._note_unevaluated(reader, "unevaluatedItems")
                    found.append(shape)
                    continue
                after = self._rest_of(shape, rest)
                if after is not None:
                    found.append(replace(after, evaluated=ALL_ITEMS))
            shapes = {**shapes, "array": tuple(found)}
        others = "unevaluatedProperties"
        if others not in reader:
            return join(shapes)
        conj = reader.schema(others)
        objects: list[Objects | Some] = []
        for each in shapes.get("object", ()):
            assert isinstance(each, Objects | Some)
            if isinstance(each, Some):
                if conj != TRUE:
                    self._note_unevaluated(reader, others)
                objects.append(each)
                continue
            rules = each.rules
            if not each.seen.everything and conj != TRUE:
                rules |= {(Others(each.seen.keys, each.seen.patterns), conj)}
            objects.append(replace(each, rules=rules, seen=Seen(everything=True)))
        return join({**shapes, "object": tuple(objects)})

    def _rest_of(self, arrays: Arrays, rest: Conj) -> Arrays | None:
        """Return the arrays whose items that are not evaluated are `rest` too."""
        if arrays.evaluated == ALL_ITEMS:
            return arrays
        size = max(len(arrays.prefix), arrays.evaluated)
        prefix = tuple(
            arrays.item(at) if at < arrays.evaluated else both(arrays.item(at), rest)
            for at in range(size)
        )
        return settled(replace(arrays, prefix=prefix, rest=both(arrays.rest, rest)), self)

    def _note_unevaluated(self, reader: Reader, keyword: str) -> None:
        reader.note(
            "unevaluated", keyword, "what is evaluated can't be told here",
            "list the properties or items, and use additionalProperties or items",
        )  # fmt: skip

    # A schema that doesn't hold.

    def _failing(self, reader: Reader, notes: set[Note]) -> Shapes:
        found, conjs = negation.negated(reader)
        negation_of = self._places.negation
        for keyword in _REFERENCES:
            if keyword in reader:
                conjs.append(negation_of(self._places.referred(reader.place, keyword)))
        conjs += map(negation_of, reader.schemas("allOf"))
        conjs += map(negation_of, self._dependent(reader))
        if "not" in reader:
            conjs.append(reader.schema("not"))
        found += [self._meet_conj(EVERYTHING, conj, notes) for conj in conjs]
        if "anyOf" in reader:
            found.append(self._none_of(reader.schemas("anyOf"), notes))
        if "oneOf" in reader:
            options = reader.schemas("oneOf")
            found.append(self._none_of(options, notes))
            for one, other in combinations(options, 2):
                found.append(self._all_of((one, other), notes))
        if "if" in reader:
            condition = reader.schema("if")
            for holding, keyword in ((True, "then"), (False, "else")):
                if keyword in reader:
                    first = condition if holding else negation_of(condition)
                    refused = negation_of(reader.schema(keyword))
                    found.append(self._all_of((first, refused), notes))
        # A schema that fails evaluates nothing, whatever holds for it to fail.
        shapes = join(*found)
        return _evaluated(shapes, 0, Seen()) if self._places.uses_unevaluated else shapes

    def _all_of(self, conjs: Iterable[Conj], notes: set[Note]) -> Shapes:
        shapes: Shapes = EVERYTHING
        for conj in conjs:
            shapes = self._meet_conj(shapes, conj, notes)
        return shapes

    def _none_of(self, options: list[Conj], notes: set[Note]) -> Shapes:
        return self._all_of(map(self._places.negation, options), notes)


_ALL_BUT_OBJECT: Final = [kind for kind in TYPES if kind != "object"]


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


def _all_evaluated(shapes: Shapes) -> Shapes:
    """Return the shapes with nothing left to unevaluated keywords."""
    return _evaluated(shapes, ALL_ITEMS, Seen(everything=True))


def _evaluated(shapes: Shapes, items: int, seen: Seen) -> Shapes:
    """Return the shapes with this as what was evaluated."""
    out = dict(shapes)
    out["array"] = tuple(
        replace(each, evaluated=items) if isinstance(each, Arrays) else each
        for each in shapes.get("array", ())
    )
    out["object"] = tuple(
        replace(each, seen=seen) if isinstance(each, Objects) else each
        for each in shapes.get("object", ())
    )
    return join(out)
