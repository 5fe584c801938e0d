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
    table = [[t if t >= 0 and alive[t] else -1 for t in row] for row in raw.table]
    block = _blocks(table, raw.accepts, alive)
    order, place = [0], {block[0]: 0}
    for state in order:  # grows while it is read: breadth first
        for target in table[state]:
            if target >= 0 and block[target] not in place:
                place[block[target]] = len(order)
                order.append(target)
    rows = [tuple(-1 if t < 0 else place[block[t]] for t in table[state]) for state in order]
    return _joined(raw, rows, [raw.accepts[state] for state in order])


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
    """Return the block of equivalent states that each state is in; dead ones are not told apart."""
    width = len(table[0])
    sink = len(table)
    sources: list[list[list[int]]] = [[[] for _ in range(sink + 1)] for _ in range(width)]
    for state, row in enumerate(table):
        if alive[state]:
            for letter, target in enumerate(row):
                sources[letter][target if target >= 0 else sink].append(state)
    groups: dict[int, set[int]] = {}
    for state, label in enumerate(accepts):
        if alive[state]:
            groups.setdefault(label, set()).add(state)
    members = list(groups.values())
    block = [-1] * (sink + 1)
    for number, group in enumerate(members):
        for state in group:
            block[state] = number
    # The sink is a block of its own from the start: what leads to it is told apart from what lives.
    block[sink] = len(members)
    members.append({sink})
    waiting = {(number, letter) for number in range(len(members)) for letter in range(width)}
    while waiting:
        number, letter = waiting.pop()
        touched: dict[int, set[int]] = {}
        for target in members[number]:
            for state in sources[letter][target]:
                touched.setdefault(block[state], set()).add(state)
        for old, part in touched.items():
            if len(part) == len(members[old]):
                continue
            new = len(members)
            members[old] -= part
            members.append(part)
            for state in part:
                block[state] = new
            for each in range(width):
                if (old, each) in waiting or len(part) <= len(members[old]):
                    waiting.add((new, each))
                else:
                    waiting.add((old, each))
    return block


def _joined(raw: RawAutomaton, rows: Sequence[Sequence[int]], accepts: Sequence[int]) -> Automaton:
    """Join the classes that no state tells apart, and the intervals of one class."""
    columns: dict[tuple[int, ...], int] = {}
    starts: list[int] = []
    classes: list[int] = []
    for start, letter in zip(raw.starts, raw.classes, strict=True):
        column = tuple(row[letter] for row in rows)
        number = columns.setdefault(column, len(columns))
        if not classes or classes[-1] != number:
            starts.append(start)
            classes.append(number)
    table = tuple(zip(*columns, strict=True))
    return Automaton(tuple(starts), tuple(classes), table, tuple(accepts))
