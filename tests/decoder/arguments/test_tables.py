"""Tables that contradict themselves are refused by name; facts are right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from catalog_compiler.arguments.nodes import Array, DistinctLiterals, Object, Property, Text, Union
from catalog_compiler.arguments.tables import ArgumentPool
from decoder.arguments import ArgumentMachine, ArgumentTables, TokenVocabulary
from decoder.arguments.facts import facts_of
from decoder.arguments.graph import MANY, NEVER
from decoder.errors import RequestError
from tests.decoder.arguments.grammars import (
    all_but,
    automaton,
    draw_grammar,
    grammar,
    literals,
    of_words,
    tables_of,
)


def arrays() -> dict[str, np.ndarray]:
    pool = ArgumentPool()
    pool.add(
        grammar(
            Object((Property("a", 1, required=True),), of_words({"x": 0, "y": 1}), (2, 3), 1, 3),
            Array((4,), 4, 1, 3),
            Text(all_but({"a"}), 0, 9),
            DistinctLiterals(literals(1, 2).texts, 0, 2),
            Union((5, 6)),
            literals(1, 12, "a"),
            Text(),
        )
    )
    return pool.to_arrays()


def test_sound_tables_are_taken() -> None:
    """And other arrays beside them are left alone."""
    given = {**arrays(), "roots": np.zeros(1, np.int32)}
    assert len(ArgumentTables.from_arrays(given).nodes) == 7


def test_a_catalog_may_have_no_arguments_at_all() -> None:
    """Where every tool's are refused the pool is empty, and no value can be begun."""
    tables = ArgumentTables.from_arrays(ArgumentPool().to_arrays())
    machine = ArgumentMachine(tables, TokenVocabulary([b"{", b"}"]))
    for root in (-1, 0):
        with pytest.raises(RequestError, match="node"):
            machine.begin(root)


@pytest.mark.parametrize("name", ArgumentTables.names())
def test_each_array_is_needed_as_int32(name: str) -> None:
    """A missing one is named, and so is one of another type."""
    given = arrays()
    with pytest.raises(RequestError, match=name):
        ArgumentTables.from_arrays({k: v for k, v in given.items() if k != name})
    with pytest.raises(RequestError, match=name):
        ArgumentTables.from_arrays({**given, name: given[name].astype(np.int64)})
    with pytest.raises(RequestError):  # the last node is the root, which no other one needs
        ArgumentTables.from_arrays({**given, name: given[name][: -2 if name == "nodes" else -1]})


@pytest.mark.parametrize("seed", range(300))
def test_no_changed_number_gets_past_the_checks_and_then_out_of_bounds(seed: int) -> None:
    """Either the tables are refused, or everything can be worked out from them."""
    rng = random.Random(seed)
    given = {name: array.copy() for name, array in arrays().items()}
    name = rng.choice([name for name, array in given.items() if array.size])
    flat = given[name].reshape(-1)
    flat[rng.randrange(len(flat))] = rng.choice([-2, -1, 0, 1, 7, 255, 256, 1 << 20, (1 << 31) - 1])
    try:
        tables = ArgumentTables.from_arrays(given)
    except RequestError:
        return
    facts_of(tables)


def test_facts_about_states() -> None:
    """Distances, numbers of rests, and surrogates that no text can hold."""
    lone = automaton({0: {"\ud800": 1, "a": 2}, 2: {"b": 3}}, {1: 0, 3: 0})
    tables, _ = tables_of(
        grammar(Union((1, 2, 3)), Text(of_words({"ab": 0, "ac": 0, "a": 0})), Text(all_but({"a"})),
                Text(lone))
    )  # fmt: skip
    facts = facts_of(tables)
    by_first = {
        tuple(facts.distance[slice(*tables.states_of(k))].tolist()): (
            facts.texts[slice(*tables.states_of(k))].tolist(),
            facts.universal[slice(*tables.states_of(k))].tolist(),
            int(facts.farthest[k]),
        )
        for k in range(len(tables.automata))
    }
    assert by_first == {
        (1, 0, 0, 0): ([3, 3, 1, 1], [0, 0, 0, 0], 1),
        (0, 1, 0): ([MANY] * 3, [0, 0, 1], 1),
        (2, 0, 1, 0): ([1, 1, 1, 1], [0, 0, 0, 0], 2),
    }


def test_the_least_nesting_of_values() -> None:
    """Required members count, optional ones where a bound asks for them, the flattest option."""
    nodes = (
        Object((Property("a", 1, required=True), Property("z", 0, required=False))),
        Array((2,), 0, 1),
        Union((3, 4)),
        Array((4,), None, 1),
        Object((Property("b", 5, required=False), Property("c", 0, required=False)), None, (), 1),
        literals(1),
    )
    tables, (root,) = tables_of(grammar(*nodes))
    found = facts_of(tables).depth
    assert int(found[root]) == 3
    assert sorted(found.tolist()) == [0, 1, 1, 2, 2, 3]


def test_a_node_without_a_value_is_never_reached() -> None:
    """It takes its array with it, not the optional member."""
    empty = of_words({"\ud800": 0})
    tables, (root,) = tables_of(
        grammar(Object((Property("a", 1, required=False),)), Array((2,), None, 1), Text(empty))
    )
    assert sorted(facts_of(tables).depth.tolist()) == [1, NEVER, NEVER]
    assert int(facts_of(tables).depth[root]) == 1


def test_free_keys_have_an_automaton_for_each_depth_of_their_values() -> None:
    """The flattest alone, and all; a value that there is none of has no key."""
    keys = of_words({"a": 0, "bb": 1, "bc": 1, "d": 2})
    deep = Array((1,), None, 1)
    nodes = (
        Object((), keys, (1, 2, 3), 3),
        literals(1),
        deep,
        Text(of_words({"\ud800": 0})),
    )
    tables, (root,) = tables_of(grammar(*nodes))
    facts = facts_of(tables)
    assert int(facts.depth[root]) == 2  # three keys: one is flat, two are not
    first, end = facts.levels.first[root : root + 2].tolist()
    assert facts.levels.depths[first:end].tolist() == [0, 1]
    own = int(tables.nodes[root, 4])
    assert facts.label_texts[facts.labels[own] : facts.labels[own + 1]].tolist() == [1, 2, 1]
    for number, texts in zip(facts.levels.keys[first:end].tolist(), (1, 3), strict=True):
        row = facts.automata[number]
        assert number >= len(tables.automata)
        assert row[:4].tolist() == facts.automata[own, :4].tolist()
        assert int(facts.texts[row[4]]) == texts


def test_one_kind_of_free_keys_needs_no_automaton_beside_its_own() -> None:
    """All levels are the tables' own."""
    tables, (root,) = tables_of(grammar(Object((), all_but(set()), (1,)), literals(1)))
    facts = facts_of(tables)
    assert facts.levels.keys.tolist() == [int(tables.nodes[root, 4])]
    assert len(facts.automata) == len(tables.automata)
    assert facts.label_texts[facts.labels[facts.levels.keys[0]]] == MANY


@pytest.mark.parametrize("seed", range(30))
def test_random_grammars_make_sound_tables(seed: int) -> None:
    """What the compiler stores is taken, several tools at once."""
    rng = random.Random(seed)
    tables, roots = tables_of(*(draw_grammar(rng) for _ in range(4)))
    assert (facts_of(tables).depth[roots] < NEVER).all()
