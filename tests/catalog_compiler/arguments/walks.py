"""What every automaton must be, and how far its states are from an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton


def check(automaton: Automaton) -> None:
    """Assert what `Automaton` promises: in form, trimmed, and without surrogates."""
    starts, classes, table, accepts = (
        automaton.starts, automaton.classes, automaton.table, automaton.accepts,
    )  # fmt: skip
    assert starts[0] == 0
    assert list(starts) == sorted(set(starts))
    assert starts[-1] <= 0x10FFFF
    assert len(starts) == len(classes)
    assert sorted(set(classes)) == list(range(max(classes) + 1))
    assert list(dict.fromkeys(classes)) == sorted(set(classes)), "numbered as they come"
    assert len(table) == len(accepts)
    assert all(len(row) == max(classes) + 1 for row in table)
    assert all(-1 <= target < len(table) for row in table for target in row)
    if automaton.empty:
        return
    reached = [0]
    for state in reached:
        reached += [t for t in dict.fromkeys(table[state]) if t >= 0 and t not in reached]
    assert reached == list(range(len(table))), "numbered breadth first, all reached"
    assert NEVER not in shortest_rests(automaton), "every state can end"
    for code_point in (0xD800, 0xDC00, 0xDFFF):
        assert all(automaton.step(state, code_point) == -1 for state in range(len(table)))


NEVER = 10**9


def shortest_rests(automaton: Automaton) -> list[int]:
    """Return how many characters the shortest rest from each state has."""
    rests = [0 if label >= 0 else NEVER for label in automaton.accepts]
    while True:
        better = [
            min([rest, *(rests[t] + 1 for t in row if t >= 0)])
            for rest, row in zip(rests, automaton.table, strict=True)
        ]
        if better == rests:
            return rests
        rests = better
