"""Pairs of tools that requests can hardly tell apart, and the words that would.

Owns the search for such pairs by the texts that requests are held against. Never routes and never
words a finding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from router.retrieval.lexical import parameter_texts
from router.retrieval.semantic import ROW_SCALE, Embedder, build_semantic_index
from router.retrieval.words import split_words, stem, terms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from catalog_compiler.model import Tool

LIKENESS: Final = 0.75
"""Cosine from which two tools count as hard to tell apart. `python -m benchmarks.lint_deep` says
what share of such pairs is confused in truth."""

MAX_PAIRS: Final = 1_000
TELLING_WORDS: Final = 5
BLOCK_ROWS: Final = 512
_MAX_WORDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ConfusablePair:
    """Two tools that are alike.

    Attributes:
        first, second: their places among the tools, in order.
        likeness: cosine of the texts by which requests find them (name and first sentence), at
            most 1.
        first_words, second_words: telling words that only the one or only the other has anywhere
            (name, description, parameters), the rarest in the catalog first, at most five.

    """

    first: int
    second: int
    likeness: float
    first_words: tuple[str, ...]
    second_words: tuple[str, ...]


def confusable_pairs(
    tools: Sequence[Tool],
    embedder: Embedder,
    *,
    likeness: float = LIKENESS,
    at_most: int = MAX_PAIRS,
) -> tuple[list[ConfusablePair], int]:
    """Return the pairs that are alike, the most alike first, and how many there are in all.

    Memory grows with the number of pairs that are alike, time with the square of the number of
    tools, by matrix products.

    Args:
        tools: of one catalog.
        embedder: the router's sentence encoder.
        likeness: cosine from which a pair is listed.
        at_most: pairs that are listed.

    """
    rows = build_semantic_index(tools, embedder).rows
    first, second, cosine = _alike(rows, likeness)
    order = np.lexsort((second, first, -cosine))[:at_most]
    words = [_words(tool) for tool in tools]
    tools_with = Counter(term for own in words for term in own)
    pairs = [
        ConfusablePair(
            one,
            other,
            float(alike),
            _only(words[one], words[other], tools_with),
            _only(words[other], words[one], tools_with),
        )
        for one, other, alike in zip(
            first[order].tolist(), second[order].tolist(), cosine[order].tolist(), strict=True
        )
    ]
    return pairs, len(first)


def _alike(
    rows: npt.NDArray[np.int16], likeness: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the pairs (i < j) of rows whose cosine is at least `likeness`, with it."""
    # Products of whole numbers below 2**24 are exact in float32 sums: any order gives these bits.
    wide = rows.astype(np.float32)
    found: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
    for start in range(0, len(rows), BLOCK_ROWS):
        block = wide[start : start + BLOCK_ROWS] @ wide[start:].T / float(ROW_SCALE**2)
        one, other = np.nonzero(np.triu(block >= likeness, 1))
        found.append((one + start, other + start, block[one, other].astype(np.float64)))
    if not found:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0)
    firsts, seconds, cosines = zip(*found, strict=True)
    return np.concatenate(firsts), np.concatenate(seconds), np.concatenate(cosines)


def _words(tool: Tool) -> dict[str, str]:
    """Return the telling words of a tool by their stems, each as it is first written."""
    texts = (tool.name, tool.title, tool.description, *parameter_texts(tool.input_schema))
    found: dict[str, str] = {}
    for word in split_words(" ".join(texts)[: 24 * _MAX_WORDS])[:_MAX_WORDS]:
        if terms_of(word):  # no stop word
            found.setdefault(stem(word), word)
    return found


def _only(own: dict[str, str], other: dict[str, str], tools_with: Counter[str]) -> tuple[str, ...]:
    terms = sorted(own.keys() - other.keys(), key=lambda term: (tools_with[term], own[term]))
    return tuple(own[term] for term in terms[:TELLING_WORDS])
