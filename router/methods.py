"""The ways of choosing that an evaluation compares.

Owns the adapters from the router, from BM25 alone and from the sentence encoder alone to
`router.evaluation.Method`. Never measures.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from router.evaluation import DEPTH, Choice
from router.jobs import AllowRule, RouteJob
from router.retrieval.lexical import build_lexical_index
from router.retrieval.semantic import SemanticIndex, embed_request, text_keys, to_rows
from router.retrieval.words import clip_request, well_formed
from router.scoring import combine

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from catalog_compiler.model import Tool
    from router.catalogs import LoadedCatalog
    from router.inprocess import InProcessRouter
    from router.pipeline import Pipeline
    from router.retrieval.semantic import Embedder


class RouterMethod:
    """The product: shortlist, model, combination."""

    name = "router"

    def __init__(self, router: InProcessRouter, catalog_digest: str) -> None:
        """Route over a catalog that the router's pipeline has loaded."""
        self._router = router
        self._digest = catalog_digest
        self._numbers = itertools.count()

    def choose(self, text: str, among: tuple[str, ...] = ()) -> Choice:
        """Route one request."""
        ranked = self._router.route(
            RouteJob(
                request_id=f"eval-{next(self._numbers)}",
                catalog_digest=self._digest,
                text=text,
                allowed=AllowRule(names=among) if among else None,
                k=DEPTH,
            )
        )
        best = ranked.candidates[0]
        return Choice(
            tools=tuple(c.name for c in ranked.candidates if c.name is not None),
            none_score=ranked.none_probability,
            answer=best.name,
            probability=best.probability,
        )


class RetrievalMethod:
    """The router without its model: what BM25 and the encoder choose together."""

    name = "retrieval"

    def __init__(self, pipeline: Pipeline, catalog: LoadedCatalog) -> None:
        """Rank a loaded catalog with the pipeline's encoder and weights."""
        self._pipeline = pipeline
        self._catalog = catalog

    def choose(self, text: str, among: tuple[str, ...] = ()) -> Choice:
        """Rank for one request."""
        allowed = self._catalog.allowed_mask(AllowRule(names=among)) if among else None
        evidence = self._catalog.retriever.search(
            text, self._pipeline.embedder, self._pipeline.weights.retrieval, allowed
        )
        scores = combine(self._pipeline.weights, evidence)
        head = evidence.tools[scores.best(DEPTH)].tolist()
        return Choice(
            tools=tuple(self._catalog.tools[index].name for index in head),
            none_score=scores.none_log_odds,
            answer=self._catalog.tools[head[0]].name,
            probability=None,
        )


class Bm25Method:
    """BM25 alone, over the router's own lexical index."""

    name = "bm25"

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Index the tools."""
        self._tools = tools
        self._index = build_lexical_index(tools)

    def choose(self, text: str, among: tuple[str, ...] = ()) -> Choice:
        """Rank for one request."""
        return _ranked(self._tools, self._index.score(clip_request(text)), among)


class EncoderMethod:
    """The sentence encoder alone: cosine of the request with "name: description"."""

    name = "minilm"

    def __init__(self, tools: Sequence[Tool], embedder: Embedder) -> None:
        """Embed every tool by its whole text, as the published baselines do."""
        self._tools = tools
        self._embedder = embedder
        texts = [well_formed(f"{tool.name}: {tool.description}") for tool in tools]
        rows = to_rows(embedder.embed(texts))
        self._index = SemanticIndex(rows, text_keys(texts))

    def choose(self, text: str, among: tuple[str, ...] = ()) -> Choice:
        """Rank for one request."""
        scores = self._index.score(embed_request(self._embedder, text), self._embedder)
        return _ranked(self._tools, scores, among)


def _ranked(
    tools: Sequence[Tool], scores: npt.NDArray[np.float64], among: tuple[str, ...]
) -> Choice:
    """Rank by score, ties by index; the lower the best score, the likelier that nothing fits."""
    if among:
        names = set(among)
        kept = np.array([i for i, tool in enumerate(tools) if tool.name in names], dtype=np.int64)
    else:
        kept = np.arange(len(tools), dtype=np.int64)
    order = kept[np.argsort(-scores[kept], kind="stable")][:DEPTH]
    names_in_order = tuple(tools[index].name for index in order.tolist())
    return Choice(
        tools=names_in_order,
        none_score=-float(scores[order[0]]) if len(order) else 0.0,
        answer=names_in_order[0] if names_in_order else None,
        probability=None,
    )
