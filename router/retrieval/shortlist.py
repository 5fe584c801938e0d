"""From a request to ranked evidence on the allowed tools, and the few the model will read.

Owns the joining of the three indices into one retrieval score and the choice of the shortlist:
best score first, ties by tool index, tools that the request names always in. Never reads a prompt
budget and never calibrates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.retrieval.lexical import LexicalIndex, build_lexical_index
from router.retrieval.names import NameIndex, build_name_index
from router.retrieval.ranking import best_first
from router.retrieval.semantic import (
    Embedder,
    SemanticIndex,
    build_semantic_index,
    embed_request,
)
from router.retrieval.words import clip_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from catalog_compiler.model import Tool


@dataclass(frozen=True, slots=True)
class RetrievalWeights:
    """What each piece of evidence is worth, in nats (`router.scoring` says where from).

    Attributes:
        cosine: times the cosine of request and tool.
        bm25: times the BM25 sum in nats.
        verbatim: for a name spelt exactly as an identifier.

    """

    cosine: float
    bm25: float
    verbatim: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What retrieval knows of the allowed tools for one request.

    Attributes:
        tools: (n,) int64 allowed tool indices, ascending.
        cosine: (n,) f64.
        bm25: (n,) f64 nats.
        verbatim: (n,) bool, the request spells the tool's name as an identifier.
        worded: (n,) bool, the request holds the words of the name side by side.
        score: (n,) f64 nats, the weighted sum.

    """

    tools: npt.NDArray[np.int64]
    cosine: npt.NDArray[np.float64]
    bm25: npt.NDArray[np.float64]
    verbatim: npt.NDArray[np.bool_]
    worded: npt.NDArray[np.bool_]
    score: npt.NDArray[np.float64]

    def best(self, count: int) -> npt.NDArray[np.int64]:
        """Return at most `count` positions into the above, best score first, ties by tool index."""
        return best_first(self.score, count)

    def shortlist(self, size: int) -> npt.NDArray[np.int64]:
        """Return at most `size` positions for the model, in the order of their scores.

        In go tools spelt verbatim, then tools spelt in words (up to half the size, since common
        words are names too), then the best of the rest.
        """
        spelt = self._best_of(self.verbatim, size)
        worded = self._best_of(self.worded, max(1, size // 2))
        best = self.best(size)
        chosen = list(dict.fromkeys((*spelt.tolist(), *worded.tolist(), *best.tolist())))[:size]
        kept = np.array(sorted(chosen), dtype=np.int64)
        ranked: npt.NDArray[np.int64] = kept[np.argsort(-self.score[kept], kind="stable")]
        return ranked

    def _best_of(self, marked: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int64]:
        positions = np.flatnonzero(marked)
        best: npt.NDArray[np.int64] = positions[best_first(self.score[positions], count)]
        return best

    def joined(self, other: Evidence, share: float, weights: RetrievalWeights) -> Evidence:
        """Add `share` of the evidence another text gives on the same tools (a previous turn)."""
        cosine = (self.cosine + share * other.cosine) / (1 + share)
        bm25 = self.bm25 + share * other.bm25
        score = weights.cosine * cosine + weights.bm25 * bm25 + weights.verbatim * self.verbatim
        return Evidence(
            tools=self.tools,
            cosine=cosine,
            bm25=bm25,
            verbatim=self.verbatim,
            worded=self.worded,
            score=score,
        )


@dataclass(frozen=True, slots=True)
class Retriever:
    """The three indices of one catalog."""

    lexical: LexicalIndex
    semantic: SemanticIndex
    names: NameIndex

    @classmethod
    def build(
        cls, tools: Sequence[Tool], embedder: Embedder, previous: SemanticIndex | None = None
    ) -> Retriever:
        """Build every index from the tools; `previous` saves embedding unchanged ones."""
        return cls(
            build_lexical_index(tools),
            build_semantic_index(tools, embedder, previous),
            build_name_index(tools),
        )

    @classmethod
    def from_arrays(
        cls, tools: Sequence[Tool], arrays: Mapping[str, npt.NDArray[np.generic]]
    ) -> Retriever:
        """Read back what `to_arrays` wrote; names are indexed anew.

        Raises:
            ValueError: an array is missing or they contradict each other.

        """
        return cls(
            LexicalIndex.from_arrays(arrays, len(tools)),
            SemanticIndex.from_arrays(arrays, len(tools)),
            build_name_index(tools),
        )

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the lexical and the semantic index as plain arrays."""
        return {**self.lexical.to_arrays(), **self.semantic.to_arrays()}

    def search(
        self,
        text: str,
        embedder: Embedder,
        weights: RetrievalWeights,
        allowed: npt.NDArray[np.bool_] | None = None,
    ) -> Evidence:
        """Gather evidence on every allowed tool; `allowed` is (tools,) bool, None for all."""
        clipped = clip_request(text)
        hits = self.names.find(text)
        cosine = self.semantic.score(embed_request(embedder, text), embedder)
        bm25 = self.lexical.score(clipped)
        verbatim = _marked(len(cosine), hits.verbatim)
        worded = _marked(len(cosine), hits.worded)
        if allowed is None:
            tools = np.arange(len(cosine), dtype=np.int64)
        else:
            tools = allowed.nonzero()[0]
            cosine, bm25 = cosine[tools], bm25[tools]
            verbatim, worded = verbatim[tools], worded[tools]
        score = weights.cosine * cosine + weights.bm25 * bm25 + weights.verbatim * verbatim
        return Evidence(tools, cosine, bm25, verbatim, worded, score)


def _marked(count: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    marks = np.zeros(count, dtype=bool)
    marks[indices] = True
    return marks
