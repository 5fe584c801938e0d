"""The tables of a catalog's argument grammars, as the decoder is handed them.

Owns `ArgumentTables`: what `docs/arguments.md` lays out, with every index checked once, so that
what walks it (C included) never has to. Never knows a schema, a tool or a tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

from decoder.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from decoder.kernels.base import I32

UNION, LITERALS, TEXT, NUMBER, ARRAY, DISTINCT, OBJECT = range(7)
NONE: Final = -1
"""Stands for an absent node, automaton, trie or bound."""
COLUMNS: Final = 8
MAX_CODE_POINT: Final = 0x10FFFF
MAX_DISTINCT: Final = 64
"""Literals of an array without repeats: which were used is one word."""


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentTables:
    """One pool of grammars; arrays are int32 and named as in `docs/arguments.md`.

    Raises:
        RequestError: naming the array that contradicts the others.

    """

    nodes: I32
    lists: I32
    property_nodes: I32
    property_required: I32
    trie_edges: I32
    trie_bytes: I32
    trie_targets: I32
    trie_values: I32
    trie_leaves: I32
    trie_order: I32
    automata: I32
    interval_starts: I32
    interval_classes: I32
    transitions: I32
    accepts: I32

    def __post_init__(self) -> None:
        """Check every index."""
        for name in self.names():
            array = getattr(self, name)
            width = {"nodes": COLUMNS, "trie_leaves": 2, "automata": 5}.get(name)
            shape = (len(array),) if width is None else (len(array), width)
            _require(array.dtype == np.int32 and array.shape == shape, name)
            _require(bool(array.flags.c_contiguous), name)
        _require(_within(self.lists, 0, len(self.nodes)), "lists")
        _require(_within(self.property_nodes, 0, len(self.nodes)), "property_nodes")
        _require(
            len(self.property_required) == len(self.property_nodes)
            and _within(self.property_required, 0, 2),
            "property_required",
        )
        self._check_tries()
        self._check_automata()
        self._check_nodes()

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return the arrays' names."""
        return tuple(item.name for item in fields(ArgumentTables))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> ArgumentTables:
        """Take the arrays by name; others beside them (`roots`) are left alone.

        Raises:
            RequestError: one is missing, has another type, or contradicts the others.

        """
        missing = [name for name in cls.names() if name not in arrays]
        if missing:
            raise RequestError(f"the argument tables lack {missing[0]}; compile the catalog again")
        kept: dict[str, I32] = {}
        for name in cls.names():
            array = np.asarray(arrays[name])
            _require(array.dtype == np.int32, name)
            kept[name] = np.ascontiguousarray(array, dtype=np.int32)
        return cls(**kept)

    def states_of(self, automaton: int) -> tuple[int, int]:
        """Return the first state of an automaton and the one past its last."""
        last = automaton + 1 == len(self.automata)
        end = len(self.accepts) if last else int(self.automata[automaton + 1, 4])
        return int(self.automata[automaton, 4]), end

    def state_ends(self) -> I32:
        """Return, for each automaton, the state past its last one."""
        ends: I32 = np.append(self.automata[1:, 4], np.int32(len(self.accepts))).astype(np.int32)
        return ends[: len(self.automata)]

    def _check_tries(self) -> None:
        edges, leaves, values = self.trie_edges, self.trie_leaves, self.trie_values
        count = len(values)
        _require(
            len(edges) == count + 1
            and edges[0] == 0
            and edges[-1] == len(self.trie_bytes)
            and bool((np.diff(edges) >= 0).all()),
            "trie_edges",
        )
        source = np.repeat(np.arange(count), np.diff(edges))
        same = source[1:] == source[:-1] if len(source) else np.zeros(0, np.bool_)
        _require(
            _within(self.trie_bytes, 0, 256)
            and bool((~same | (np.diff(self.trie_bytes) > 0)).all()),
            "trie_bytes",
        )
        targets = self.trie_targets
        _require(
            len(targets) == len(self.trie_bytes)
            and _within(targets, 0, count)
            and bool((targets > source).all()),
            "trie_targets",
        )
        low, high = leaves[:, 0], leaves[:, 1]
        _require(
            len(leaves) == count
            and bool((low >= 0).all() and (high > low).all())
            and (not count or int(high.max()) <= len(self.trie_order)),
            "trie_leaves",
        )
        _require(
            bool((low[targets] >= low[source]).all() and (high[targets] <= high[source]).all()),
            "trie_leaves",
        )
        ending = values >= 0
        _require(
            bool((values >= NONE).all())
            and bool((self.trie_order[low[ending]] == values[ending]).all())
            and bool(ending[np.diff(edges) == 0].all()),
            "trie_values",
        )
        _require(bool((self.trie_order >= 0).all()), "trie_order")

    def _check_automata(self) -> None:
        rows = self.automata
        first, end, width, entry, state = (rows[:, column] for column in range(5))
        _require(
            bool((first >= 0).all() and (end > first).all() and (width >= 0).all())
            and bool((entry >= 0).all() and (state >= 0).all())
            and (not len(rows) or int(end.max()) <= len(self.interval_starts)),
            "automata",
        )
        states = self.state_ends() - state
        cells = states.astype(np.int64) * width
        _require(
            bool((states >= 0).all())
            and (not len(rows) or int(state[0]) == 0)
            and bool((entry + cells <= len(self.transitions)).all()),
            "automata",
        )
        _require(len(self.interval_classes) == len(self.interval_starts), "interval_classes")
        _require(_within(self.interval_starts, 0, MAX_CODE_POINT + 1), "interval_starts")
        _require(bool((self.accepts >= NONE).all()), "accepts")
        for k in range(len(rows)):
            starts = self.interval_starts[first[k] : end[k]]
            _require(starts[0] == 0 and bool((np.diff(starts) > 0).all()), "interval_starts")
            classes = self.interval_classes[first[k] : end[k]]
            _require(not states[k] or _within(classes, 0, int(width[k])), "interval_classes")
            cells_of = self.transitions[entry[k] : entry[k] + cells[k]]
            _require(_within(cells_of, NONE, int(states[k])), "transitions")

    def _check_nodes(self) -> None:
        rows = self.nodes
        kind = rows[:, 0]
        _require(_within(kind, UNION, OBJECT + 1), "nodes")
        unions = rows[kind == UNION]
        _check_ranges(unions[:, 1], unions[:, 2], len(self.lists), "the options of a union")
        _require(bool((unions[:, 2] > unions[:, 1]).all()), "the options of a union")
        for row in unions:
            _require(bool((kind[self.lists[row[1] : row[2]]] != UNION).all()), "a union's options")
        tries = len(self.trie_values)
        _require(_within(rows[kind == LITERALS][:, 1], 0, tries), "the trie of literals")
        automata = len(self.automata)
        texts = rows[kind == TEXT]
        _require(_within(texts[:, 1], NONE, automata), "the automaton of a text")
        _check_bounds(texts[:, 2], texts[:, 3], "the bounds of a text")
        _require(_within(rows[kind == NUMBER][:, 1], 0, automata), "the automaton of a number")
        lists = rows[kind == ARRAY]
        _check_ranges(lists[:, 1], lists[:, 2], len(self.lists), "the items of an array")
        _require(_within(lists[:, 3], NONE, len(rows)), "the further items of an array")
        _check_bounds(lists[:, 4], lists[:, 5], "the bounds of an array")
        held = lists[:, 2] - lists[:, 1]
        _require(
            bool(((lists[:, 3] != NONE) | (lists[:, 4] <= held)).all()), "the bounds of an array"
        )
        self._check_distinct(rows[kind == DISTINCT])
        self._check_objects(rows[kind == OBJECT])

    def _check_distinct(self, rows: I32) -> None:
        count = rows[:, 2]
        _require(_within(rows[:, 1], 0, len(self.trie_values)), "the trie of distinct literals")
        _require(_within(count, 1, MAX_DISTINCT + 1), "the number of distinct literals")
        _check_bounds(rows[:, 3], rows[:, 4], "the bounds of distinct literals")
        _require(
            bool((rows[:, 4] >= 0).all() and (rows[:, 4] <= count).all()),
            "the bounds of distinct literals",
        )
        self._check_positions(rows[:, 1], count, "the trie of distinct literals")

    def _check_objects(self, rows: I32) -> None:
        first, end, trie, keys, values = (rows[:, column] for column in range(1, 6))
        _check_ranges(first, end, len(self.property_nodes), "the properties of an object")
        _require(_within(trie, NONE, len(self.trie_values)), "the keys of an object")
        _require(bool(((trie == NONE) == (first == end)).all()), "the keys of an object")
        keyed = trie != NONE
        self._check_positions(trie[keyed], (end - first)[keyed], "the keys of an object")
        _require(_within(keys, NONE, len(self.automata)), "the free keys of an object")
        _check_bounds(rows[:, 6], rows[:, 7], "the bounds of an object")
        labels = np.zeros(len(self.automata), np.int64)
        for k in range(len(labels)):
            start, past = self.states_of(k)
            labels[k] = int(self.accepts[start:past].max(initial=NONE)) + 1
        free = keys != NONE
        _require(
            bool((values[free] >= 0).all())
            and bool((values[free] + labels[keys[free]] <= len(self.lists)).all()),
            "the free values of an object",
        )

    def _check_positions(self, tries: I32, counts: I32, what: str) -> None:
        """Refuse a trie whose values are not 0 to count-1, each once."""
        for trie, count in zip(tries.tolist(), counts.tolist(), strict=True):
            low, high = self.trie_leaves[trie].tolist()
            found = np.sort(self.trie_order[low:high])
            _require(len(found) == count and bool((found == np.arange(count)).all()), what)


def _require(sound: bool, what: str) -> None:  # noqa: FBT001 - what is checked comes first
    if not sound:
        raise RequestError(
            f"the argument tables are malformed: {what} contradicts the rest; compile the catalog "
            "again"
        )


def _within(array: I32, low: int, end: int) -> bool:
    return not array.size or bool(int(array.min()) >= low and int(array.max()) < end)


def _check_ranges(first: I32, end: I32, length: int, what: str) -> None:
    _require(bool((first >= 0).all() and (end >= first).all() and (end <= length).all()), what)


def _check_bounds(low: I32, high: I32, what: str) -> None:
    sound = (low >= 0) & ((high == NONE) | (high >= low))
    _require(bool(sound.all() and (high >= NONE).all()), what)
