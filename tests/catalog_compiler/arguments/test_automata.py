"""The algebra of automata: sets of texts, in one form each, never with a surrogate in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.automata import PatternError
from tests.catalog_compiler.arguments.walks import check, shortest_rests

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton

TEXTS = st.text("ab1\U0001f600", max_size=6)
SOURCES = st.sampled_from(
    ["a", "^a", "b$", "^[ab]*$", "^(ab)*$", "^a{2,4}$", "1.b", "^$", "^(?!a)", "^[^1]+$", "[]"]
)
PARTS = st.one_of(
    SOURCES.map(automata.pattern),
    st.lists(TEXTS, max_size=4).map(automata.literals),
    st.builds(automata.length, st.integers(0, 3), st.none() | st.integers(0, 5)),
)


@given(PARTS, PARTS, PARTS, st.lists(TEXTS, min_size=1, max_size=12))
def test_operations_are_those_of_sets(
    one: Automaton, two: Automaton, three: Automaton, texts: list[str]
):
    """Each operation is what it says, for every text, and in the one form."""
    everything = automata.any_string()
    meet, join = automata.intersect(one, two, three), automata.union(one, two, three)
    rest, left = automata.complement(one), automata.difference(one, two)
    for each in (one, meet, join, rest, left):
        check(each)
    for text in texts:
        held = [part.accepts_text(text) for part in (one, two, three)]
        assert meet.accepts_text(text) == all(held)
        assert join.accepts_text(text) == any(held)
        assert rest.accepts_text(text) != held[0]
        assert left.accepts_text(text) == (held[0] and not held[1])
    assert automata.complement(rest) == one
    assert automata.intersect(one, rest).empty
    assert automata.union(one, rest) == everything
    assert automata.intersect(one, everything) == automata.intersect(one, one) == one
    assert left == automata.intersect(one, automata.complement(two))
    assert meet == automata.intersect(three, two, one)


@given(st.lists(PARTS, max_size=4), st.lists(TEXTS, min_size=1, max_size=12))
def test_labels_name_the_parts_that_accept(parts: list[Automaton], texts: list[str]):
    """A label stands for the set of parts that accept; there is none for sets that never come."""
    found, sets = automata.labelled(parts)
    check(found)
    assert len(set(sets)) == len(sets)
    assert {label for label in found.accepts if label >= 0} == set(range(len(sets)))
    for text in texts:
        held = frozenset(at for at, part in enumerate(parts) if part.accepts_text(text))
        label = found.label(text)
        assert (sets[label] if label >= 0 else frozenset()) == held


@given(st.lists(st.text(max_size=5), max_size=8), st.text(max_size=5))
def test_literals_are_exactly_theirs(texts: list[str], other: str):
    """Each text is accepted and no other is, whatever the characters."""
    found = automata.literals(texts)
    check(found)
    assert all(found.accepts_text(text) for text in texts)
    assert found.accepts_text(other) == (other in texts)


def test_what_holds_a_surrogate_is_in_no_automaton():
    """Texts are of Unicode scalar values: there is no such literal, and no complement has one."""
    assert automata.literals(["\ud800", "a"]) == automata.literals(["a"])
    for found in (automata.any_string(), automata.complement(automata.literals(["a"]))):
        assert not found.accepts_text("\ud800")
        assert found.accepts_text("\U0010ffff\ud7ff\ue000\0")


def test_too_many_states_are_refused():
    """A product that passes the bound says so."""
    one, two = automata.pattern("^(?:.{61})*$"), automata.pattern("^(?:.{67})*$")
    with pytest.raises(PatternError, match="more than 4000 states"):
        automata.intersect(one, two)
    with pytest.raises(PatternError, match="more than 4000 states"):
        automata.length(0, 5_000)


def test_what_can_lead_nowhere_is_not_walked():
    """An intersection goes no further than its shortest part, however large the others are."""
    wide = automata.pattern("^(?:.{61})*$")
    other = automata.pattern("^(?:.{67})*$")
    assert automata.intersect(wide, other, automata.length(0, 70)) == automata.literals([""])


@given(PARTS, st.integers(0, 8), st.none() | st.integers(0, 8), TEXTS)
def test_bounds_beside_an_automaton_never_contradict_it(
    part: Automaton, low: int, high: int | None, text: str
):
    """Whoever keeps out of states whose shortest rest is too long always finds an end."""
    found, least, most = automata.bounded(part, low, high)
    assert found is not None
    check(found)
    expected = part.accepts_text(text) and low <= len(text) and (high is None or len(text) <= high)
    assert expected == (
        found.accepts_text(text) and least <= len(text) and (most is None or len(text) <= most)
    )
    if found.empty:
        return
    rests = shortest_rests(found)
    longest = max(least, most or 0) + 10
    ends = accepted_lengths(found, longest)
    assert most is None or rests[0] <= most
    configurations = [(0, 0)]
    for state, chars in configurations:
        last = longest if most is None else most
        assert any(least <= chars + n <= last for n in ends[state]), (state, chars)
        if chars > max(least, most or 0):
            continue
        for target in set(found.table[state]) - {-1}:
            after = (target, chars + 1)
            keeps = most is None or chars + 1 + rests[target] <= most
            if keeps and after not in configurations:
                configurations.append(after)


def accepted_lengths(automaton: Automaton, longest: int) -> list[set[int]]:
    """Return, for each state, how many characters may follow it to an end."""
    found = [{0} if label >= 0 else set[int]() for label in automaton.accepts]
    for _ in range(longest):
        found = [
            own | {n + 1 for target in set(row) - {-1} for n in found[target] if n < longest}
            for own, row in zip(found, automaton.table, strict=True)
        ]
    return found


def test_a_ceiling_is_counted_whatever_the_automaton():
    """A pattern of pairs beside a maximum stays as small as it is."""
    pairs = automata.pattern("^(?:ab)*$")
    assert automata.bounded(pairs, 0, 9_999) == (pairs, 0, 9_999)
    words = automata.pattern(r"^(?:\S+\s+){0,99}\S+$")
    assert automata.bounded(words, 1, 5_000) == (words, 0, 5_000)
    address = automata.string_format("uri")
    assert automata.bounded(address, 0, 2_048) == (address, 0, 2_048)


def test_bounds_that_say_nothing_are_left_out():
    """What the automaton already keeps is not counted."""
    dates = automata.string_format("date")
    assert automata.bounded(dates, 10, 10) == (dates, 0, None)
    assert automata.bounded(dates, 3, 40) == (dates, 0, None)
    assert automata.bounded(None, 3, 40) == (None, 3, 40)


@pytest.mark.parametrize(("low", "high"), [(11, None), (0, 9), (12, 9)])
def test_bounds_that_no_text_keeps_leave_nothing(low: int, high: int | None):
    """A date of eleven characters does not exist."""
    found, least, most = automata.bounded(automata.string_format("date"), low, high)
    assert found is not None
    assert found.empty
    assert (least, most) == (0, None)


def test_crossed_bounds_leave_nothing():
    """Without an automaton too."""
    found, _, _ = automata.bounded(None, 3, 2)
    assert found is not None
    assert found.empty
    assert automata.length(3, 2).empty
