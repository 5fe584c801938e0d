"""Routing without a service: pipeline and engine in the caller's own process.

Owns the loop that feeds prepared routes to an engine and hands the walks back, for evaluation,
fitting and tests. Never admits, refuses or records: that is the service's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decoder.engine import Finished, WalkRequest, WalkResult
    from router.jobs import RankedTools, RouteJob
    from router.pipeline import Pipeline, PreparedRoute


class WalkEngine(Protocol):
    """What the loop needs of `decoder.engine.Engine`."""

    def submit(self, request: WalkRequest) -> int:
        """Take a walk; returns its handle."""
        ...

    def step(self) -> list[Finished]:
        """Run one packed pass; returns the walks that ended."""
        ...


class InProcessRouter:
    """Routes jobs one at a time, or walks many prepared routes together."""

    def __init__(self, pipeline: Pipeline, engine: WalkEngine, together: int = 8) -> None:
        """Keep at most `together` walks in the engine (its slots must hold them)."""
        self.pipeline = pipeline
        self._engine = engine
        self._together = together

    def route(self, job: RouteJob) -> RankedTools:
        """Route one job from text to ranked tools.

        Raises:
            JobError: the job cannot be routed.
            DecoderError: the walk failed.

        """
        prepared = self.pipeline.prepare(job)
        return self.pipeline.finish(prepared, self.walk([prepared])[0])

    def walk(self, routes: Sequence[PreparedRoute]) -> list[WalkResult]:
        """Walk every prepared route; results in the order given.

        Raises:
            DecoderError: a walk failed.

        """
        results: dict[int, WalkResult] = {}
        places: dict[int, int] = {}
        waiting = list(enumerate(routes))[::-1]
        while waiting or places:
            while waiting and len(places) < self._together:
                place, route = waiting.pop()
                places[self._engine.submit(route.request)] = place
            for finished in self._engine.step():
                place = places.pop(finished.handle)
                if finished.error is not None:
                    raise finished.error
                assert finished.result is not None
                results[place] = finished.result
        return [results[place] for place in range(len(routes))]
