"""The lexical index: field-weighted BM25 over sparse integer impacts.

Owns what a term's occurrence in a tool is worth, and the look-up. Impacts are fixed-point
integers, so sums are exact and the order of terms, the subset of tools and the batch cannot change
a bit. Never decides which tools are allowed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from router.retrieval.exclusions import split_exclusions
from router.retrieval.words import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_compiler.model import Json, Tool

IMPACT_UNIT: Final = 1.0 / 1024.0
"""What one step of an integer impact is worth, in nats of the BM25 sum."""

MAX_TERMS_PER_FIELD = 2_000
"""Terms of one field that are read; a longer text is cut, so that no description, however long,
makes its tool match everything or the index grow without bound."""

MAX_SCHEMA_NODES = 2_000
"""Nodes of one input schema that are visited for parameter texts."""

PREFIX: Final = "lexical."
"""What the names of this index's arrays start with in a compiled catalog."""


@dataclass(frozen=True, slots=True)
class LexicalConfig:
    """The constants of the ranking function.

    Attributes:
        name_weight: what one occurrence in the name counts, in occurrences in the description.
        parameter_weight: the same for parameter names and descriptions and enum values.
        saturation: BM25's k1, how soon further occurrences stop counting.
        length_penalty: BM25's b, 0 (none) to 1, on the weighted length.
        exclusion_weight: what a term of "do not use it for ..." takes away, as a share of what it
            would give. Set, not fitted: hardly any labelled query runs into one.

    """

    name_weight: float = 3.0
    parameter_weight: float = 0.6
    saturation: float = 0.6
    length_penalty: float = 0.6
    exclusion_weight: float = 0.5

    def __post_init__(self) -> None:
        """Refuse constants for which BM25 is not defined."""
        weights = (self.name_weight, self.parameter_weight, self.exclusion_weight)
        if min(weights) < 0 or self.saturation <= 0:
            raise ValueError("LexicalConfig: weights must be >= 0 and saturation > 0")
        if not 0 <= self.length_penalty <= 1:
            raise ValueError("LexicalConfig: length_penalty must lie in 0..1")


def parameter_texts(schema: Json) -> Iterable[str]:
    """Parameter names, titles, descriptions and text enums of an input schema, breadth first.

    Bounded by `MAX_SCHEMA_NODES`; anything that is not schema-shaped is passed over, since a tool
    with an odd schema must still be found by its name.
    """
    queue: list[Json] = [schema]
    for visited, node in enumerate(queue):
        if visited >= MAX_SCHEMA_NODES:
            return
        if isinstance(node, list):
            queue.extend(node)
            continue
        if not isinstance(node, dict):
            continue
        if visited:
            for key in ("title", "description"):
                if isinstance(node.get(key), str):
                    yield node[key]
        for key in ("enum", "examples"):
            values = node.get(key)
            if isinstance(values, list):
                yield from (value for value in values if isinstance(value, str))
        if isinstance(node.get("const"), str):
            yield node["const"]
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from (name for name in properties if isinstance(name, str))
            queue.extend(properties.values())
        queue.extend(node[key] for key in ("items", "anyOf", "oneOf", "allOf") if key in node)


@dataclass(frozen=True, slots=True)
class LexicalIndex:
    """Terms to tools, by compressed rows.

    Attributes:
        terms: term -> row.
        offsets: (terms+1,) int64, the postings of row r are ``offsets[r]:offsets[r+1]``.
        tools: (postings,) int32 tool indices, ascending within a row.
        impacts: (postings,) int32, the BM25 part of that term in that tool, in `IMPACT_UNIT`;
            below 0 where the term only stands in what the tool is said not to be for.
        tool_count: tools of the catalog, with or without terms.

    """

    terms: Mapping[str, int]
    offsets: npt.NDArray[np.int64]
    tools: npt.NDArray[np.int32]
    impacts: npt.NDArray[np.int32]
    tool_count: int

    def score(self, text: str) -> npt.NDArray[np.float64]:
        """Return the BM25 sum of every tool for a request: (tool_count,) f64 nats.

        Each distinct term of the request counts once; unknown terms count nothing.
        """
        total = np.zeros(self.tool_count, dtype=np.int64)
        for term in sorted(set(terms_of(text))):
            row = self.terms.get(term)
            if row is not None:
                lo, hi = self.offsets[row], self.offsets[row + 1]
                total[self.tools[lo:hi]] += self.impacts[lo:hi]
        scores: npt.NDArray[np.float64] = total.astype(np.float64) * IMPACT_UNIT
        return scores

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the index as plain arrays for a compiled catalog (see `from_arrays`)."""
        encoded = [term.encode() for term in self.terms]
        lengths = np.array([len(term) for term in encoded], dtype=np.int64)
        return {
            PREFIX + "term_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            PREFIX + "term_offsets": np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            PREFIX + "offsets": self.offsets,
            PREFIX + "tools": self.tools,
            PREFIX + "impacts": self.impacts,
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[np.generic]], tool_count: int
    ) -> LexicalIndex:
        """Read back what `to_arrays` wrote.

        Raises:
            ValueError: an array is missing, or they contradict each other.

        """
        try:
            blob = arrays[PREFIX + "term_bytes"].tobytes()
            borders = arrays[PREFIX + "term_offsets"].astype(np.int64).tolist()
            offsets = arrays[PREFIX + "offsets"].astype(np.int64)
            tools = arrays[PREFIX + "tools"].astype(np.int32, copy=False)
            impacts = arrays[PREFIX + "impacts"].astype(np.int32, copy=False)
        except KeyError as error:
            raise ValueError(f"lexical index: array {error} is missing") from error
        terms = {
            blob[lo:hi].decode(): row for row, (lo, hi) in enumerate(itertools.pairwise(borders))
        }
        sound = (
            len(terms) == len(offsets) - 1
            and offsets[0] == 0
            and offsets[-1] == len(tools) == len(impacts)
            and bool(np.all(np.diff(offsets) >= 0))
            and (len(tools) == 0 or 0 <= int(tools.min()) <= int(tools.max()) < tool_count)
        )
        if not sound:
            raise ValueError("lexical index: its arrays contradict each other")
        return cls(terms, offsets, tools, impacts, tool_count)


def build_lexical_index(tools: Sequence[Tool], config: LexicalConfig | None = None) -> LexicalIndex:
    """Index name, title, description, namespace, aliases and parameter texts of every tool.

    The inverse document frequency of a term counts names, titles and descriptions; parameter
    texts only where a term stands in no description (boiler-plate parameters repeated over a
    whole API would otherwise hide a telling word). A term that the tool has only in what it is said
    not to be for counts against it.
    """
    config = config or LexicalConfig()
    rows: dict[str, int] = {}
    term_ids: list[int] = []
    owners: list[int] = []
    weights: list[float] = []
    described: list[bool] = []
    excluded: list[bool] = []
    for index, tool in enumerate(tools):
        spoken_for, against = split_exclusions(_clip(tool.description))
        prose = " ".join((tool.title, spoken_for, tool.namespace, *tool.aliases))
        name_terms = Counter(terms_of(tool.name)[:MAX_TERMS_PER_FIELD])
        prose_terms = Counter(terms_of(_clip(prose))[:MAX_TERMS_PER_FIELD])
        parameters = " ".join(parameter_texts(tool.input_schema))
        parameter_terms = Counter(terms_of(_clip(parameters))[:MAX_TERMS_PER_FIELD])
        told = name_terms.keys() | prose_terms.keys() | parameter_terms.keys()
        exclusions = Counter(terms_of(_clip(against))[:MAX_TERMS_PER_FIELD])
        for term in told | exclusions.keys():
            term_ids.append(rows.setdefault(term, len(rows)))
            owners.append(index)
            weights.append(
                config.name_weight * name_terms[term]
                + prose_terms[term]
                + config.parameter_weight * parameter_terms[term]
                if term in told
                else exclusions[term]
            )
            described.append(term in name_terms or term in prose_terms or term in exclusions)
            excluded.append(term not in told)
    return _pack(rows, (term_ids, owners, weights, described, excluded), len(tools), config)


def _clip(text: str) -> str:
    """Text bounded before it is split; 24 characters a term are ample."""
    return text[: MAX_TERMS_PER_FIELD * 24]


def _pack(
    rows: dict[str, int],
    columns: tuple[list[int], list[int], list[float], list[bool], list[bool]],
    tool_count: int,
    config: LexicalConfig,
) -> LexicalIndex:
    """Sort terms by text, postings by (term, tool), and turn occurrences into impacts."""
    ordered = sorted(rows)
    new_row = np.empty(len(rows), dtype=np.int64)
    new_row[[rows[term] for term in ordered]] = np.arange(len(rows))
    term = new_row[np.array(columns[0], dtype=np.int64)]
    owner = np.array(columns[1], dtype=np.int64)
    order = np.lexsort((owner, term))
    term, owner = term[order], owner[order]
    occurrences = np.array(columns[2], dtype=np.float64)[order]
    described = np.array(columns[3], dtype=bool)[order]

    counts = np.bincount(term, minlength=len(ordered))
    frequency = np.bincount(term, weights=described, minlength=len(ordered))
    frequency = np.where(frequency == 0, counts, frequency)
    rarity = np.log1p((tool_count - frequency + 0.5) / (frequency + 0.5))
    length = np.bincount(owner, weights=occurrences, minlength=tool_count)
    mean_length = max(float(length.mean()), 1e-9) if tool_count else 1.0
    norm = config.saturation * (
        1 - config.length_penalty + config.length_penalty * length / mean_length
    )
    gain = occurrences * (config.saturation + 1) / (occurrences + norm[owner])
    sign = np.where(np.array(columns[4], dtype=bool)[order], -config.exclusion_weight, 1.0)
    impacts = np.rint(sign * rarity[term] * gain / IMPACT_UNIT).astype(np.int32)
    return LexicalIndex(
        terms={text: row for row, text in enumerate(ordered)},
        offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        tools=owner.astype(np.int32),
        impacts=impacts,
        tool_count=tool_count,
    )
