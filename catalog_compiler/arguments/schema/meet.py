"""Intersection of shapes, and whether a value is in one.

Owns both, exactly but for one thing: an intersection that is empty may be found empty only later,
when its grammar is pruned. Never reads a keyword.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.schema import texts
from catalog_compiler.arguments.schema.holding import holds, member
from catalog_compiler.arguments.schema.places import FALSE, TRUE, Conj, both
from catalog_compiler.arguments.schema.shapes import (
    ANY,
    Arrays,
    Numbers,
    Objects,
    Seen,
    Shape,
    Shapes,
    Some,
    Strings,
    Test,
    join,
)  # fmt: skip
from catalog_compiler.arguments.values import (
    TYPES,
)  # fmt: skip

if TYPE_CHECKING:
    from decimal import Decimal

    from catalog_compiler.arguments.schema.holding import Oracle

_Bound = TypeVar("_Bound", int, "Decimal")


class CrowdedError(Exception):
    """The intersection has more alternatives than are kept."""


def meet(one: Shapes, other: Shapes, oracle: Oracle, most: int) -> Shapes:
    """Return what is in both. Raises CrowdedError past `most` alternatives of a type."""
    out: Shapes = {}
    for kind in TYPES:
        ours, theirs = one.get(kind, ()), other.get(kind, ())
        if not ours or not theirs:
            continue
        if ours == (ANY[kind],) or ours == theirs:
            out[kind] = theirs
            continue
        if theirs == (ANY[kind],):
            out[kind] = ours
            continue
        oracle.spend(len(ours) * len(theirs))
        found: dict[Shape, None] = {}
        # As many as one of the two already has are never too many.
        kept = max(most, len(ours), len(theirs))
        for left in ours:
            for right in theirs:
                shape = left if left == right else meet_two(left, right, oracle)
                if shape is not None:
                    found[shape] = None
                if len(found) > kept:
                    raise CrowdedError
        if found:
            out[kind] = tuple(found)
    return join(out)


def overlap(one: Shapes, other: Shapes, oracle: Oracle) -> bool:
    """Tell whether something is in both, as far as `meet` knows."""
    for kind, ours in one.items():
        for left in ours:
            for right in other.get(kind, ()):
                oracle.spend(1)
                if meet_two(left, right, oracle) is not None:
                    return True
    return False


def meet_two(one: Shape, other: Shape, oracle: Oracle) -> Shape | None:
    """Return what is in both shapes of one type, or None where that is nothing."""
    if isinstance(one, Some):
        if isinstance(other, Some):
            left = one.literals & other.literals
        else:
            left = frozenset(each for each in one.literals if holds(other, each.value, oracle))
        return Some(left) if left else None
    if isinstance(other, Some):
        return meet_two(other, one, oracle)
    if isinstance(one, Strings) and isinstance(other, Strings):
        return _strings(one, other)
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return _numbers(one, other)
    if isinstance(one, Arrays) and isinstance(other, Arrays):
        return _arrays(one, other, oracle)
    assert isinstance(one, Objects)
    assert isinstance(other, Objects)
    return _objects(one, other, oracle)


def _least(one: _Bound | None, other: _Bound | None) -> _Bound | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: _Bound | None, other: _Bound | None) -> _Bound | None:
    return other if one is None else one if other is None else max(one, other)


def _strings(one: Strings, other: Strings) -> Strings | None:
    found = Strings(
        one.tests | other.tests, max(one.low, other.low), _least(one.high, other.high),
        one.without | other.without,
    )  # fmt: skip
    if found.high is not None and found.low > found.high:
        return None
    if any(Test(each.kind, each.source, not each.holds) in found.tests for each in found.tests):
        return None
    if len(found.tests) > max(len(one.tests), len(other.tests)):
        try:
            automaton = texts.matching(found.tests)
        except automata.PatternError:
            return found
        if automaton is not None and automaton.empty:
            return None
    return found


def _numbers(one: Numbers, other: Numbers) -> Numbers | None:
    found = Numbers(
        _most(one.minimum, other.minimum), _most(one.above, other.above),
        _least(one.maximum, other.maximum), _least(one.below, other.below),
        one.whole or other.whole, one.broken or other.broken,
        one.multiples | other.multiples, one.unmultiples | other.unmultiples,
        one.without | other.without,
    )  # fmt: skip
    return None if is_void(found) else found


def is_void(numbers: Numbers) -> bool:
    """Tell whether the bounds contradict each other."""
    if (numbers.whole and numbers.broken) or numbers.multiples & numbers.unmultiples:
        return True
    for low, low_open in ((numbers.minimum, False), (numbers.above, True)):
        for high, high_open in ((numbers.maximum, False), (numbers.below, True)):
            if low is None or high is None:
                continue
            if low > high or (low == high and (low_open or high_open)):
                return True
    return False


def _arrays(one: Arrays, other: Arrays, oracle: Oracle) -> Arrays | None:
    length = max(len(one.prefix), len(other.prefix))
    oracle.spend(length)
    return settled(
        Arrays(
            tuple(both(one.item(each), other.item(each)) for each in range(length)),
            both(one.rest, other.rest),
            max(one.low, other.low),
            _least(one.high, other.high),
            one.unique if one.unique is not None else other.unique,
            one.repeated if one.repeated is not None else other.repeated,
            one.contained | other.contained,
            max(one.evaluated, other.evaluated),
        ),
        oracle,
    )


def settled(arrays: Arrays, oracle: Oracle) -> Arrays | None:
    """Return the arrays with their bound where no item is possible, or None where none is left."""
    high = arrays.high
    for position, conj in enumerate((*arrays.prefix, arrays.rest)):
        if high is not None and position >= high:
            break
        needed = position < arrays.low
        if conj == FALSE or (needed and oracle.is_empty(conj)):
            high = position
            break
    if high is not None and arrays.low > high:
        return None
    if arrays.unique is not None and arrays.repeated is not None:
        return None
    if high == arrays.high:
        return arrays
    return replace(arrays, prefix=arrays.prefix[:high], high=high)


def _objects(one: Objects, other: Objects, oracle: Oracle) -> Objects | None:
    members = dict(one.members)
    oracle.spend(len(other.members) // 4 + 1)
    for key, conj in other.members:
        members[key] = both(members[key], conj) if key in members else conj
    found = Objects(
        tuple(members.items()),
        tuple(dict.fromkeys((*one.required, *other.required))),
        one.rules | other.rules,
        max(one.low, other.low),
        _least(one.high, other.high),
        one.held | other.held,
        Seen(
            one.seen.keys | other.seen.keys, one.seen.patterns | other.seen.patterns,
            one.seen.everything or other.seen.everything,
        ),
        one.declares or other.declares,
        one.speaks or other.speaks,
    )  # fmt: skip
    if found.high is not None and max(found.low, len(found.required)) > found.high:
        return None
    # Only what neither side asks alone can be impossible now.
    for key in found.required:
        conj = member(found, key, oracle)
        if conj == FALSE or (
            conj not in (TRUE, _alone(one, key), _alone(other, key)) and oracle.is_empty(conj)
        ):
            return None
    return found


def _alone(objects: Objects, key: str) -> Conj | None:
    """Return what a required member is where no rule speaks of it, else None: not known."""
    if objects.rules or key not in objects.required:
        return None
    return dict(objects.members).get(key, TRUE)
