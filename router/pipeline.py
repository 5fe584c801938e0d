"""One request's way: evidence, shortlist, prompt and walk before the model; answer after it.

Owns the two halves around the decoder, `prepare` and `finish`, and the set of loaded catalogs.
Runs in the engine process. Never runs the language model itself and never waits: the engine loop
does both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from decoder.engine import WalkRequest
from router.jobs import (
    Candidate,
    RankedTools,
    RouteJob,
    RouteTimings,
    RouteUsage,
    UnknownCatalogError,
)
from router.scoring import (
    NONE_THRESHOLD,
    ModelReading,
    Scores,
    ScoringWeights,
    combine,
    load_weights,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from router.catalogs import LoadedCatalog
    from router.prompt import ToolLine
    from router.retrieval.semantic import Embedder
    from router.retrieval.shortlist import Evidence

PREVIOUS_SHARE = 0.25
"""What the evidence of the previous turn counts beside that of the request. Set, not fitted: none
of the labelled queries has a previous turn."""


class Walk(Protocol):
    """What `finish` needs of the decoder's `WalkResult`."""

    @property
    def leaves(self) -> npt.NDArray[np.int32]:
        """(k,) leaf numbers, most probable first."""
        ...

    @property
    def logprobs(self) -> npt.NDArray[np.float64]:
        """(k,) log-probabilities under the constrained distribution."""
        ...

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        ...

    @property
    def scored_tokens(self) -> int:
        """Children of trie nodes that were scored."""
        ...

    @property
    def passes(self) -> int:
        """Forward passes."""
        ...


@dataclass(frozen=True, slots=True)
class PreparedRoute:
    """A job between its two halves. It holds its catalog, so a swap meanwhile does no harm.

    Attributes:
        job: the job.
        catalog: the catalog it was admitted on.
        evidence: retrieval's findings on every allowed tool.
        listed: (m,) int64 positions into the evidence that the model reads, in list order.
        request: what the engine is to walk.
        retrieval_s, prompt_s: seconds spent.

    """

    job: RouteJob
    catalog: LoadedCatalog
    evidence: Evidence
    listed: npt.NDArray[np.int64]
    request: WalkRequest
    retrieval_s: float
    prompt_s: float


class Pipeline:
    """Prepares and finishes routes over the loaded catalogs.

    Not thread-safe: one thread, the engine process's loop, owns it.
    """

    def __init__(self, embedder: Embedder, weights: ScoringWeights | None = None) -> None:
        """Start without catalogs; `weights` defaults to those shipped."""
        self.embedder = embedder
        self.weights = weights or load_weights()
        self._catalogs: dict[str, LoadedCatalog] = {}

    @property
    def catalogs(self) -> dict[str, LoadedCatalog]:
        """A copy of the loaded catalogs by digest."""
        return dict(self._catalogs)

    def add_catalog(self, catalog: LoadedCatalog) -> None:
        """Make a catalog routable under its digest."""
        self._catalogs[catalog.digest] = catalog

    def remove_catalog(self, digest: str) -> None:
        """Forget a catalog; routes prepared on it still finish.

        Raises:
            UnknownCatalogError: it is not loaded.

        """
        if self._catalogs.pop(digest, None) is None:
            raise UnknownCatalogError(f"catalog {digest} is not loaded; nothing to remove")

    def prepare(self, job: RouteJob) -> PreparedRoute:
        """Gather evidence, choose the shortlist and write the prompt.

        Raises:
            UnknownCatalogError: the job's catalog is not loaded.
            NothingAllowedError: the job's rule leaves no tool.
            NothingVisibleError: of what it leaves, the caller may see nothing.

        """
        catalog = self._catalogs.get(job.catalog_digest)
        if catalog is None:
            raise UnknownCatalogError(
                f"catalog {job.catalog_digest} is not loaded; "
                f"loaded are: {', '.join(sorted(self._catalogs)) or 'none'}"
            )
        start = time.perf_counter()
        allowed = catalog.allowed_mask(job.allowed, job.visible)
        evidence = self._evidence(catalog, job, allowed)
        listed, lines = self._list(catalog, evidence)
        retrieved = time.perf_counter()
        request = WalkRequest(
            prompt=catalog.writer.prompt(lines, job.text, job.previous),
            trie=catalog.trie,
            allowed=catalog.leaf_mask(evidence.tools[listed]),
            top_k=len(listed) + 1,
        )
        return PreparedRoute(
            job=job,
            catalog=catalog,
            evidence=evidence,
            listed=listed,
            request=request,
            retrieval_s=retrieved - start,
            prompt_s=time.perf_counter() - retrieved,
        )

    def finish(self, prepared: PreparedRoute, walk: Walk) -> RankedTools:
        """Combine evidence and walk into the answer.

        Raises:
            ValueError: the walk is not that of this route (a leaf is missing or foreign).

        """
        start = time.perf_counter()
        scores = combine(self.weights, prepared.evidence, read_walk(prepared, walk))
        return RankedTools(
            request_id=prepared.job.request_id,
            catalog_digest=prepared.job.catalog_digest,
            candidates=_candidates(prepared, scores),
            none_probability=scores.none_probability,
            usage=RouteUsage(
                prompt_tokens=walk.prompt_tokens,
                scored_tokens=walk.scored_tokens,
                passes=walk.passes,
                shortlist_size=len(prepared.listed),
                catalog_size=len(prepared.catalog.tools),
                allowed_size=len(prepared.evidence.tools),
            ),
            timings=RouteTimings(
                retrieval_s=prepared.retrieval_s,
                prompt_s=prepared.prompt_s,
                finish_s=time.perf_counter() - start,
            ),
        )

    def _evidence(
        self, catalog: LoadedCatalog, job: RouteJob, allowed: npt.NDArray[np.bool_] | None
    ) -> Evidence:
        weights = self.weights.retrieval
        evidence = catalog.retriever.search(job.text, self.embedder, weights, allowed)
        if not job.previous.strip():
            return evidence
        before = catalog.retriever.search(job.previous, self.embedder, weights, allowed)
        return evidence.joined(before, PREVIOUS_SHARE, weights)

    def _list(
        self, catalog: LoadedCatalog, evidence: Evidence
    ) -> tuple[npt.NDArray[np.int64], list[ToolLine]]:
        """Choose what the model reads: everything where it fits, else the shortlist."""
        writer = catalog.writer
        if len(evidence.tools) <= writer.config.list_tokens:  # a line has at least one token
            order = evidence.best(len(evidence.tools))
            lines = writer.fits_whole(catalog.tools[i] for i in evidence.tools[order].tolist())
            if lines is not None:
                return order, lines
        listed = evidence.shortlist(writer.config.max_tools)
        return listed, [writer.line(catalog.tools[i]) for i in evidence.tools[listed].tolist()]


def read_walk(prepared: PreparedRoute, walk: Walk) -> ModelReading:
    """Turn the walk's leaves into log-probabilities in the order of the list.

    Raises:
        ValueError: a listed tool or "no tool fits" is missing among the leaves.

    """
    found = dict(
        zip(
            prepared.catalog.leaf_tool[walk.leaves].tolist(),
            walk.logprobs.tolist(),
            strict=True,
        )
    )
    wanted = [*prepared.evidence.tools[prepared.listed].tolist(), -1]
    if set(wanted) != set(found):
        raise ValueError(
            f"the walk's {len(found)} leaves are not the {len(wanted)} this route listed"
        )
    return ModelReading(
        listed=prepared.listed,
        log_probabilities=np.array([found[tool] for tool in wanted[:-1]], dtype=np.float64),
        none_log_probability=found[-1],
    )


def _candidates(prepared: PreparedRoute, scores: Scores) -> tuple[Candidate, ...]:
    """Rank the best `k`, "no tool fits" among them (first only from `NONE_THRESHOLD` on)."""
    head = scores.best(prepared.job.k)
    ranked = []
    for position, index in zip(head.tolist(), prepared.evidence.tools[head].tolist(), strict=True):
        ranked.append(
            Candidate(
                tool_index=index,
                name=prepared.catalog.tools[index].name,
                probability=float(scores.probabilities[position]),
                log_score=float(scores.log_scores[position]),
            )
        )
    none = Candidate(None, None, scores.none_probability, scores.none_log_odds)
    if none.probability >= NONE_THRESHOLD:
        place = 0
    else:
        place = max(1, sum(c.probability >= none.probability for c in ranked))
    return tuple([*ranked[:place], none, *ranked[place:]][: prepared.job.k])
