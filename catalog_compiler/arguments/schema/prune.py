"""From parts to the nodes of a grammar: what accepts nothing goes, what is equal is one.

Owns the invariants that `nodes` states. Never reads a schema.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_compiler.arguments.nodes import (
    ArgumentGrammar,
    Array,
    Node,
    Object,
    Property,
    Union,
)  # fmt: skip
from catalog_compiler.arguments.schema import texts
from catalog_compiler.arguments.schema.build import ArrayPart, ObjectPart, below
from catalog_compiler.arguments.values import spell

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from catalog_compiler.arguments.automaton import Automaton
    from catalog_compiler.arguments.schema.build import Part
    from catalog_compiler.arguments.schema.places import Conj


def grammar_of(groups: Mapping[Conj, tuple[Part, ...]], root: Conj) -> ArgumentGrammar | None:
    """Return the grammar, or None where the root accepts no finite value."""
    alive = _alive(groups)
    if root not in alive:
        return None
    interned: dict[Part, Part] = {}
    kept = {
        conj: tuple(
            interned.setdefault(trimmed, trimmed)
            for trimmed in (
                _trimmed(part, alive) for part in groups[conj] if _is_possible(part, alive)
            )
        )
        for conj in groups
        if conj in alive
    }
    return _numbered(kept, root)


def _alive(groups: Mapping[Conj, tuple[Part, ...]]) -> set[Conj]:
    """Return the conjunctions that accept some finite value: the least fixed point."""
    above: dict[Conj, set[Conj]] = {}
    for conj, parts in groups.items():
        for part in parts:
            for each in below(part):
                above.setdefault(each, set()).add(conj)
    alive: set[Conj] = set()
    waiting = dict.fromkeys(groups)
    while waiting:
        conj, _ = waiting.popitem()
        if conj not in alive and any(_is_possible(part, alive) for part in groups[conj]):
            alive.add(conj)
            waiting.update(dict.fromkeys(above.get(conj, ())))
    return alive


def _is_possible(part: Part, alive: set[Conj]) -> bool:
    if isinstance(part, ArrayPart):
        items = (*part.prefix[: part.low], *((part.rest,) if part.low > len(part.prefix) else ()))
        return all(conj in alive for conj in items)
    if isinstance(part, ObjectPart):
        if not all(
            conj in alive and _can_be_spelt(key) for key, conj, required in part.properties
            if required
        ):  # fmt: skip
            return False
        return part.low == 0 or _most_members(part, alive, part.low) >= part.low
    return True


def _most_members(part: ObjectPart, alive: set[Conj], enough: int) -> int:
    """Return how many members an object may have, or `enough`."""
    declared = sum(conj in alive and _can_be_spelt(key) for key, conj, _ in part.properties)
    if declared >= enough or part.keys is None:
        return min(declared, enough)
    keys = texts.relabelled(part.keys, lambda each: each if part.values[each] in alive else -1)
    return declared + texts.count_texts(keys, enough - declared)


def _can_be_spelt(key: str) -> bool:
    try:
        spell(key)
    except UnicodeEncodeError:
        return False
    return True


def _trimmed(part: Part, alive: set[Conj]) -> Part:
    """Return a possible part without what never comes."""
    if isinstance(part, ArrayPart):
        high = part.high
        for position, conj in enumerate((*part.prefix, part.rest)):
            if conj not in alive and (high is None or position < high):
                high = position
                break
        return replace(part, prefix=part.prefix[:high], high=high)
    if not isinstance(part, ObjectPart):
        return part
    full = part.high is not None and part.high <= sum(each[2] for each in part.properties)
    properties = tuple(
        (key, conj, required)
        for key, conj, required in part.properties
        if required or (not full and conj in alive and _can_be_spelt(key))
    )
    keys, values = (None, ()) if full else _trimmed_keys(part, alive)
    return replace(part, properties=properties, keys=keys, values=values)


def _trimmed_keys(part: ObjectPart, alive: set[Conj]) -> tuple[Automaton | None, tuple[Conj, ...]]:
    if part.keys is None:
        return None, ()
    kept = [label for label, conj in enumerate(part.values) if conj in alive]
    numbers = {label: number for number, label in enumerate(kept)}
    keys = texts.relabelled(part.keys, lambda label: numbers.get(label, -1))
    if keys.empty:
        return None, ()
    return keys, tuple(part.values[label] for label in kept)


def _numbered(kept: dict[Conj, tuple[Part, ...]], root: Conj) -> ArgumentGrammar:
    """Return the nodes, equal ones once, in the order in which the root reaches them."""
    classes = _classes(kept)
    nodes: list[Node | None] = []
    numbers: dict[Hashable, int] = {}
    waiting: list[tuple[int, Conj, Part | None]] = []

    def of_conj(conj: Conj) -> int:
        parts = _distinct(kept[conj], classes)
        if len(parts) == 1:
            return of_part(conj, parts[0])
        return number_of(("union", classes[conj]), conj, None)

    def of_part(conj: Conj, part: Part) -> int:
        return number_of(_signature(part, classes), conj, part)

    def number_of(key: Hashable, conj: Conj, part: Part | None) -> int:
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(nodes)
            nodes.append(None)
            waiting.append((number, conj, part))
        return number

    start = of_conj(root)
    while waiting:
        number, conj, part = waiting.pop(0)
        if part is None:
            options = (of_part(conj, each) for each in _distinct(kept[conj], classes))
            nodes[number] = Union(tuple(options))
        elif isinstance(part, ArrayPart):
            rest = None if part.high is not None and part.high <= len(part.prefix) else part.rest
            nodes[number] = Array(
                tuple(map(of_conj, part.prefix)), None if rest is None else of_conj(rest),
                part.low, part.high,
            )  # fmt: skip
        elif isinstance(part, ObjectPart):
            nodes[number] = Object(
                tuple(Property(key, of_conj(each), need) for key, each, need in part.properties),
                part.keys, tuple(map(of_conj, part.values)), part.low, part.high,
            )  # fmt: skip
        else:
            nodes[number] = part
    return ArgumentGrammar(tuple(node for node in nodes if node is not None), start)


def _distinct(parts: tuple[Part, ...], classes: Mapping[Conj, int]) -> list[Part]:
    return list({_signature(part, classes): part for part in parts}.values())


def _classes(kept: dict[Conj, tuple[Part, ...]]) -> dict[Conj, int]:
    """Return for each conjunction the number of its class: those of a class accept the same."""
    classes = dict.fromkeys(kept, 0)
    count = 1
    while True:
        seen: dict[Hashable, int] = {}
        refined = {}
        for conj, parts in kept.items():
            key = (classes[conj], frozenset(_signature(part, classes) for part in parts))
            refined[conj] = seen.setdefault(key, len(seen))
        classes = refined
        if len(seen) == count:
            return classes
        count = len(seen)


def _signature(part: Part, classes: Mapping[Conj, int]) -> Hashable:
    if isinstance(part, ArrayPart):
        rest = None if part.high is not None and part.high <= len(part.prefix) else part.rest
        below_rest = None if rest is None else classes[rest]
        return ("array", tuple(classes[each] for each in part.prefix), below_rest,
                part.low, part.high)  # fmt: skip
    if isinstance(part, ObjectPart):
        properties = tuple((key, classes[conj], need) for key, conj, need in part.properties)
        values = tuple(classes[conj] for conj in part.values)
        return ("object", properties, id(part.keys), values, part.low, part.high)
    return id(part)  # interned
