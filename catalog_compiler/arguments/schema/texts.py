"""Automata of strings, keys and numbers, from what shapes say of them.

Owns the calls to `automata`. Never reads a schema.
"""

from __future__ import annotations

from bisect import bisect_right
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
    from collections.abc import Callable, Iterable, Sequence

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
    """Return every string but these."""
    return without(automata.any_string(), keys)


def without(base: Automaton, keys: frozenset[str]) -> Automaton:
    """Return what is accepted, without these: a trie whose states stand for those of the base."""
    if not keys or base.empty:
        return base
    letters = sorted({ord(character) for key in keys for character in key})
    edges = sorted({*base.starts, *letters, *(letter + 1 for letter in letters)})
    column_of = {letter: column for column, letter in enumerate(letters)}
    columns: dict[tuple[int, int], int] = {}
    starts: list[int] = []
    classes: list[int] = []
    for edge in edges:
        if edge > MAX_CODE_POINT:
            break
        base_class = base.classes[bisect_right(base.starts, edge) - 1]
        letter = column_of.get(edge, -1)
        number = columns.setdefault((base_class, letter), len(columns))
        if not classes or classes[-1] != number:
            starts.append(edge)
            classes.append(number)
    of_letter = {letters[letter]: column for (_, letter), column in columns.items() if letter >= 0}
    wide = [[row[base_class] for base_class, _ in columns] for row in base.table]
    # The base's states keep their numbers; those of the trie come after them.
    table, accepts = list(wide), list(base.accepts)
    first = len(base.table)
    table.append(list(wide[0]))
    accepts.append(base.accepts[0])
    for key in sorted(keys):
        state = first
        for character in key:
            column = of_letter[ord(character)]
            following = table[state][column]
            if following < 0:
                break
            if following < first:
                table[state][column] = len(table)
                table.append(list(wide[following]))
                accepts.append(base.accepts[following])
                following = len(table) - 1
            state = following
        else:
            accepts[state] = -1
    return _trimmed(starts, classes, table, accepts, first)


def relabelled(automaton: Automaton, label: Callable[[int], int]) -> Automaton:
    """Return the automaton with other labels; -1 accepts no more. Trimmed, not minimal."""
    accepts = [label(each) if each >= 0 else -1 for each in automaton.accepts]
    if tuple(accepts) == automaton.accepts:
        return automaton
    return _trimmed(automaton.starts, automaton.classes, automaton.table, accepts, 0)


def _trimmed(
    starts: Sequence[int],
    classes: Sequence[int],
    table: Sequence[Sequence[int]],
    accepts: Sequence[int],
    first: int,
) -> Automaton:
    """Return the automaton that starts at a state, with the states that matter."""
    before: list[set[int]] = [set() for _ in accepts]
    for state, row in enumerate(table):
        for following in set(row):
            if following >= 0:
                before[following].add(state)
    alive = {state for state, each in enumerate(accepts) if each >= 0}
    queue = list(alive)
    while queue:
        for earlier in before[queue.pop()] - alive:
            alive.add(earlier)
            queue.append(earlier)
    if first not in alive:
        return EMPTY
    numbers, order = {first: 0}, [first]
    for state in order:
        for following in table[state]:
            if following in alive and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
    rows = tuple(tuple(numbers.get(following, -1) for following in table[state]) for state in order)
    return Automaton(tuple(starts), tuple(classes), rows, tuple(accepts[state] for state in order))


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
        found = without(automata.any_string() if found is None else found, strings.without)
    if strings.low or strings.high is not None:
        bounds = automata.length(strings.low, strings.high)
        found = bounds if found is None else automata.intersect(found, bounds)
    return automata.any_string() if found is None else found


@lru_cache(maxsize=4096)
def of_strings(strings: Strings) -> Text | None:
    """Return the node of some strings, None where there are none. Raises PatternError."""
    found = matching(strings.tests)
    if strings.without:
        found = without(automata.any_string() if found is None else found, strings.without)
    automaton, low, high = automata.bounded(found, strings.low, strings.high)
    return None if automaton is not None and automaton.empty else Text(automaton, low, high)
