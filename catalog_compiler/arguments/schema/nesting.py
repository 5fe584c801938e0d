"""How many containers within one another the flattest value of a grammar takes.

Owns the bound on it: whoever writes arguments opens no more at once, so that a grammar all of whose
values are deeper could never be written under.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.nodes import Array, DistinctLiterals, Object, Union
from catalog_compiler.arguments.schema import texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_compiler.arguments.nodes import ArgumentGrammar, Node

MAX_NESTING: Final = 64
"""Containers that may be open at once; the decoder has the same bound."""


def is_too_deep(grammar: ArgumentGrammar) -> bool:
    """Tell whether every value of a grammar nests beyond the bound."""
    # On the way down to the innermost container of a flattest value no node comes twice.
    containers = sum(isinstance(node, Array | Object | DistinctLiterals) for node in grammar.nodes)
    return containers > MAX_NESTING and grammar.root not in _within(grammar.nodes, MAX_NESTING)


def _within(nodes: tuple[Node, ...], most: int) -> set[int]:
    """Return the nodes some value of which has at most so many containers within one another."""
    above: list[list[int]] = [[] for _ in nodes]
    leaves, containers = [], []
    for number, node in enumerate(nodes):
        for child in dict.fromkeys(_below(node)):
            above[child].append(number)
        if isinstance(node, Array | Object | DistinctLiterals):
            containers.append(number)
        elif not isinstance(node, Union):
            leaves.append(number)
    found: set[int] = set()
    new = _with_unions(leaves, nodes, above, found)
    asked: Iterable[int] = containers
    for _ in range(most):
        found |= new
        flat = [each for each in asked if each not in found and _has_value(nodes[each], found)]
        new = _with_unions(flat, nodes, above, found)
        asked = {up for each in new for up in above[each] if not isinstance(nodes[up], Union)}
    return found | new


def _with_unions(
    flat: list[int], nodes: tuple[Node, ...], above: list[list[int]], found: set[int]
) -> set[int]:
    """Return nodes with the unions that have them as options, those found before left out."""
    unions = {up for each in flat for up in above[each] if isinstance(nodes[up], Union)}
    return {*flat, *unions} - found


def _below(node: Node) -> Iterable[int]:
    match node:
        case Union(options):
            return options
        case Array(prefix, rest):
            return prefix if rest is None else (*prefix, rest)
        case Object(properties, _, values):
            return (*(each.node for each in properties), *values)
    return ()


def _has_value(node: Node, found: set[int]) -> bool:
    """Tell whether a container has a value with what was found within it."""
    if isinstance(node, Array):
        rest = () if node.rest is None or node.min_items <= len(node.prefix) else (node.rest,)
        return found.issuperset((*node.prefix[: node.min_items], *rest))
    if not isinstance(node, Object):
        return True
    if not all(each.node in found for each in node.properties if each.required):
        return False
    more = node.min_properties - sum(each.node in found for each in node.properties)
    if more <= 0 or node.keys is None:
        return more <= 0
    keys = texts.relabelled(node.keys, lambda each: each if node.values[each] in found else -1)
    return texts.count_texts(keys, more) >= more
