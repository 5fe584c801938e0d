"""What follows from the argument tables: how far each state is from an end, how deep nodes go.

Owns the facts that keep the machine out of dead ends: a text's shortest rest, how many keys are
left, the least nesting of a value. Worked out once for all grammars of a catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decoder.arguments.depths import depths_of
from decoder.arguments.graph import MANY, NEVER, AutomataGraph
from decoder.arguments.levels import Levels, levels_of
from decoder.arguments.tables import NONE, OBJECT

if TYPE_CHECKING:
    from decoder.arguments.tables import ArgumentTables
    from decoder.kernels.base import I32, I64


@dataclass(frozen=True, slots=True, eq=False)
class TableFacts:
    """Facts about the states and nodes of some tables.

    Attributes:
        automata: (automata, 5) int32: those of the tables, then those of free keys near the bound
            on nesting (`levels`), which have the intervals and transitions of others.
        accepts: (states,) int32: the label of each of their states, or NONE.
        distance: (states,) int32: characters of the shortest rest from each state, or NEVER.
        farthest: (automata,) int32: the largest distance that is not NEVER, else 0.
        texts: (states,) int64: how many rests there are, at most MANY.
        universal: (states,) int32: 1 where a text may end and every character leads back.
        labels: (tables' automata+1,) int32: where each automaton's labels begin in `label_texts`;
            those that are not of free keys have none.
        label_texts: (labels,) int64: how many texts have each label, at most MANY.
        depth: (nodes,) int32: containers within one another in the flattest value; NEVER where
            there is none, or none within MAX_DEPTH.
        required: (properties+1,) int32: required ones before each entry of property_nodes.
        levels: the automata of free keys by how deep their values may be.

    """

    automata: I32
    accepts: I32
    distance: I32
    farthest: I32
    texts: I64
    universal: I32
    labels: I32
    label_texts: I64
    depth: I32
    required: I32
    levels: Levels


def facts_of(tables: ArgumentTables) -> TableFacts:
    """Work the facts out."""
    graph = AutomataGraph(tables, tables.automata, tables.accepts)
    distance = graph.distances()
    texts = graph.counts(distance)
    labels, label_texts = _labels(tables, graph, distance, texts)
    required = np.zeros(len(tables.property_required) + 1, np.int32)
    required[1:] = np.cumsum(tables.property_required)
    depth = depths_of(tables, distance, labels, label_texts, required)
    levels, rows, accepts = levels_of(tables, depth, labels)
    further = AutomataGraph(tables, rows, accepts)
    further_distance = further.distances()
    rows = rows + np.array([0, 0, 0, 0, len(tables.accepts)], np.int32)
    distance = np.concatenate([distance, further_distance])
    automata = np.concatenate([tables.automata, rows])
    return TableFacts(
        automata=automata,
        accepts=np.concatenate([tables.accepts, accepts]),
        distance=distance,
        farthest=_farthest(automata, distance),
        texts=np.concatenate([texts, further.counts(further_distance)]),
        universal=np.concatenate([graph.universal, further.universal]),
        labels=labels,
        label_texts=label_texts,
        depth=depth,
        required=required,
        levels=levels,
    )


def _labels(
    tables: ArgumentTables, graph: AutomataGraph, distance: I32, texts: I64
) -> tuple[I32, I64]:
    """Return where each automaton's labels begin, and how many texts each label has."""
    objects = tables.nodes[tables.nodes[:, 0] == OBJECT]
    of_keys = np.zeros(len(tables.automata), np.bool_)
    of_keys[objects[objects[:, 4] != NONE, 4]] = True
    sizes = np.zeros(len(tables.automata), np.int64)
    ending = np.flatnonzero((graph.accepts >= 0) & of_keys[graph.automaton])
    np.maximum.at(sizes, graph.automaton[ending], graph.accepts[ending].astype(np.int64) + 1)
    starts = np.zeros(len(sizes) + 1, np.int32)
    starts[1:] = np.cumsum(sizes)
    found = np.zeros(int(starts[-1]), np.int64)
    first = tables.automata[:, 4].astype(np.int64)
    found[starts[:-1][sizes == 1]] = texts[first[sizes == 1]]
    ways = graph.ways(first[sizes > 1], distance)
    ending = ending[sizes[graph.automaton[ending]] > 1]
    np.add.at(found, starts[graph.automaton[ending]] + graph.accepts[ending], ways[ending])
    return starts, np.minimum(found, MANY)


def _farthest(automata: I32, distance: I32) -> I32:
    found = np.zeros(len(automata), np.int32)
    sizes = np.diff(automata[:, 4], append=np.int32(len(distance)))
    automaton = np.repeat(np.arange(len(found)), sizes)
    alive = distance < NEVER
    np.maximum.at(found, automaton[alive], distance[alive])
    return found
