"""From shapes to parts of a grammar, one group of parts for each conjunction that is reached.

Owns what a part is before anyone knows whether it accepts something (`prune`). Never reads a
keyword.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.nodes import DistinctLiterals, Literals, Number, Text
from catalog_compiler.arguments.schema import contains, held, texts
from catalog_compiler.arguments.schema.free_keys import free_keys
from catalog_compiler.arguments.schema.holding import member
from catalog_compiler.arguments.schema.result import Note, too_large
from catalog_compiler.arguments.schema.shapes import Arrays, Numbers, Objects, Some, Strings
from catalog_compiler.arguments.values import Literal, spell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_compiler.arguments.automaton import Automaton
    from catalog_compiler.arguments.schema.expand import Expander
    from catalog_compiler.arguments.schema.places import Conj
    from catalog_compiler.arguments.schema.result import Budget

MAX_MEMBERS: Final = 1 << 20
"""What an object is asked for at most: keys are not counted further, and nobody writes so many."""
MAX_DISTINCT: Final = 64
"""Literals of an array without repetitions (`nodes.DistinctLiterals`)."""


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """As `nodes.Array`, with conjunctions for nodes."""

    prefix: tuple[Conj, ...]
    rest: Conj
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """As `nodes.Object`, with conjunctions for nodes."""

    properties: tuple[tuple[str, Conj, bool], ...]
    keys: Automaton | None
    values: tuple[Conj, ...]
    low: int
    high: int | None


Leaf: TypeAlias = Literals | Text | Number | DistinctLiterals
Part: TypeAlias = Leaf | ArrayPart | ObjectPart


class Builder:
    """Makes the parts of every conjunction that a root reaches."""

    def __init__(self, expander: Expander, budget: Budget) -> None:
        self._expander = expander
        self._budget = budget
        self._states = 0
        self._counted: set[int] = set()
        self.notes: set[Note] = set()
        self.groups: dict[Conj, tuple[Part, ...]] = {}

    def build(self, root: Conj) -> None:
        """Fill `groups` and `notes`."""
        waiting = [root]
        parts = 0
        while waiting:
            conj = waiting.pop()
            if conj in self.groups:
                continue
            self._budget.spend(10)
            group = self.groups[conj] = self._group(conj)
            parts += len(group)
            if parts > self._budget.limits.nodes:
                raise too_large(f"its grammar has more than {self._budget.limits.nodes} parts")
            for part in group:
                waiting.extend(each for each in below(part) if each not in self.groups)
        self.notes |= self._expander.asked

    def _group(self, conj: Conj) -> tuple[Part, ...]:
        expansion = self._expander.expand(conj)
        self.notes |= expansion.notes
        parts: dict[Part, None] = {}
        literals: set[Literal] = set()
        where = _pointer(self._expander, conj)
        for shapes in expansion.shapes.values():
            for shape in shapes:
                match shape:
                    case Some():
                        literals |= shape.literals
                    case Strings():
                        made: Iterable[Part] = self._text(shape, where)
                    case Numbers():
                        made = self._number(shape, where)
                    case Arrays():
                        made = self._arrays(shape)
                    case Objects():
                        made = self._objects(shape, where)
                if not isinstance(shape, Some):
                    parts.update(dict.fromkeys(made))
        spelt = spell_all(literals)
        return (*((Literals(spelt),) if spelt else ()), *parts)

    def _count(self, automaton: Automaton | None) -> None:
        if automaton is None or id(automaton) in self._counted:
            return
        self._counted.add(id(automaton))
        self._states += len(automaton.table)
        self._budget.spend(len(automaton.table) // 10)
        if self._states > self._budget.limits.states:
            raise too_large(f"its automata have more than {self._budget.limits.states} states")

    def _text(self, strings: Strings, where: str) -> list[Part]:
        try:
            found = texts.of_strings(strings)
        except automata.PatternError as error:
            self.notes.add(_too_many("string-too-complex", where, error))
            found = self._without_bounds(strings)
        if found is None:
            return []
        self._count(found.automaton)
        return [found]

    def _without_bounds(self, strings: Strings) -> Text | None:
        """Return more strings than these: without bounds on their lengths, or with nothing else."""
        try:
            return texts.of_strings(replace(strings, low=0, high=None))
        except automata.PatternError:
            return Text(None, strings.low, strings.high)

    def _number(self, numbers: Numbers, where: str) -> list[Part]:
        try:
            found = texts.of_numbers(numbers)
        except automata.PatternError as error:
            self.notes.add(_too_many("number-too-complex", where, error))
            found = texts.of_numbers(Numbers(whole=numbers.whole))
        self._count(found)
        return [] if found.empty else [Number(found)]

    def _arrays(self, arrays: Arrays) -> list[Part]:
        left = contains.without_contained(arrays, self._expander, self.notes)
        return [part for each in left for part in self._array(each)]

    def _array(self, arrays: Arrays) -> list[Part]:
        if arrays.unique is not None and (arrays.high is None or arrays.high > 1):
            distinct = self._distinct(arrays)
            if distinct is not None:
                return list(distinct)
            self.notes.add(
                Note(
                    "unique-items",
                    arrays.unique,
                    "that no item comes twice is not enforced",
                    f"give the items an enum of at most {MAX_DISTINCT} values",
                )
            )
        if arrays.repeated is not None:
            self.notes.add(
                Note(
                    "not-unique",
                    arrays.repeated,
                    "that some item comes twice is not enforced",
                    "say what is allowed instead of what is not",
                )
            )
        return [ArrayPart(arrays.prefix, arrays.rest, arrays.low, arrays.high)]

    def _distinct(self, arrays: Arrays) -> tuple[Part, ...] | None:
        """Return an array of distinct literals, or None where its items are not a few literals."""
        if arrays.prefix:
            return None
        shapes = self._expander.expand(arrays.rest).shapes
        literals: set[Literal] = set()
        for kind in shapes.values():
            for shape in kind:
                if not isinstance(shape, Some):
                    return None
                literals |= shape.literals
        spelt = spell_all(literals)
        if len(spelt) > MAX_DISTINCT:
            return None
        self.notes |= self._expander.expand(arrays.rest).notes
        high = len(spelt) if arrays.high is None else min(arrays.high, len(spelt))
        if arrays.low > high:
            return ()
        if not spelt:
            return (ArrayPart((), arrays.rest, 0, 0),)
        return (DistinctLiterals(spelt, arrays.low, high),)

    def _objects(self, objects: Objects, where: str) -> list[Part]:
        try:
            left = held.without_held(objects, self._expander, self.notes)
        except automata.PatternError as error:
            self.notes.add(_too_many("keys-too-complex", where, error))
            left = [replace(objects, held=frozenset())]
        return [part for each in left for part in self._object(each, where)]

    def _object(self, objects: Objects, where: str) -> list[Part]:
        declared = dict.fromkeys((*(key for key, _ in objects.members), *objects.required))
        required = frozenset(objects.required)
        rules = bool(objects.rules)
        members = dict(objects.members)
        properties = tuple(
            (
                key,
                member(objects, key, self._expander) if rules else members.get(key, frozenset()),
                key in required,
            )
            for key in declared
        )
        try:
            keys, values = free_keys(objects, frozenset(declared), self._expander, self.notes)
        except automata.PatternError as error:
            self.notes.add(_too_many("keys-too-complex", where, error))
            keys, values = texts.all_but(frozenset(declared)), (frozenset(),)
        if objects.declares and not objects.speaks and objects.low <= len(properties):
            keys, values = None, ()
        self._count(keys)
        low = min(objects.low, MAX_MEMBERS)
        return [ObjectPart(properties, keys, values, low, objects.high)]


def spell_all(literals: Iterable[Literal]) -> tuple[bytes, ...]:
    """Return the literals' texts, sorted; those that no text can have are left out."""
    found = []
    for each in literals:
        try:
            found.append(spell(each.value))
        except UnicodeEncodeError:
            continue
    return tuple(sorted(found))


def below(part: Part) -> Iterable[Conj]:
    """Return what the part refers to."""
    if isinstance(part, ArrayPart):
        return (*part.prefix, *(() if part.high is not None and part.high <= len(part.prefix)
                                else (part.rest,)))  # fmt: skip
    if isinstance(part, ObjectPart):
        return (*(conj for _, conj, _ in part.properties), *part.values)
    return ()


def _pointer(expander: Expander, conj: Conj) -> str:
    numbers = [number for number, _ in conj if number]
    return expander.pointer(min(numbers)) if numbers else ""


def _too_many(code: str, where: str, error: automata.PatternError) -> Note:
    return Note(code, where, str(error), "use simpler patterns, bounds or fewer of them together")
