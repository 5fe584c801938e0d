"""How long the texts of an automaton can be, from each of its states.

Owns the decision whether bounds on length can be counted beside an automaton. They can where no
prefix that keeps to the automaton and to the upper bound is without an ending that keeps both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments.automata.build import MAX_STATES, intersect, length
from catalog_compiler.arguments.automata.errors import PatternError

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton


def bounded(
    automaton: Automaton | None, low: int, high: int | None
) -> tuple[Automaton | None, int, int | None]:
    """Bound the length of an automaton's texts.

    Args:
        automaton: None accepts every text.
        low: fewest characters.
        high: most characters, or None.

    Returns:
        An automaton with the bounds that are left to be counted beside it, such that the two never
        contradict each other (`nodes.Text`). An automaton that accepts nothing where no text keeps
        all of it.

    Raises:
        PatternError: they can't be counted, and folding them in takes too many states.

    """
    if automaton is None or automaton.empty or (low == 0 and high is None):
        return automaton, low, high
    spans = _spans(automaton)
    if spans is not None:
        shortest, longest = spans
        if low <= shortest[0]:
            low = 0
        if high is not None and longest[0] is not None and longest[0] <= high:
            high = None
        if low == 0 and high is None:
            return automaton, 0, None
        # With a floor alone an ending must be able to grow; a ceiling is checked as one goes only
        # where no state needs more than is left, which a fold says exactly.
        if high is None and all(span is None for span in longest):
            return automaton, low, None
    if low > MAX_STATES or (high is not None and high > MAX_STATES):
        raise PatternError(f"a pattern with a length beyond {MAX_STATES} characters")
    return intersect(automaton, length(low, high)), 0, None


def _spans(automaton: Automaton) -> tuple[list[int], list[int | None]] | None:
    """Return the fewest and the most characters from each state to an end (None: no bound).

    None where the lengths from some endless state have gaps (a pattern of pairs, say).
    """
    states = len(automaton.table)
    targets = [sorted({t for t in row if t >= 0}) for row in automaton.table]
    shortest = _shortest(targets, automaton.accepts)
    longest: list[int | None] = [None] * states
    order = _finite_order(targets)
    for state in order:
        ends = [0] if automaton.accepts[state] >= 0 else []
        ends += [1 + below for t in targets[state] if (below := longest[t]) is not None]
        longest[state] = max(ends)
    finite = set(order)
    # An endless state has no gaps where it, or one of the states on a shortest way from it to an
    # end, can stay where it is.
    for state in range(states):
        if state not in finite and not _can_wait(state, targets, shortest):
            return None
    return shortest, longest


def _shortest(targets: list[list[int]], accepts: tuple[int, ...]) -> list[int]:
    sources: list[list[int]] = [[] for _ in targets]
    for state, below in enumerate(targets):
        for target in below:
            sources[target].append(state)
    found = [0 if label >= 0 else -1 for label in accepts]
    waiting = [state for state, own in enumerate(found) if own == 0]
    for state in waiting:
        for source in sources[state]:
            if found[source] < 0:
                found[source] = found[state] + 1
                waiting.append(source)
    return found


def _finite_order(targets: list[list[int]]) -> list[int]:
    """Return the states from which no cycle is reached, those first that others lead to."""
    waits = [len(below) for below in targets]
    sources: list[list[int]] = [[] for _ in targets]
    for state, below in enumerate(targets):
        for target in below:
            sources[target].append(state)
    order = [state for state, count in enumerate(waits) if count == 0]
    for state in order:
        for source in sources[state]:
            waits[source] -= 1
            if waits[source] == 0:
                order.append(source)
    return order


def _can_wait(state: int, targets: list[list[int]], shortest: list[int]) -> bool:
    while True:
        if state in targets[state]:
            return True
        if shortest[state] == 0:
            return False
        nearer = [t for t in targets[state] if shortest[t] == shortest[state] - 1]
        waiting = [t for t in nearer if t in targets[t]]
        state = (waiting or nearer)[0]
