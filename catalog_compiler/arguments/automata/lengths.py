"""How long the texts of an automaton can be, from each of its states.

Owns the decision which bounds on length can be counted beside an automaton. Whoever walks it keeps
out of states whose shortest rest goes beyond the upper bound; so an upper bound alone can always be
counted, and a lower one where every state can wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments.automata.build import intersect, length
from catalog_compiler.arguments.automata.tables import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        PatternError: the lower bound can't be counted, and folding it in takes too many states.

    """
    if automaton is None:
        return (automaton, low, high) if high is None or low <= high else (EMPTY, 0, None)
    if automaton.empty:
        return automaton, 0, None
    targets = [sorted({t for t in row if t >= 0}) for row in automaton.table]
    shortest = _shortest(targets, automaton.accepts)
    if low <= shortest[0]:
        low = 0
    elif not _can_reach(low, targets, shortest):
        automaton, low = intersect(automaton, length(low, None)), 0
        if automaton.empty:
            return automaton, 0, None
        targets = [sorted({t for t in row if t >= 0}) for row in automaton.table]
        shortest = _shortest(targets, automaton.accepts)
    if high is not None:
        if max(low, shortest[0]) > high:
            return EMPTY, 0, None
        longest = _longest(targets)
        if longest is not None and longest <= high:
            high = None
    return automaton, low, high


def _can_reach(low: int, targets: list[list[int]], shortest: list[int]) -> bool:
    """Tell whether every state can still reach a lower bound, with any number of characters more.

    A state can where its shortest rest already does, however early it was reached; or where some
    state on a shortest way to an end can stay where it is.
    """
    reached = _distances([0], targets)
    return all(
        reached[state] + shortest[state] >= low or _can_wait(state, targets, shortest)
        for state in range(len(targets))
    )


def _shortest(targets: list[list[int]], accepts: tuple[int, ...]) -> list[int]:
    """Return how many characters the shortest rest from each state has."""
    sources: list[list[int]] = [[] for _ in targets]
    for state, below in enumerate(targets):
        for target in below:
            sources[target].append(state)
    return _distances((state for state, label in enumerate(accepts) if label >= 0), sources)


def _distances(first: Iterable[int], edges: list[list[int]]) -> list[int]:
    """Return each state's least number of edges from one of some states; all are reached."""
    found = [-1] * len(edges)
    waiting = list(first)
    for state in waiting:
        found[state] = 0
    for state in waiting:  # grows while it is read
        for target in edges[state]:
            if found[target] < 0:
                found[target] = found[state] + 1
                waiting.append(target)
    return found


def _longest(targets: list[list[int]]) -> int | None:
    """Return the length of the longest text, None where there is none."""
    waits = [len(below) for below in targets]
    sources: list[list[int]] = [[] for _ in targets]
    for state, below in enumerate(targets):
        for target in below:
            sources[target].append(state)
    order = [state for state, count in enumerate(waits) if count == 0]
    longest = [0] * len(targets)
    for state in order:  # grows while it is read: what a cycle is reached from never comes
        for source in sources[state]:
            longest[source] = max(longest[source], longest[state] + 1)
            waits[source] -= 1
            if waits[source] == 0:
                order.append(source)
    return longest[0] if len(order) == len(targets) else None


def _can_wait(state: int, targets: list[list[int]], shortest: list[int]) -> bool:
    """Tell whether a state on some shortest way from here to an end can stay where it is."""
    while True:
        if state in targets[state]:
            return True
        if shortest[state] == 0:
            return False
        nearer = [t for t in targets[state] if shortest[t] == shortest[state] - 1]
        waiting = [t for t in nearer if t in targets[t]]
        state = (waiting or nearer)[0]
