"""What the engine loop needs of whatever computes.

Owns the `Backend` protocol. `router.engine.pipeline_backend` is the one that is served; tests bring
their own through `router.engine.process.run_engine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from router.engine.facts import Answer, CatalogFacts, ToolFacts
    from router.jobs import AllowRule, RouteJob


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended in a step: `answer` or `error`, never both.

    Attributes:
        handle: what `submit` returned.
        answer: the answer.
        error: why there is none.

    """

    handle: int
    answer: Answer | None
    error: Exception | None


class Backend(Protocol):
    """Computes routes. One thread owns it."""

    @property
    def model_digest(self) -> str:
        """Digest of the model's files, hex."""
        ...

    def open_catalog(self, path: Path) -> CatalogFacts:
        """Make a compiled catalog routable; one already open is opened once.

        Raises:
            CatalogRefusedError: it can't be opened or is not for this model.

        """
        ...

    def close_catalog(self, digest: str) -> None:
        """Forget a catalog; jobs on it still end. One that is not open is no error."""
        ...

    @property
    def slot_tokens(self) -> int:
        """Tokens of KV memory that each slot stands for."""
        ...

    def tools(
        self, digest: str, start: int, limit: int, visible: AllowRule | None
    ) -> Sequence[ToolFacts]:
        """Return tools `start` to `start + limit` of those visible in a catalog, in its order.

        Raises:
            UnknownCatalogError: it is not open.

        """
        ...

    def submit(self, job: RouteJob) -> int:
        """Take a job; return its handle, distinct for ever.

        Raises:
            JobError: the caller must mend the job.
            Exception: anything else is a fault of this job alone.

        """
        ...

    def cancel(self, handle: int) -> None:
        """Give a job up and free what it holds; one that has ended is no error."""
        ...

    def step(self) -> list[Ended]:
        """Run one forward pass over the jobs that are alive; return those that ended.

        Raises:
            Exception: the engine can't be trusted any more; it is ended and started anew.

        """
        ...


class CatalogRefusedError(Exception):
    """A compiled catalog can't be opened; the message says why and what to do."""
