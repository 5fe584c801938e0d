"""Spans of routes, in OpenTelemetry's form.

Owns the spans' names, their times and their way to a collector. Sees only what crosses the border
of gRPC, and when a request got its slot. Needs the extra `tracing`, so only what exports traces
imports it. No span holds anything of a request's text, and no request waits for an export.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import threading
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.resources import (
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from router.service import log
from router.service.observing import GRPC
from router.service.route_spans import RouteTracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from router.service.observing import TracesConfig

QUEUED_SPANS: Final = 4096
"""Spans that wait for export; the oldest are dropped for further ones."""

EXPORT_LIMIT_S: Final = 5.0
CLOSE_S: Final = 2.0
"""Time that the last spans have to be sent."""

SDK_LOGGER: Final = "opentelemetry"


class Tracing:
    """A tracer whose spans go to an exporter, in the background.

    Args:
        exporter: where spans go.
        endpoint: how the log calls it.

    """

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._words = _LastWords()
        self._words.attach()
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _ToldOnce(exporter, endpoint, self._words), max_queue_size=QUEUED_SPANS
            )
        )
        self.interceptor = RouteTracer(self._provider.get_tracer("pointsman"))

    async def close(self) -> None:
        """Send what is left, within the limit; a thread that hangs is left to the exit."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # The loop may be gone by now.
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, daemon=True, name="last spans").start()
        try:
            await asyncio.wait_for(done.wait(), CLOSE_S)
        except TimeoutError:
            log.event("traces given up", level=logging.WARNING, after_s=CLOSE_S)
        else:
            self._words.detach()


def exporter_for(config: TracesConfig) -> SpanExporter:
    """Return what sends spans as a configuration says; OTEL_EXPORTER_OTLP_* say the rest."""
    # Each brings its own transport, and only one of them is wanted.
    if config.protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as GrpcExporter,
        )

        return GrpcExporter(endpoint=config.url, timeout=EXPORT_LIMIT_S)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter as HttpExporter,
    )

    return HttpExporter(endpoint=config.url, timeout=EXPORT_LIMIT_S)


class _LastWords(logging.Handler):
    """Keeps what OpenTelemetry logged last, and keeps it from the service's error stream."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()

    def attach(self) -> None:
        logger = logging.getLogger(SDK_LOGGER)
        logger.addHandler(self)
        logger.propagate = False

    def detach(self) -> None:
        logger = logging.getLogger(SDK_LOGGER)
        logger.removeHandler(self)
        logger.propagate = True


class _ToldOnce(SpanExporter):
    """Hands spans on, and tells the log once when that begins to fail and once when it works."""

    def __init__(self, exporter: SpanExporter, endpoint: str, words: _LastWords) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._words = words
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001  (whatever it is, spans are lost and all else goes on)
            self._words.last = f"{type(error).__name__}: {error}"
            result = SpanExportResult.FAILURE
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.event(
                "traces are lost",
                level=logging.WARNING,
                endpoint=self._endpoint,
                reason=self._words.last,
                advice="requests are served all the same; it is told again when spans arrive",
            )
        elif self._failing and not failing:
            log.event("traces arrive again", endpoint=self._endpoint)
        self._failing = failing
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _resource() -> Resource:
    """Return who sends; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word."""
    version = importlib.metadata.version("pointsman")
    named = Resource.create({SERVICE_NAME: "pointsman", SERVICE_VERSION: version})
    return named.merge(OTELResourceDetector().detect())
