"""What watches a server from within: the page of metrics and the export of traces.

Owns their setup, their order of start and end, and what is said where a package is missing. Both
are off unless asked for, and what they need is imported only then. Never changes a request.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from router.service import log
from router.service.scrape import ScrapeConfig, ScrapeServer

if TYPE_CHECKING:
    from router.engine.supervisor import Supervisor
    from router.service.server import Server
    from router.service.tracing import Tracing

GRPC: Final = "grpc"
HTTP: Final = "http/protobuf"
PROTOCOLS: Final = (GRPC, HTTP)
TRACES_PATH: Final = "/v1/traces"
_EXPORTERS: Final = {
    GRPC: "opentelemetry.exporter.otlp.proto.grpc",
    HTTP: "opentelemetry.exporter.otlp.proto.http",
}


class MissingExtraError(Exception):
    """A package that was not installed is needed; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class TracesConfig:
    """Where traces are sent: a collector's URL, and "grpc" or "http/protobuf"."""

    endpoint: str
    protocol: str = GRPC

    def __post_init__(self) -> None:
        """Refuse what is no collector's address."""
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"TracesConfig.protocol is none of {', '.join(PROTOCOLS)}")
        parts = urllib.parse.urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                "TracesConfig.endpoint is no URL of a collector; give one such as "
                "http://127.0.0.1:4317"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                "TracesConfig.endpoint holds a password, which would be logged; put it in the "
                "environment variable OTEL_EXPORTER_OTLP_HEADERS"
            )

    @property
    def url(self) -> str:
        """Return the URL that is called; OTLP over HTTP has a path."""
        parts = urllib.parse.urlsplit(self.endpoint)
        if self.protocol == HTTP and parts.path in ("", "/"):
            return urllib.parse.urlunsplit(parts._replace(path=TRACES_PATH))
        return self.endpoint


@dataclass(frozen=True, slots=True)
class ObservingConfig:
    """What watches; None is off."""

    metrics: ScrapeConfig | None = None
    traces: TracesConfig | None = None

    def check(self) -> None:
        """Find what would stop the start, before anything is started and without gRPC.

        Raises:
            MissingExtraError: a package is missing.
            ScrapeAddressError: the metrics' address is owned.

        """
        if self.metrics is not None:
            _need("metrics", "--metrics-port", "prometheus_client")
            self.metrics.check_free()
        if self.traces is not None:
            exporter = _EXPORTERS[self.traces.protocol]
            _need("tracing", "--otlp-endpoint", "opentelemetry.sdk", exporter)


NOTHING: Final = ObservingConfig()


class Observing:
    """The watchers of one server. Make it after the engine was spawned: traces may need gRPC."""

    def __init__(self, config: ObservingConfig) -> None:
        self.facts: dict[str, str] = {}
        self._config = config
        self._scrape: ScrapeServer | None = None
        self._tracing: Tracing | None = None
        if config.traces is not None:
            from router.service.tracing import Tracing, exporter_for  # noqa: PLC0415

            self._tracing = Tracing(exporter_for(config.traces), config.traces.url)

    @property
    def interceptors(self) -> tuple[Any, ...]:
        """What the gRPC server must be made with."""
        return () if self._tracing is None else (self._tracing.interceptor,)

    async def begin(self, server: Server, engine: Supervisor) -> None:
        """Hand out the metrics of a server.

        Raises:
            ScrapeAddressError: the address can't be listened on.

        """
        if self._tracing is not None and self._config.traces is not None:
            self.facts["traces"] = self._config.traces.url
            log.event("traces", endpoint=self._config.traces.url)
        if self._config.metrics is None:
            return
        from router.service.metrics import MetricsPage, ServiceCollector  # noqa: PLC0415

        collector = ServiceCollector(server.ledger, server.admission, server.book, engine)
        page = MetricsPage(collector, engine)
        self._scrape = ScrapeServer(self._config.metrics, page.render)
        self.facts["metrics"] = await self._scrape.start()
        log.event("metrics", address=self.facts["metrics"])
        if not _is_loopback(self._config.metrics.host):
            log.event(
                "metrics reachable by others",
                level=logging.WARNING,
                advice="anyone who reaches this address may read the names of catalogs and tools",
            )

    async def end(self) -> None:
        """Stop; what is still to be sent gets a moment."""
        if self._scrape is not None:
            await self._scrape.close()
        if self._tracing is not None:
            await self._tracing.close()


def _need(extra: str, option: str, *modules: str) -> None:
    for module in modules:
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise MissingExtraError(
                f"{option} needs the package that has {module}; install it with: "
                f"pip install 'pointsman[{extra}]'"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
