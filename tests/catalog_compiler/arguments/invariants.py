"""What `nodes` says of a grammar, as checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from catalog_compiler.arguments.nodes import (
    Array,
    DistinctLiterals,
    Literals,
    Number,
    Object,
    Text,
    Union,
)

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton
    from catalog_compiler.arguments.nodes import ArgumentGrammar, Node


def check(grammar: ArgumentGrammar) -> None:
    """Assert that a grammar is what `nodes` says."""
    nodes = grammar.nodes
    reached, queue = {grammar.root}, [grammar.root]
    while queue:
        for below in references(nodes[queue.pop()]):
            assert 0 <= below < len(nodes)
            if below not in reached:
                reached.add(below)
                queue.append(below)
    assert reached == set(range(len(nodes))), "every node is reached"
    finite: set[int] = set()
    while True:
        more = {at for at, node in enumerate(nodes) if has_value(node, finite)}
        if more == finite:
            break
        finite = more
    assert finite == reached, "every node accepts something finite"
    for node in nodes:
        check_node(node, nodes)


def references(node: Node) -> tuple[int, ...]:
    if isinstance(node, Union):
        return node.options
    if isinstance(node, Array):
        return (*node.prefix, *(() if node.rest is None else (node.rest,)))
    if isinstance(node, Object):
        return (*(each.node for each in node.properties), *node.values)
    return ()


def has_value(node: Node, finite: set[int]) -> bool:
    if isinstance(node, Union):
        return any(option in finite for option in node.options)
    if isinstance(node, Array):
        needed = [
            node.prefix[at] if at < len(node.prefix) else node.rest
            for at in range(min(node.min_items, len(node.prefix) + 1))
        ]
        return all(each in finite for each in needed)
    if isinstance(node, Object):
        return all(each.node in finite for each in node.properties if each.required)
    return True


def check_node(node: Node, nodes: tuple[Node, ...]) -> None:
    match node:
        case Union():
            assert len(node.options) > 1
            assert len(set(node.options)) == len(node.options)
            assert not any(isinstance(nodes[option], Union) for option in node.options)
        case Literals():
            check_literals(node.texts)
        case DistinctLiterals():
            check_literals(node.texts)
            assert len(node.texts) <= 64
            assert 0 <= node.min_items <= node.max_items <= len(node.texts)
        case Text():
            assert node.max_chars is None or node.min_chars <= node.max_chars
            if node.automaton is not None:
                check_automaton(node.automaton)
        case Number():
            assert not node.automaton.empty
        case Array():
            assert node.max_items is None or node.min_items <= node.max_items
            if node.rest is None:
                assert node.min_items <= len(node.prefix)
            if node.max_items is not None:
                assert len(node.prefix) <= node.max_items
        case Object():
            keys = [each.key for each in node.properties]
            assert len(set(keys)) == len(keys)
            required = sum(each.required for each in node.properties)
            if node.max_properties is not None:
                assert max(required, node.min_properties) <= node.max_properties
            if node.keys is None:
                assert node.min_properties <= len(keys)
                assert not node.values
            else:
                check_automaton(node.keys)
                assert not any(node.keys.accepts_text(key) for key in keys)
                labels = {label for label in node.keys.accepts if label >= 0}
                assert labels == set(range(len(node.values)))


def check_literals(texts: tuple[bytes, ...]) -> None:
    assert texts
    assert list(texts) == sorted(set(texts))
    for text in texts:
        value = json.loads(text)
        assert json.dumps(value, ensure_ascii=False).encode() == text


def check_automaton(automaton: Automaton) -> None:
    """Assert that every state is reached and can be completed."""
    assert automaton.starts[0] == 0
    assert list(automaton.starts) == sorted(set(automaton.starts))
    assert len(automaton.classes) == len(automaton.starts)
    width = max(automaton.classes) + 1
    assert automaton.table
    assert all(len(row) == width for row in automaton.table)
    reached, queue = {0}, [0]
    while queue:
        for following in automaton.table[queue.pop()]:
            if following >= 0 and following not in reached:
                reached.add(following)
                queue.append(following)
    assert reached == set(range(len(automaton.table)))
    alive = {state for state, label in enumerate(automaton.accepts) if label >= 0}
    grown = True
    while grown:
        more = {
            state
            for state, row in enumerate(automaton.table)
            if state in alive or any(following in alive for following in row)
        }
        grown, alive = more != alive, more
    assert alive == reached
