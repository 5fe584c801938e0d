"""Grammars for tests: hand-made automata, random ones, and an oracle of their texts.

The oracle reads a JSON value and asks the grammar's nodes, so it shares nothing with the machine.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from catalog_compiler.arguments.automaton import Automaton
from catalog_compiler.arguments.nodes import (
    ArgumentGrammar,
    Array,
    DistinctLiterals,
    Literals,
    Node,
    Number,
    Object,
    Property,
    Text,
    Union,
)
from catalog_compiler.arguments.tables import ArgumentPool
from decoder.arguments import ArgumentTables

if TYPE_CHECKING:
    import random


def tables_of(*grammars: ArgumentGrammar) -> tuple[ArgumentTables, list[int]]:
    pool = ArgumentPool()
    roots = [pool.add(grammar) for grammar in grammars]
    return ArgumentTables.from_arrays(pool.to_arrays()), roots


def grammar(*nodes: Node) -> ArgumentGrammar:
    return ArgumentGrammar(nodes, 0)


def literals(*values: object) -> Literals:
    return Literals(tuple(sorted(json.dumps(v, ensure_ascii=False).encode() for v in values)))


def automaton(edges: dict[int, dict[str, int]], accepts: dict[int, int]) -> Automaton:
    """From {state: {character or "*": state}} and {state: label}; "*" is any other character."""
    letters = sorted({c for row in edges.values() for c in row if c != "*"})
    cuts = sorted({0, *(ord(c) for c in letters), *(ord(c) + 1 for c in letters)})
    classes = [letters.index(chr(cut)) if chr(cut) in letters else len(letters) for cut in cuts]
    used = sorted(set(classes))
    states = max([*edges, *accepts]) + 1
    names = [*letters, "*"]
    table = tuple(
        tuple(
            edges.get(state, {}).get(names[kind], edges.get(state, {}).get("*", -1))
            for kind in used
        )
        for state in range(states)
    )
    return Automaton(
        tuple(cuts),
        tuple(used.index(kind) for kind in classes),
        table,
        tuple(accepts.get(state, -1) for state in range(states)),
    )


def of_words(words: dict[str, int]) -> Automaton:
    """Accept some words, each with its label."""
    states: dict[str, int] = {"": 0}
    for word in sorted(words):
        for end in range(1, len(word) + 1):
            states.setdefault(word[:end], len(states))
    edges: dict[int, dict[str, int]] = {}
    for prefix, state in states.items():
        if prefix:
            edges.setdefault(states[prefix[:-1]], {})[prefix[-1]] = state
    return automaton(edges, {states[word]: label for word, label in words.items()})


def all_but(words: set[str]) -> Automaton:
    """Accept every string but some."""
    states: dict[str, int] = {"": 0}
    for word in sorted(words):
        for end in range(1, len(word) + 1):
            states.setdefault(word[:end], len(states))
    sink = len(states)
    edges: dict[int, dict[str, int]] = {sink: {"*": sink}}
    for prefix, state in states.items():
        edges.setdefault(state, {})["*"] = sink
        if prefix:
            edges.setdefault(states[prefix[:-1]], {})[prefix[-1]] = state
    accepts = {state: 0 for prefix, state in states.items() if prefix not in words}
    return automaton(edges, {**accepts, sink: 0})


@cache
def integers() -> Automaton:
    digits = {str(d): 3 for d in range(10)}
    nonzero = {str(d): 3 for d in range(1, 10)}
    return automaton(
        {0: {"-": 1, "0": 2, **nonzero}, 1: nonzero, 3: digits},
        {2: 0, 3: 0},
    )


def draw_grammar(rng: random.Random, nodes: int = 8) -> ArgumentGrammar:
    """Draw a grammar; nodes refer to later ones, sometimes back (optional members only)."""
    made: dict[int, Node] = {}
    for place in range(nodes - 1, -1, -1):
        made[place] = _draw_node(rng, place, made, nodes)
    return ArgumentGrammar(tuple(made[place] for place in range(nodes)), 0)


def _draw_node(rng: random.Random, place: int, made: dict[int, Node], nodes: int) -> Node:
    later = list(range(place + 1, nodes))

    def child() -> int:
        return rng.choice(later)

    leaf = len(later) < 2
    kind = rng.choice(["literals", "text", "number", "distinct"] if leaf else KINDS)
    if kind == "text":
        return _draw_text(rng)
    if kind == "number":
        return Number(integers())
    if kind == "distinct":
        texts = literals(*rng.sample([1, 12, 123, "a", "ab", None, True], rng.randint(1, 5))).texts
        high = rng.randint(0, len(texts))
        return DistinctLiterals(texts, rng.randint(0, high), high)
    if kind == "array":
        prefix = tuple(child() for _ in range(rng.randint(0, 2)))
        rest = child() if rng.random() < 0.6 else None
        low = rng.randint(0, len(prefix) if rest is None else 3)
        high = rng.choice([None, low + rng.randint(0, 3)])
        return Array(prefix, rest, low, high)
    if kind == "object":
        return _draw_object(rng, place, later)
    if kind == "union":
        options = [o for o in later if not isinstance(made[o], Union)]
        if options:
            return Union(tuple(sorted(set(rng.choices(options, k=3)))))
    return literals(*rng.sample([0, 1, 12, "a", "ab", "a b", "é", None, [1, 2], {"x": 1}], 3))


KINDS = ["literals", "text", "number", "distinct", "array", "object", "object", "union"]


def _draw_text(rng: random.Random) -> Text:
    low = rng.choice([0, 0, 1, 3])
    high = rng.choice([None, None, low + rng.randint(0, 4)])
    kind = rng.randrange(4)
    if kind == 0:
        return Text(None, low, high)
    if kind == 1:
        return Text(of_words(dict.fromkeys(rng.sample(WORDS, 4), 0)))
    if kind == 2:
        return Text(all_but(set(rng.sample(WORDS, 3))))
    # An even number of characters, all but quotes and backslashes.
    return Text(automaton({0: {"*": 1, '"': -1, "\\": -1}, 1: {"*": 0}}, {0: 0}), low - low % 2)


WORDS = ["a", "ab", "abc", "b", 'q"q', "é", "日本", "😀", "\n", "x" * 9]


def _draw_object(rng: random.Random, place: int, later: list[int]) -> Object:
    keys = rng.sample(["a", "ab", "abc", "é", 'q"', "b"], rng.randint(0, 4))
    properties = [Property(key, rng.choice(later), rng.random() < 0.4) for key in keys]
    # An optional member may lead back: a recursive schema.
    properties = [
        Property(p.key, rng.randint(0, place), required=False)
        if not p.required and rng.random() < 0.2
        else p
        for p in properties
    ]
    required = sum(p.required for p in properties)
    free = rng.randrange(3)
    automaton_of_keys, values, room = None, (), 0
    if free == 1:
        automaton_of_keys, values, room = all_but(set(keys)), (rng.choice(later),), 9
    elif free == 2:
        words = {w: rng.randrange(2) for w in WORDS[:6] if w not in keys}
        if words:
            values = tuple(rng.choice(later) for _ in range(max(words.values()) + 1))
            automaton_of_keys, room = of_words(words), len(words)
    plain = sum(p.node > place for p in properties)
    low = rng.choice([0, 0, rng.randint(0, min(plain + room, 3))])
    high = rng.choice([None, max(low, required) + rng.randint(0, 3)])
    return Object(tuple(properties), automaton_of_keys, values, low, high)


def valid(nodes: ArgumentGrammar, place: int, text: str) -> bool:
    """Tell whether a JSON text, read as a value, is what a node allows; spelling aside."""
    return _valid(nodes.nodes, place, json.loads(text, object_pairs_hook=_Pairs))


class _Pairs(list[tuple[str, object]]):
    """An object's members as they stand."""


def _dumps(value: object) -> bytes:
    def plain(item: object) -> object:
        if isinstance(item, _Pairs):
            return {key: plain(inner) for key, inner in item}
        return [plain(inner) for inner in item] if isinstance(item, list) else item

    return json.dumps(plain(value), ensure_ascii=False).encode()


def _valid(nodes: tuple[Node, ...], place: int, value: object) -> bool:
    match nodes[place]:
        case Union(options):
            return any(_valid(nodes, option, value) for option in options)
        case Literals(texts):
            return _dumps(value) in texts
        case Text(rules, low, high):
            return (
                isinstance(value, str)
                and low <= len(value) <= (len(value) if high is None else high)
                and (rules is None or rules.accepts_text(value))
            )
        case Number(rules):
            return type(value) is int and rules.accepts_text(str(value))
        case Array(prefix, rest, low, high):
            if not isinstance(value, list) or isinstance(value, _Pairs):
                return False
            further = len(value) - len(prefix)
            items = [*prefix, *([rest] * further if rest is not None else [])][: len(value)]
            return (
                len(items) == len(value)
                and low <= len(value) <= (len(value) if high is None else high)
                and all(_valid(nodes, i, v) for i, v in zip(items, value, strict=True))
            )
        case DistinctLiterals(texts, low, high):
            if not isinstance(value, list) or isinstance(value, _Pairs):
                return False
            spelt = [_dumps(item) for item in value]
            return (
                low <= len(spelt) <= high
                and len(set(spelt)) == len(spelt)
                and set(spelt) <= set(texts)
            )
        case Object() as rules:
            return isinstance(value, _Pairs) and _valid_object(nodes, rules, value)
    raise AssertionError


def _valid_object(nodes: tuple[Node, ...], rules: Object, members: _Pairs) -> bool:
    names = [key for key, _ in members]
    order = {p.key: rank for rank, p in enumerate(rules.properties)}
    ranks = [order.get(name, len(order)) for name in names]
    if ranks != sorted(ranks) or len(set(names)) != len(names):
        return False
    if any(p.required and p.key not in names for p in rules.properties):
        return False
    high = len(names) if rules.max_properties is None else rules.max_properties
    if not rules.min_properties <= len(names) <= high:
        return False
    for name, value in members:
        if name in order:
            node = rules.properties[order[name]].node
        else:
            label = -1 if rules.keys is None else rules.keys.label(name)
            if label < 0:
                return False
            node = rules.values[label]
        if not _valid(nodes, node, value):
            return False
    return True
