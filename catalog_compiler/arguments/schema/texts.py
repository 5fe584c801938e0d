"""Automata of strings, keys and numbers, from what shapes say of them.

Owns the calls to `automata`. Never reads a schema.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from typing import TYPE_CHECKING

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.automaton import MAX_CODE_POINT, Automaton
from catalog_compiler.arguments.nodes import Text
from catalog_compiler.arguments.values import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from catalog_compiler.arguments.schema.shapes import Numbers, Strings, Test
    from catalog_compiler.arguments.values import Literal

EMPTY = Automaton((0,), (0,), (), ())


@lru_cache(maxsize=4096)
def matching(tests: frozenset[Test]) -> Automaton | None:
    """Return what passes all tests, None where there are none. Raises PatternError."""
    parts = [_one(test) for test in sorted(tests)]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else automata.intersect(*parts)


def _one(test: Test) -> Automaton:
    if test.kind == "pattern":
        found: Automaton | None = automata.pattern(test.source)
    else:
        found = automata.string_format(test.source)
    assert found is not None
    return found if test.holds else automata.complement(found)


@lru_cache(maxsize=4096)
def all_but(keys: frozenset[str]) -> Automaton:
    """Return every string but these: a trie in which what leaves it is accepted."""
    if not keys:
        return automata.any_string()
    letters = sorted({ord(character) for key in keys for character in key})
    starts, classes, class_of = [0], [0], {}
    for number, letter in enumerate(letters, start=1):
        if starts[-1] == letter:
            classes[-1] = number
        else:
            starts.append(letter)
            classes.append(number)
        if letter < MAX_CODE_POINT:
            starts.append(letter + 1)
            classes.append(0)
        class_of[letter] = number
    width = len(letters) + 1
    table: list[list[int]] = [[1] * width, [1] * width]
    accepts = [0, 0]
    for key in sorted(keys):
        state = 0
        for character in key:
            column = class_of[ord(character)]
            following = table[state][column]
            if following == 1:
                following = table[state][column] = len(table)
                table.append([1] * width)
                accepts.append(0)
            state = following
        accepts[state] = -1
    return Automaton(tuple(starts), tuple(classes), tuple(map(tuple, table)), tuple(accepts))


def relabelled(automaton: Automaton, label: Callable[[int], int]) -> Automaton:
    """Return the automaton with other labels; -1 accepts no more. Trimmed, not minimal."""
    accepts = [label(each) if each >= 0 else -1 for each in automaton.accepts]
    if tuple(accepts) == automaton.accepts:
        return automaton
    before: list[set[int]] = [set() for _ in accepts]
    for state, row in enumerate(automaton.table):
        for following in row:
            if following >= 0:
                before[following].add(state)
    alive = {state for state, each in enumerate(accepts) if each >= 0}
    queue = list(alive)
    while queue:
        for earlier in before[queue.pop()] - alive:
            alive.add(earlier)
            queue.append(earlier)
    if 0 not in alive:
        return EMPTY
    numbers, order = {0: 0}, [0]
    for state in order:
        for following in automaton.table[state]:
            if following in alive and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
    table = tuple(
        tuple(numbers.get(following, -1) for following in automaton.table[state]) for state in order
    )
    return Automaton(
        automaton.starts, automaton.classes, table, tuple(accepts[state] for state in order)
    )


def count_texts(automaton: Automaton, enough: int) -> int:
    """Return how many texts are accepted, or `enough` where there are at least as many."""
    if automaton.empty or enough <= 0:
        return 0
    sizes = [0] * (max(automaton.classes) + 1)
    for interval, each in enumerate(automaton.classes):
        end = [*automaton.starts[1:], MAX_CODE_POINT + 1][interval]
        sizes[each] += end - automaton.starts[interval]
    ways, found = {0: 1}, 0
    # Without a cycle no text is longer than there are states; with one there are enough.
    for _ in range(len(automaton.table)):
        found += sum(number for state, number in ways.items() if automaton.accepts[state] >= 0)
        if found >= enough:
            return enough
        after: dict[int, int] = {}
        for state, number in ways.items():
            for column, following in enumerate(automaton.table[state]):
                if following >= 0:
                    after[following] = min(after.get(following, 0) + number * sizes[column], enough)
        ways = after
        if not ways:
            return found
    return enough


def lcm_of(units: Iterable[Decimal]) -> Decimal | None:
    """Return the smallest number that is a multiple of all, exactly; None of none."""
    fractions = [abs(_fraction(unit)) for unit in units]
    if not fractions:
        return None
    found = fractions[0]
    for each in fractions[1:]:
        found = Fraction(
            lcm(found.numerator, each.numerator), gcd(found.denominator, each.denominator)
        )
    exponent = 0
    while found.denominator != 1:
        found, exponent = found * 10, exponent - 1
    return Decimal((0, tuple(map(int, str(found.numerator))), exponent))


def _fraction(number: Decimal) -> Fraction:
    coefficient, exponent = scaled(number)
    return Fraction(coefficient) * Fraction(10) ** exponent


@lru_cache(maxsize=4096)
def of_numbers(numbers: Numbers) -> Automaton:
    """Return the texts of the numbers. Raises PatternError where they are too many to tell."""
    found = automata.number(
        minimum=numbers.minimum, exclusive_minimum=numbers.above,
        maximum=numbers.maximum, exclusive_maximum=numbers.below,
        multiple_of=lcm_of(numbers.multiples), integer=numbers.whole,
        exclude=tuple(decimal_of(each) for each in numbers.without),
    )  # fmt: skip
    if numbers.broken:
        found = automata.intersect(found, automata.pattern(r"^[^eE]*\.[0-9]*[1-9][0-9]*$"))
    for unit in sorted(numbers.unmultiples):
        multiple = automata.number(multiple_of=unit, integer=False)
        plain = automata.intersect(found, automata.pattern("^[^eE]*$"))
        found = automata.intersect(plain, automata.complement(multiple))
    return found


def decimal_of(each: Literal) -> Decimal:
    """Return a number among literals."""
    coefficient, exponent = scaled(each.value)
    digits = tuple(map(int, str(abs(coefficient))))
    return Decimal((int(coefficient < 0), digits, exponent))


def folded(strings: Strings) -> Automaton:
    """Return the strings as one automaton, bounds and all. Raises PatternError."""
    found = matching(strings.tests)
    if strings.without:
        left = all_but(strings.without)
        found = left if found is None else automata.intersect(found, left)
    if strings.low or strings.high is not None:
        bounds = automata.length(strings.low, strings.high)
        found = bounds if found is None else automata.intersect(found, bounds)
    return automata.any_string() if found is None else found


@lru_cache(maxsize=4096)
def of_strings(strings: Strings) -> Text | None:
    """Return the node of some strings, None where there are none. Raises PatternError."""
    if not strings.tests and not strings.without:
        return Text(None, strings.low, strings.high)
    found = folded(strings)
    return None if found.empty else Text(found)
