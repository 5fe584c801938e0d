"""One pool of argument grammars for a whole catalog, as flat arrays, and back.

Owns the layout of `docs/arguments.md` and the sharing: equal parts of different tools are stored
once, cycles (recursive schemas) included. Never reads a schema and never walks a text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from catalog_compiler.arguments.automaton import Automaton
from catalog_compiler.arguments.cycles import components
from catalog_compiler.arguments.nodes import (
    KEY_SEPARATOR,
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
from catalog_compiler.arguments.tries import TriePool, trie_texts
from catalog_compiler.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

Arrays: TypeAlias = "dict[str, npt.NDArray[np.int32]]"

UNION, LITERALS, TEXT, NUMBER, ARRAY, DISTINCT, OBJECT = range(7)
COLUMNS: Final = 8
NONE: Final = -1
"""Stands for an absent node, automaton, trie or bound."""

DIMENSIONS: Final = {
    "roots": 1, "nodes": 2, "lists": 1, "property_nodes": 1, "property_required": 1,
    "trie_edges": 1, "trie_bytes": 1, "trie_targets": 1, "trie_values": 1, "trie_leaves": 2,
    "trie_order": 1, "automata": 2, "interval_starts": 1, "interval_classes": 1,
    "transitions": 1, "accepts": 1,
}  # fmt: skip
"""Every table by name, with its number of dimensions."""

_Key: TypeAlias = tuple[object, ...]


def check_tables(arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Check that all tables are there and of the right form; what they say is not looked at.

    Raises:
        ValueError: naming the table.

    """
    for name, dimensions in DIMENSIONS.items():
        array = arrays.get(name)
        if array is None or array.dtype != np.int32 or array.ndim != dimensions:
            raise ValueError(f"the argument table {name} is missing or of another form")


def spell_key(key: str) -> bytes:
    """Return a declared key as it is written, with what follows it."""
    return json.dumps(key, ensure_ascii=False).encode("utf-8", "replace") + KEY_SEPARATOR


def children(node: Node) -> tuple[int, ...]:
    """Return the nodes that a node leads to, in a fixed order."""
    match node:
        case Union(options):
            return options
        case Array(prefix, rest):
            return prefix if rest is None else (*prefix, rest)
        case Object(properties, _, values):
            return (*(member.node for member in properties), *values)
    return ()


class ArgumentPool:
    """Collects the grammars of a catalog's tools; the order of adding fixes the numbers."""

    def __init__(self) -> None:
        """Begin empty."""
        self._rows: list[list[int]] = []
        self._known: dict[_Key, list[int]] = {}
        self._lists: list[int] = []
        self._list_starts: dict[tuple[int, ...], int] = {}
        self._property_nodes: list[int] = []
        self._property_required: list[int] = []
        self._tries = TriePool()
        self._automata: dict[Automaton, int] = {}

    def add(self, grammar: ArgumentGrammar) -> int:
        """Add a grammar; return the number of its root node."""
        numbers: dict[int, int] = {}
        successors = [children(node) for node in grammar.nodes]
        for component in components(successors, grammar.root):
            # A component comes after all that it leads to, so only its own members lack numbers.
            order = {position: place for place, position in enumerate(component)}

            def name(child: int, order: dict[int, int] = order) -> tuple[str, int]:
                return ("own", order[child]) if child in order else ("pool", numbers[child])

            cyclic = len(component) > 1 or component[0] in successors[component[0]]
            key: _Key = tuple(_content(grammar.nodes[p], name) for p in component)
            found = self._known.get(key)
            if found is None:
                first = len(self._rows)
                found = list(range(first, first + len(component)))
                self._known[key] = found
                self._rows.extend([] for _ in component)
                if cyclic:
                    numbers.update(zip(component, found, strict=True))
                for position, number in zip(component, found, strict=True):
                    self._rows[number] = self._row(grammar.nodes[position], numbers)
            numbers.update(zip(component, found, strict=True))
        return numbers[grammar.root]

    def to_arrays(self) -> Arrays:
        """Return the tables, `roots` aside, by the names of `docs/arguments.md`."""
        rows = np.zeros((len(self._rows), COLUMNS), np.int32)
        for number, row in enumerate(self._rows):
            rows[number, : len(row)] = row
        return {
            "nodes": rows,
            "lists": _ints(self._lists),
            "property_nodes": _ints(self._property_nodes),
            "property_required": _ints(self._property_required),
            **self._tries.to_arrays(),
            **_automata_arrays(list(self._automata)),
        }

    def _row(self, node: Node, numbers: Mapping[int, int]) -> list[int]:
        match node:
            case Union(options):
                return [UNION, *self._list([numbers[option] for option in options])]
            case Literals(texts):
                return [LITERALS, self._tries.add(texts)]
            case Text(automaton, low, high):
                return [TEXT, self._automaton(automaton), low, _bound(high)]
            case Number(automaton):
                return [NUMBER, self._automaton(automaton)]
            case Array(prefix, rest, low, high):
                items = self._list([numbers[item] for item in prefix])
                return [ARRAY, *items, NONE if rest is None else numbers[rest], low, _bound(high)]
            case DistinctLiterals(texts, low, high):
                return [DISTINCT, self._tries.add(texts), len(texts), low, high]
            case Object(properties, keys, values, low, high):
                first = len(self._property_nodes)
                self._property_nodes += [numbers[member.node] for member in properties]
                self._property_required += [int(member.required) for member in properties]
                trie = NONE
                if properties:
                    trie = self._tries.add([spell_key(member.key) for member in properties])
                free = self._list([numbers[value] for value in values])[0]
                end = first + len(properties)
                free_keys = self._automaton(keys)
                return [OBJECT, first, end, trie, free_keys, free, low, _bound(high)]
        raise TypeError(f"{node!r} is no node")  # pragma: no cover

    def _list(self, numbers: Sequence[int]) -> tuple[int, int]:
        """Return where the numbers stand in `lists`, storing them first where they are new."""
        key = tuple(numbers)
        start = self._list_starts.get(key)
        if start is None:
            start = self._list_starts[key] = len(self._lists)
            self._lists.extend(key)
        return start, start + len(key)

    def _automaton(self, automaton: Automaton | None) -> int:
        if automaton is None:
            return NONE
        return self._automata.setdefault(automaton, len(self._automata))


def _content(node: Node, name: Callable[[int], tuple[str, int]]) -> _Key:
    """Return all that a node says, its children under the names that are given."""
    below = tuple(name(child) for child in children(node))
    match node:
        case Union():
            return ("union", below)
        case Array(prefix, rest, low, high):
            return ("array", len(prefix), rest is None, low, high, below)
        case Object(properties, keys, _, low, high):
            members = tuple((member.key, member.required) for member in properties)
            return ("object", members, keys, low, high, below)
    return (type(node).__name__, node)


def _bound(value: int | None) -> int:
    return NONE if value is None else value


def _ints(values: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32).reshape(len(values))


def _automata_arrays(automata: Sequence[Automaton]) -> Arrays:
    rows: list[list[int]] = []
    starts: list[int] = []
    classes: list[int] = []
    transitions: list[int] = []
    accepts: list[int] = []
    for automaton in automata:
        width = max(automaton.classes, default=-1) + 1
        first, end = len(starts), len(starts) + len(automaton.starts)
        rows.append([first, end, width, len(transitions), len(accepts)])
        starts += automaton.starts
        classes += automaton.classes
        for line in automaton.table:
            transitions += line
        accepts += automaton.accepts
    return {
        "automata": np.array(rows, dtype=np.int32).reshape(len(rows), 5),
        "interval_starts": _ints(starts),
        "interval_classes": _ints(classes),
        "transitions": _ints(transitions),
        "accepts": _ints(accepts),
    }


def grammar_at(arrays: Mapping[str, npt.NDArray[np.generic]], root: int) -> ArgumentGrammar:
    """Read one tool's grammar back.

    Args:
        arrays: what `ArgumentPool.to_arrays` made.
        root: the tool's entry of `roots`, not -1.

    Raises:
        ArtifactError: the arrays contradict one another.

    """
    try:
        return _Reader(arrays).read(root)
    except (IndexError, KeyError, ValueError) as error:
        raise ArtifactError(
            f"the argument tables are malformed at node {root} ({error}); compile the catalog again"
        ) from error


class _Reader:
    def __init__(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._arrays = arrays

    def read(self, root: int) -> ArgumentGrammar:
        places: dict[int, int] = {root: 0}
        waiting, nodes = [root], list[Node]()

        def place(number: int) -> int:
            if number not in places:
                places[number] = len(places)
                waiting.append(number)
            return places[number]

        for number in waiting:  # grows while it is read
            nodes.append(self._node(number, place))
        return ArgumentGrammar(tuple(nodes), 0)

    def _node(self, number: int, place: Callable[[int], int]) -> Node:
        kind, *row = (int(value) for value in self._arrays["nodes"][number])
        match kind:
            case 0:
                return Union(tuple(map(place, self._ints("lists", row[0], row[1]))))
            case 1:
                return Literals(tuple(trie_texts(self._arrays, row[0])))
            case 2:
                return Text(self._automaton(row[0]), row[1], _unbound(row[2]))
            case 3:
                automaton = self._automaton(row[0])
                if automaton is None:
                    raise ValueError("a number without an automaton")
                return Number(automaton)
            case 4:
                prefix = tuple(map(place, self._ints("lists", row[0], row[1])))
                rest = None if row[2] == NONE else place(row[2])
                return Array(prefix, rest, row[3], _unbound(row[4]))
            case 5:
                return DistinctLiterals(tuple(trie_texts(self._arrays, row[0])), row[2], row[3])
            case 6:
                return self._object(row, place)
        raise ValueError(f"there is no kind {kind}")

    def _object(self, row: list[int], place: Callable[[int], int]) -> Object:
        first, end, trie, automaton, free, low, high = row
        spelt = [] if trie == NONE else trie_texts(self._arrays, trie)
        tail = len(KEY_SEPARATOR)
        properties = tuple(
            Property(json.loads(text[:-tail]), place(node), bool(required))
            for text, node, required in zip(
                spelt,
                self._ints("property_nodes", first, end),
                self._ints("property_required", first, end),
                strict=True,
            )
        )
        keys = self._automaton(automaton)
        labels = 0 if keys is None else max(keys.accepts, default=-1) + 1
        values = tuple(map(place, self._ints("lists", free, free + labels)))
        return Object(properties, keys, values, low, _unbound(high))

    def _automaton(self, number: int) -> Automaton | None:
        if number == NONE:
            return None
        automata = self._arrays["automata"]
        first, end, width, entry, state = (int(value) for value in automata[number])
        last = number + 1 == len(automata)
        beyond = len(self._arrays["accepts"]) if last else int(automata[number + 1][4])
        table = self._ints("transitions", entry, entry + (beyond - state) * width)
        return Automaton(
            tuple(self._ints("interval_starts", first, end)),
            tuple(self._ints("interval_classes", first, end)),
            tuple(tuple(table[i : i + width]) for i in range(0, len(table), width)),
            tuple(self._ints("accepts", state, beyond)),
        )

    def _ints(self, name: str, start: int, end: int) -> list[int]:
        found = self._arrays[name][start:end]
        if len(found) != end - start:
            raise ValueError(f"{name} ends before {end}")
        return [int(value) for value in found]


def _unbound(value: int) -> int | None:
    return None if value == NONE else value
