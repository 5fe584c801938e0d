"""From expressions to automata, and the algebra of automata.

Owns the bound on states. Never reads a pattern.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import TYPE_CHECKING

from catalog_compiler.arguments.automata.alphabets import SURROGATES, Alphabet
from catalog_compiler.arguments.automata.derivatives import Derivatives
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.sizes import least_states
from catalog_compiler.arguments.automata.tables import EMPTY, RawAutomaton, canonical
from catalog_compiler.arguments.automaton import Automaton

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from catalog_compiler.arguments.automata.expressions import Expr, Expressions

MAX_STATES = 4_000
"""Automata with more states are refused."""


def automaton_of(arena: Expressions, expression: Expr, max_states: int = MAX_STATES) -> Automaton:
    """Return the minimal automaton of an expression.

    Raises:
        PatternError: it would have more than `max_states` states, or take too much work.

    """
    if least_states(arena, expression) > max_states:
        raise _too_many(max_states)
    alphabet = Alphabet(arena.sets())
    derivatives = Derivatives(arena, alphabet)
    states, table, accepts = {expression: 0}, list[list[int]](), list[int]()
    order = [expression]
    for state in order:  # grows while it is read
        row = [-1] * alphabet.width
        for mask, target in derivatives.row(state):
            number = states.get(target)
            if number is None:
                if len(states) >= max_states:
                    raise _too_many(max_states)
                number = states[target] = len(states)
                order.append(target)
            for letter in alphabet.members(mask):
                row[letter] = number
        table.append(row)
        accepts.append(0 if arena.nullable(state) else -1)
    return canonical(RawAutomaton(alphabet.starts, alphabet.classes, table, accepts))


def _too_many(max_states: int) -> PatternError:
    return PatternError(f"it would take more than {max_states} states; say it with smaller counts")


def product(
    parts: Sequence[Automaton],
    label: Callable[[tuple[int, ...]], int],
    hopeless: Callable[[tuple[int, ...]], bool],
    max_states: int = MAX_STATES,
) -> Automaton:
    """Run automata beside each other.

    Args:
        parts: at least one.
        label: given each part's label (-1 where it does not accept), returns the whole's.
        hopeless: given each part's state (-1 where it is dead), tells that nothing more can be
            accepted, so that nobody goes there.
        max_states: bound.

    Raises:
        PatternError: it would have more states.

    """
    starts = sorted({*SURROGATES, *itertools.chain.from_iterable(p.starts for p in parts)})
    letters: dict[tuple[int, ...], int] = {}
    classes = []
    for start in starts:
        if start == SURROGATES[0]:
            mark: tuple[int, ...] = (-1,)
        else:
            mark = tuple(p.classes[bisect_right(p.starts, start) - 1] for p in parts)
        classes.append(letters.setdefault(mark, len(letters)))
    first = tuple(-1 if part.empty else 0 for part in parts)
    states, order, table, accepts = {first: 0}, [first], list[list[int]](), list[int]()
    for state in order:  # grows while it is read
        row = []
        for mark in letters:
            if mark == (-1,):
                row.append(-1)
                continue
            target = tuple(
                -1 if own < 0 else part.table[own][letter]
                for part, own, letter in zip(parts, state, mark, strict=True)
            )
            if hopeless(target):
                row.append(-1)
                continue
            if target not in states:
                if len(states) >= max_states:
                    raise PatternError(f"together they would take more than {max_states} states")
                states[target] = len(states)
                order.append(target)
            row.append(states[target])
        table.append(row)
        accepts.append(
            label(
                tuple(
                    -1 if own < 0 else part.accepts[own]
                    for part, own in zip(parts, state, strict=True)
                )
            )
        )
    return canonical(RawAutomaton(starts, classes, table, accepts))


def intersect(*parts: Automaton) -> Automaton:
    """Return what all accept; PatternError where that takes too many states."""
    if any(part.empty for part in parts):
        return EMPTY
    return product(
        parts, lambda labels: 0 if min(labels) >= 0 else -1, lambda state: min(state) < 0
    )


def union(*parts: Automaton) -> Automaton:
    """Return what any accepts; PatternError where that takes too many states."""
    return product(
        parts, lambda labels: 0 if max(labels) >= 0 else -1, lambda state: max(state) < 0
    )


def complement(part: Automaton) -> Automaton:
    """Return every other text of Unicode scalar values."""
    return product([part], lambda labels: 0 if labels[0] < 0 else -1, lambda _: False)


def difference(part: Automaton, other: Automaton) -> Automaton:
    """Return what `part` accepts and `other` does not."""
    return product(
        [part, other],
        lambda labels: 0 if labels[0] >= 0 > labels[1] else -1,
        lambda state: state[0] < 0,
    )


def labelled(parts: Sequence[Automaton]) -> tuple[Automaton, tuple[frozenset[int], ...]]:
    """Return what any accepts, labelled by which of them do; label i stands for the i-th set."""
    known: dict[frozenset[int], int] = {}

    def label(labels: tuple[int, ...]) -> int:
        accepting = frozenset(place for place, own in enumerate(labels) if own >= 0)
        return known.setdefault(accepting, len(known)) if accepting else -1

    if not parts:
        return EMPTY, ()
    made = product(parts, label, lambda state: max(state) < 0)
    # What was met and then trimmed away has no place among the labels.
    used = sorted({own for own in made.accepts if own >= 0})
    sets = list(known)
    renamed = {old: new for new, old in enumerate(used)}
    accepts = tuple(renamed.get(own, -1) for own in made.accepts)
    again = Automaton(made.starts, made.classes, made.table, accepts)
    return again, tuple(sets[old] for old in used)


def literals(texts: Iterable[str]) -> Automaton:
    """Return exactly these texts; texts with surrogates are in no automaton."""
    root: dict[str, dict] = {}  # type: ignore[type-arg]
    end = ""
    for text in set(texts):
        if any(0xD800 <= ord(c) <= 0xDFFF for c in text):
            continue
        node = root
        for character in text:
            node = node.setdefault(character, {})
        node[end] = {}
    characters = sorted(_characters(root))
    starts, classes = [0], [0]
    letters: dict[str, int] = {}
    for character in characters:
        code_point = ord(character)
        letters[character] = len(letters) + 1
        if starts[-1] == code_point:
            classes[-1] = letters[character]
        else:
            starts.append(code_point)
            classes.append(letters[character])
        if code_point < 0x10FFFF:
            starts.append(code_point + 1)
            classes.append(0)
    order, table, accepts = [root], list[list[int]](), list[int]()
    for node in order:  # grows while it is read
        row = [-1] * (len(letters) + 1)
        for character, below in node.items():
            if character != end:
                row[letters[character]] = len(order)
                order.append(below)
        table.append(row)
        accepts.append(0 if end in node else -1)
    return canonical(RawAutomaton(starts, classes, table, accepts))


def _characters(root: dict[str, dict]) -> set[str]:  # type: ignore[type-arg]
    found: set[str] = set()
    waiting = [root]
    for node in waiting:
        found.update(node)
        waiting.extend(node.values())
    found.discard("")
    return found


def length(min_chars: int, max_chars: int | None) -> Automaton:
    """Return the texts of so many characters; PatternError beyond `MAX_STATES`."""
    last = min_chars if max_chars is None else max_chars
    if last > MAX_STATES:
        raise PatternError(f"a length of {last} characters takes more than {MAX_STATES} states")
    if max_chars is not None and max_chars < min_chars:
        return EMPTY
    starts, classes = (0, *SURROGATES), (0, 1, 0)
    table = [(state + 1, -1) for state in range(last)]
    table.append((last, -1) if max_chars is None else (-1, -1))
    accepts = tuple(0 if state >= min_chars else -1 for state in range(last + 1))
    return canonical(RawAutomaton(starts, classes, table, accepts))
