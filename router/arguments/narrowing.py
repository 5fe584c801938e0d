"""A tool's grammar without what the request does not speak of.

Owns which optional members are closed, at every depth, and the grammar that is left. What is left
is less than the schema allows and never more, and always has a value. Never reads a request: it is
told what is spoken of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.nodes import ArgumentGrammar, Array, Object, Property, Union

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_compiler.arguments.nodes import Node
    from router.arguments.parameters import Parameter, Parameters

MAX_DEPTH: Final = 4
"""Levels of members and items that are looked at; deeper ones stay as they are."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What is left of a grammar.

    Attributes:
        grammar: accepts some of what the whole one accepts.
        closed: the members that were closed, wherever the same subschemas are in the arguments.

    """

    grammar: ArgumentGrammar
    closed: frozenset[Parameter]


def narrowed(
    grammar: ArgumentGrammar, parameters: Parameters, spoken_of: Callable[[Parameter], bool]
) -> Narrowed:
    """Close the optional members that a request does not speak of.

    An object keeps all of its members where fewer could be left than it must have. A member that
    the schema's reading in short does not know stays open.

    Args:
        grammar: of a tool's arguments.
        parameters: the same schema in short.
        spoken_of: whether the request speaks of a parameter.

    """
    work = _Narrowing(grammar, parameters, spoken_of, list(grammar.nodes))
    root = work.visit(grammar.root, parameters.arguments, 1)
    if not work.closed:
        return Narrowed(grammar, frozenset())
    return Narrowed(_reachable(work.nodes, root), frozenset(work.closed))


@dataclass(slots=True)
class _Narrowing:
    """`nodes` grows by what is narrowed; a node that is not stays where it was.

    Each node is narrowed once for each depth and what is known below it, however many ways lead
    there and whatever they are called.
    """

    grammar: ArgumentGrammar
    parameters: Parameters
    spoken_of: Callable[[Parameter], bool]
    nodes: list[Node]
    closed: set[Parameter] = field(default_factory=set)
    open: dict[Parameter, bool] = field(default_factory=dict)
    places: dict[tuple[int, int, int, int], int] = field(default_factory=dict)

    def visit(self, position: int, parameter: Parameter, depth: int) -> int:
        """Return where the narrowed node is."""
        if not isinstance(self.grammar.nodes[position], Object | Array | Union):
            return position
        members, items = self.parameters.members(parameter), self.parameters.items(parameter)
        place = (position, id(members), id(items), depth)  # the parameters keep both alive
        if place not in self.places:
            self.places[place] = self._narrow(position, parameter, depth)
        return self.places[place]

    def _narrow(self, position: int, parameter: Parameter, depth: int) -> int:
        node = self.grammar.nodes[position]
        made: Node = node
        match node:
            case Object():
                made = self._object(node, parameter, depth)
            case Array(prefix=(), rest=int(rest)) if depth < MAX_DEPTH:
                below = self.visit(rest, self.parameters.items(parameter), depth + 1)
                made = replace(node, rest=below)
            case Union(options):
                each = (self.visit(option, parameter, depth) for option in options)
                made = Union(tuple(each))
        if made == node:
            return position
        self.nodes.append(made)
        return len(self.nodes) - 1

    def _object(self, node: Object, parameter: Parameter, depth: int) -> Object:
        known = {member.key: member for member in self.parameters.members(parameter)}
        kept, closed = [], set()
        for each in node.properties:
            member = known.get(each.key)
            if member is None or each.required or self._is_open(member):
                kept.append(each)
            else:
                closed.add(member)
        if len(kept) < node.min_properties:  # free keys may be too few, and say less
            kept, closed = list(node.properties), set()
        self.closed |= closed
        if depth < MAX_DEPTH:
            kept = [self._member(each, known.get(each.key), depth) for each in kept]
        return replace(node, properties=tuple(kept))

    def _member(self, each: Property, member: Parameter | None, depth: int) -> Property:
        if member is None:
            return each
        return replace(each, node=self.visit(each.node, member, depth + 1))

    def _is_open(self, member: Parameter) -> bool:
        if member not in self.open:
            self.open[member] = self.spoken_of(member)
        return self.open[member]


def _reachable(nodes: list[Node], root: int) -> ArgumentGrammar:
    """Return the nodes that the root leads to, the root first."""
    places, order = {root: 0}, [root]

    def place(position: int) -> int:
        if position not in places:
            places[position] = len(order)
            order.append(position)
        return places[position]

    found: list[Node] = []
    for position in order:  # grows while it is read
        node = nodes[position]
        match node:
            case Union(options):
                node = Union(tuple(map(place, options)))
            case Array(prefix, rest):
                after = None if rest is None else place(rest)
                node = replace(node, prefix=tuple(map(place, prefix)), rest=after)
            case Object(properties, _, values):
                members = tuple(replace(each, node=place(each.node)) for each in properties)
                node = replace(node, properties=members, values=tuple(map(place, values)))
        found.append(node)
    return ArgumentGrammar(tuple(found), 0)
