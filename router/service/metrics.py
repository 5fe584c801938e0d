"""What the service knows of itself, in Prometheus' form.

Owns the metrics' names. Counts nothing: every value is read, when it is asked for, from the ledger,
the admission, the book and the supervisor that `Stats` reads too. Needs the extra `metrics`, so
only what serves metrics imports it. No metric holds anything of a request's text.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from router.engine.supervisor import EngineState
from router.rpc import router_pb2 as pb
from router.service.requests import outcome_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from router.engine.supervisor import Supervisor
    from router.service.admission import Admission
    from router.service.book import CatalogBook
    from router.service.histogram import Histogram
    from router.service.ledger import Ledger

TOOLS_SHOWN: Final = 200
"""Most tools with a series of their own. The first that were answers keep theirs for good, so that
no series ever ends; the answers of all others are counted together."""

NO_ENGINE: Final = "none"
"""Stands for the engine's process id where there is none; no folder of /proc is called so."""


class ServiceCollector(Collector):
    """Reads one service's counters; belongs to its event loop, where they don't change meanwhile.

    Args:
        ledger: ends, reasons, tools and durations.
        admission: slots and queue.
        book: which catalogs are active.
        engine: whether it answers.

    """

    def __init__(
        self, ledger: Ledger, admission: Admission, book: CatalogBook, engine: Supervisor
    ) -> None:
        self._ledger = ledger
        self._admission = admission
        self._book = book
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Return every metric as it is now."""
        yield from self._requests()
        yield from self._tools()
        yield self._arguments()
        yield from self._load()
        yield from self._served()

    def _requests(self) -> Iterator[Metric]:
        counts = self._ledger.counts
        ended = CounterMetricFamily(
            "pointsman_requests", "Requests that have ended, by how.", labels=["outcome"]
        )
        for outcome in ("answered", "refused", "cancelled", "failed"):
            ended.add_metric([outcome], getattr(counts, outcome))
        yield ended
        # Every reason from the start: a series that begins at 1 hides its first increase.
        refusals = CounterMetricFamily(
            "pointsman_refusals",
            "Requests without an answer, by reason; see RefusalReason in the .proto.",
            labels=["reason"],
        )
        for name, reason in pb.RefusalReason.items():
            if reason != pb.REFUSAL_REASON_UNSPECIFIED:
                refusals.add_metric([name.removeprefix("REFUSAL_REASON_")], counts.reasons[reason])
        yield refusals
        yield CounterMetricFamily(
            "pointsman_requests_offered", "Distinct requests that came in.", value=counts.offered
        )
        yield CounterMetricFamily(
            "pointsman_requests_repeated",
            "Calls that joined a running request or got a recorded answer again.",
            value=counts.repeated,
        )
        yield GaugeMetricFamily(
            "pointsman_requests_open", "Requests that have not ended.", value=counts.open
        )
        yield _durations(
            "pointsman_request_seconds", "From arrival to answer.", self._ledger.answer_s
        )
        yield _durations(
            "pointsman_queue_seconds",
            "From arrival to the slot, of each request that got one.",
            self._ledger.queue_s,
        )

    def _tools(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "pointsman_tool_answers",
            f"Answers by tool; the first {TOOLS_SHOWN} different tools.",
            labels=["tool"],
        )
        shown = 0
        rest = self._ledger.counts.answered - self._ledger.tools[""]
        for name, count in self._ledger.tools.items():
            if name and shown < TOOLS_SHOWN:
                answers.add_metric([name], count)
                shown += 1
                rest -= count
        yield answers
        yield CounterMetricFamily(
            "pointsman_other_tool_answers",
            "Answers of tools without a series of their own.",
            value=rest,
        )
        yield CounterMetricFamily(
            "pointsman_no_tool_fits_answers",
            "Answers that no tool fits.",
            value=self._ledger.tools[""],
        )

    def _arguments(self) -> Metric:
        outcomes = CounterMetricFamily(
            "pointsman_arguments",
            "Answers with arguments, by what came of them; see ArgumentOutcome in the .proto.",
            labels=["outcome"],
        )
        for outcome in pb.ArgumentOutcome.values():
            if outcome != pb.ARGUMENT_OUTCOME_UNSPECIFIED:
                outcomes.add_metric([outcome_name(outcome)], self._ledger.arguments[outcome])
        return outcomes

    def _load(self) -> Iterator[Metric]:
        load = self._admission
        for name, text, value in (
            ("slots", "Declared slots.", load.slots),
            ("slots_in_use", "Slots in use.", load.alive),
            ("slots_in_use_peak", "The most slots that were ever in use at once.", load.alive_peak),
            ("queue_limit", "Requests that may wait for a slot.", load.queue),
            ("queued", "Requests waiting for a slot.", load.queued),
            ("queued_peak", "The most requests that ever waited at once.", load.queued_peak),
        ):
            yield GaugeMetricFamily(f"pointsman_{name}", text, value=value)

    def _served(self) -> Iterator[Metric]:
        engine = self._engine
        yield GaugeMetricFamily(
            "pointsman_engine_up",
            "1 where the engine answers, else 0.",
            value=engine.state is EngineState.SERVING,
        )
        yield CounterMetricFamily(
            "pointsman_engine_starts", "How often the engine was started.", value=engine.starts
        )
        tools = GaugeMetricFamily(
            "pointsman_catalog_tools", "Tools of an active catalog.", labels=["name"]
        )
        catalogs = InfoMetricFamily(
            "pointsman_catalog", "The active catalogs.", labels=["name", "digest"]
        )
        for catalog in self._book.active():
            tools.add_metric([catalog.name], catalog.tool_count)
            catalogs.add_metric([catalog.name, catalog.digest], {})
        yield catalogs
        yield tools
        if engine.facts is not None:
            yield InfoMetricFamily(
                "pointsman_model",
                "The engine's model.",
                value={"digest": engine.facts.model_digest},
            )
        version = importlib.metadata.version("pointsman")
        yield InfoMetricFamily(
            "pointsman_build", "The running version.", value={"version": version}
        )


class MetricsPage:
    """Writes the page that is scraped.

    Args:
        collector: the service's metrics.
        engine: the process measured beside the service's own.

    """

    def __init__(self, collector: ServiceCollector, engine: Supervisor) -> None:
        self._collector = collector
        self._engine = engine

    async def render(self, accept: str) -> tuple[str, bytes]:
        """Return content type and page for an Accept header; call it on the event loop."""
        # The values are read in one turn of the loop, so that they fit each other. Writing them
        # takes a thread: it reads files of /proc, and nobody's request waits for it.
        read = _Read(list(self._collector.collect()))
        pid = self._engine.pid
        return await asyncio.to_thread(_write, read, NO_ENGINE if pid is None else pid, accept)


class _Read(Collector):
    """Metrics that have been read already."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _write(read: _Read, engine_pid: int | str, accept: str) -> tuple[str, bytes]:
    registry = CollectorRegistry()
    registry.register(read)
    ProcessCollector(registry=registry)
    ProcessCollector(namespace="pointsman_engine", pid=lambda: engine_pid, registry=registry)
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


def _durations(name: str, text: str, histogram: Histogram) -> HistogramMetricFamily:
    ends = [*map(str, histogram.bounds_s), "+Inf"]
    buckets = list(zip(ends, histogram.cumulative(), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram.sum_s)
