"""Raw automata made canonical: trimmed, minimal, numbered breadth first.

Owns the form in which equal languages give equal `Automaton` values.
Source: J. Hopcroft, An n log n algorithm for minimizing states in a finite automaton, 1971.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_compiler.arguments.automaton import Automaton

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY = Automaton((0,), (0,), (), ())
"""Accepts nothing."""


@dataclass(frozen=True, slots=True)
class RawAutomaton:
    """An automaton in any form; attributes as in `Automaton`, state 0 the start."""

    starts: Sequence[int]
    classes: Sequence[int]
    table: Sequence[Sequence[int]]
    accepts: Sequence[int]


def canonical(raw: RawAutomaton) -> Automaton:
    """Return the minimal automaton of the same language and labels, in its one numbering."""
    alive = _alive(raw)
    if not raw.table or not alive[0]:
        return EMPTY
    starts, classes, rows = _told_apart(raw, alive)
    block = _blocks(rows, raw.accepts, alive)
    order, place = [0], {block[0]: 0}
    for state in order:  # grows while it is read: breadth first, in the order of classes
        for target in rows[state]:
            if target >= 0 and block[target] not in place:
                place[block[target]] = len(order)
                order.append(target)
    table = [tuple([-1 if t < 0 else place[block[t]] for t in rows[state]]) for state in order]
    small = RawAutomaton(starts, classes, table, [raw.accepts[state] for state in order])
    starts, classes, rows = _told_apart(small, [True] * len(order))
    return Automaton(tuple(starts), tuple(classes), tuple(rows), tuple(small.accepts))


def _alive(raw: RawAutomaton) -> list[bool]:
    """Return, for each state, whether it can reach an accepting one."""
    sources: list[list[int]] = [[] for _ in raw.table]
    for state, row in enumerate(raw.table):
        for target in set(row):
            if target >= 0:
                sources[target].append(state)
    alive = [label >= 0 for label in raw.accepts]
    waiting = [state for state, is_alive in enumerate(alive) if is_alive]
    for state in waiting:
        for source in sources[state]:
            if not alive[source]:
                alive[source] = True
                waiting.append(source)
    return alive


def _blocks(
    table: Sequence[Sequence[int]], accepts: Sequence[int], alive: Sequence[bool]
) -> list[int]:
    """Return the block of equivalent states that each living state is in.

    All blocks split others at first, so that what leads nowhere needs no block of its own.
    """
    sources: list[list[tuple[int, int]]] = [[] for _ in table]
    for state, row in enumerate(table):
        if alive[state]:
            for letter, target in enumerate(row):
                if target >= 0:
                    sources[target].append((letter, state))
    groups: dict[int, set[int]] = {}
    for state, label in enumerate(accepts):
        if alive[state]:
            groups.setdefault(label, set()).add(state)
    members = list(groups.values())
    block = [-1] * len(table)
    for number, group in enumerate(members):
        for state in group:
            block[state] = number
    waiting = set(range(len(members)))
    while waiting:
        before: dict[int, list[int]] = {}
        for target in members[waiting.pop()]:
            for letter, state in sources[target]:
                before.setdefault(letter, []).append(state)
        for states in before.values():
            touched: dict[int, list[int]] = {}
            for state in states:
                touched.setdefault(block[state], []).append(state)
            for old, part in touched.items():
                if len(part) == len(members[old]):
                    continue
                # The new number goes to the smaller half, for it alone has to split again.
                if 2 * len(part) <= len(members[old]):
                    small = set(part)
                    members[old] -= small
                else:
                    small = members[old].difference(part)
                    members[old] = set(part)
                for state in small:
                    block[state] = len(members)
                waiting.add(len(members))
                members.append(small)
    return block


def _told_apart(
    raw: RawAutomaton, alive: Sequence[bool]
) -> tuple[list[int], list[int], list[tuple[int, ...]]]:
    """Join the classes that no living state tells apart, and the intervals of one class.

    Returns:
        Intervals, their classes numbered as they come, and rows by class; what is dead is -1.

    """
    table = [
        [t if t >= 0 and alive[t] else -1 for t in row] if alive[state] else [-1] * len(row)
        for state, row in enumerate(raw.table)
    ]
    columns = list(zip(*table, strict=True))
    numbers: dict[tuple[int, ...], int] = {}
    starts: list[int] = []
    classes: list[int] = []
    for start, letter in zip(raw.starts, raw.classes, strict=True):
        number = numbers.setdefault(columns[letter], len(numbers))
        if not classes or classes[-1] != number:
            starts.append(start)
            classes.append(number)
    return starts, classes, list(zip(*numbers, strict=True))
