"""Whether a value is in a shape.

Owns the answer, exactly as far as the shapes of subschemas are exact. Never intersects shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.schema import texts
from catalog_compiler.arguments.schema.places import TRUE, Conj, both
from catalog_compiler.arguments.schema.shapes import (
    Arrays,
    Matching,
    Numbers,
    Objects,
    Others,
    Some,
    Strings,
    Test,
)
from catalog_compiler.arguments.values import (
    Json,
    decimal,
    freeze,
    is_multiple,
    is_whole,
    literal,
)

if TYPE_CHECKING:
    from catalog_compiler.arguments.schema.shapes import Held, Keys, Shape


class Oracle(Protocol):
    """What an intersection asks about subschemas."""

    def spend(self, steps: int) -> None:
        """Take steps from the budget."""

    def is_empty(self, conj: Conj) -> bool:
        """Tell whether no value is in it; False where that isn't known."""

    def holds(self, conj: Conj, value: Json) -> bool:
        """Tell whether a value is in it."""


def member(objects: Objects, key: str, oracle: Oracle) -> Conj:
    """Return what the value of a key is."""
    found = TRUE
    for each, conj in objects.members:
        if each == key:
            found = conj
            break
    for keys, conj in objects.rules:
        if conj != TRUE and has_key(keys, key, oracle):
            found = both(found, conj)
    return found


def has_key(keys: Keys, key: str, oracle: Oracle) -> bool:
    """Tell whether a key is of a kind."""
    if isinstance(keys, Matching):
        return automata.pattern(keys.pattern).accepts_text(key)
    if isinstance(keys, Others):
        return key not in keys.keys and not any(
            automata.pattern(pattern).accepts_text(key) for pattern in keys.patterns
        )
    return not oracle.holds(keys.names, key)


def holds(shape: Shape, value: Json, oracle: Oracle) -> bool:
    """Tell whether a value of the shape's type is in it."""
    oracle.spend(1)
    if isinstance(shape, Some):
        return literal(value) in shape.literals
    if isinstance(shape, Strings):
        return (
            shape.low <= len(value)
            and (shape.high is None or len(value) <= shape.high)
            and value not in shape.without
            and all(passes(test, value) for test in shape.tests)
        )
    if isinstance(shape, Numbers):
        return _is_number(shape, value)
    if isinstance(shape, Arrays):
        return _is_array(shape, value, oracle)
    return (
        len(value) >= shape.low
        and (shape.high is None or len(value) <= shape.high)
        and all(key in value for key in shape.required)
        and all(_is_held(held, value, oracle) for held in shape.held)
        and all(oracle.holds(member(shape, key, oracle), each) for key, each in value.items())
    )


def passes(test: Test, text: str) -> bool:
    """Tell whether a string passes a test."""
    automaton = texts.matching(frozenset({Test(test.kind, test.source, holds=True)}))
    assert automaton is not None
    return automaton.accepts_text(text) == test.holds


def _is_number(numbers: Numbers, value: float) -> bool:
    number = decimal(value)
    return (
        (numbers.minimum is None or number >= numbers.minimum)
        and (numbers.above is None or number > numbers.above)
        and (numbers.maximum is None or number <= numbers.maximum)
        and (numbers.below is None or number < numbers.below)
        and not (numbers.whole and not is_whole(value))
        and not (numbers.broken and is_whole(value))
        and all(is_multiple(number, unit) for unit in numbers.multiples)
        and not any(is_multiple(number, unit) for unit in numbers.unmultiples)
        and literal(value) not in numbers.without
    )


def _is_array(arrays: Arrays, value: list[Json], oracle: Oracle) -> bool:
    if len(value) < arrays.low or (arrays.high is not None and len(value) > arrays.high):
        return False
    if arrays.unique is not None or arrays.repeated is not None:
        differing = len(set(map(freeze, value))) == len(value)
        if differing != (arrays.unique is not None):
            return False
    for each in arrays.contained:
        count = sum(oracle.holds(each.item, item) for item in value[each.start :])
        if count < each.low or (each.high is not None and count > each.high):
            return False
    return all(oracle.holds(arrays.item(at), item) for at, item in enumerate(value))


def _is_held(held: Held, value: dict[str, Json], oracle: Oracle) -> bool:
    return any(
        has_key(held.keys, key, oracle) and oracle.holds(held.value, each)
        for key, each in value.items()
    )
