"""What `/metrics` says, held against Stats; and the port that says it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from router.cli.main import pointsman
from router.client import PointsmanError, RouteQuery
from router.engine.supervisor import EngineState
from router.service import metrics, scrape
from router.service.histogram import Histogram
from router.service.observing import MissingExtraError, ObservingConfig, TracesConfig
from tests.router.serving.conftest import until
from tests.router.serving.test_process import catalog, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from router.client import ServerStats
    from tests.router.serving.conftest import Service

__all__ = ["catalog"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def fetch(address: str, request: str = "GET /metrics HTTP/1.1\r\n\r\n") -> tuple[str, bytes]:
    """Send a request; return the reply's head and body."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with contextlib.suppress(ConnectionError):
        writer.write(request.encode())
        await writer.drain()
    raw = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(20):
            while piece := await reader.read(65536):
                raw += piece
    writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    return head.decode(), body


async def scraped(address: str) -> Samples:
    head, body = await fetch(address)
    assert head.startswith("HTTP/1.1 200 "), head
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, /, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def page(service: Service) -> metrics.MetricsPage:
    server = service.server
    collector = metrics.ServiceCollector(
        server.ledger, server.admission, server.book, service.engine
    )
    return metrics.MetricsPage(collector, service.engine)


@pytest.fixture
async def port(service: Service) -> AsyncIterator[str]:
    """The address at which the service's metrics are scraped."""
    server = scrape.ScrapeServer(scrape.ScrapeConfig(0), page(service).render)
    yield await server.start()
    await server.close()


def agree(samples: Samples, stats: ServerStats) -> None:
    """Hold every number that both give against each other."""
    for outcome in ("answered", "refused", "cancelled", "failed"):
        counted = value(samples, "pointsman_requests_total", outcome=outcome)
        assert counted == getattr(stats, outcome), outcome
    refusals = {
        dict(labels)["reason"]: count
        for (name, labels), count in samples.items()
        if name == "pointsman_refusals_total"
    }
    assert {reason: count for reason, count in refusals.items() if count} == stats.reasons
    assert len(refusals) == 17, "every reason has a series from the start"
    tools = {
        dict(labels)["tool"]: count
        for (name, labels), count in samples.items()
        if name == "pointsman_tool_answers_total"
    }
    assert tools == {name: count for name, count in stats.tools.items() if name}
    arguments = {
        dict(labels)["outcome"]: count
        for (name, labels), count in samples.items()
        if name == "pointsman_arguments_total"
    }
    assert {name: count for name, count in arguments.items() if count} == stats.arguments
    assert len(arguments) == 5, "every outcome has a series from the start"
    for name, expected in {
        "requests_offered_total": stats.offered,
        "requests_repeated_total": stats.repeated,
        "requests_open": stats.open,
        "request_seconds_count": stats.answered,
        "no_tool_fits_answers_total": stats.tools.get("", 0),
        "other_tool_answers_total": 0,
        "slots": stats.slots,
        "slots_in_use": stats.alive,
        "slots_in_use_peak": stats.alive_peak,
        "queue_limit": stats.queue,
        "queued": stats.queued,
        "queued_peak": stats.queued_peak,
        "engine_up": stats.serving,
        "engine_starts_total": stats.engine_starts,
    }.items():
        assert value(samples, f"pointsman_{name}") == expected, name


async def test_metrics_and_stats_never_disagree(service: Service, port: str) -> None:
    """After answers, refusals, faults, repeats, and while requests run and wait."""
    agree(await scraped(port), await service.client.stats())
    texts = ["fly_kite", "fly_kite boil_tea", "nothing", " ", "fault", "ring_bell"]
    for number, text in enumerate(texts):
        for _ in range(2):
            with contextlib.suppress(PointsmanError):
                await service.client.route(RouteQuery(text, request_id=f"r{number}"))
    held = [asyncio.create_task(service.client.route("hold gate")) for _ in range(7)]
    await until(lambda: sum(task.done() for task in held) == 2)  # 2 slots and a queue of 3
    samples, stats = await scraped(port), await service.client.stats()
    agree(samples, stats)
    assert (stats.alive, stats.queued, stats.reasons["QUEUE_FULL"]) == (2, 3, 2)
    assert value(samples, "pointsman_requests_repeated_total") == 4
    # 4 answers, 2 faults, 2 that run: the blank one and those that wait have no slot.
    assert value(samples, "pointsman_queue_seconds_count") == 8
    service.let("gate")
    await asyncio.gather(*held, return_exceptions=True)
    samples, stats = await scraped(port), await service.client.stats()
    agree(samples, stats)
    for outcome in ("decoded", "decoded", "unavailable"):
        await service.client.route(f"fly_kite {outcome}", want_arguments=True)
    samples, stats = await scraped(port), await service.client.stats()
    agree(samples, stats)
    assert stats.arguments == {"decoded": 2, "unavailable": 1}
    assert value(samples, "pointsman_requests_open") == 0
    assert value(samples, "pointsman_request_seconds_count") == 12
    assert value(samples, "pointsman_request_seconds_bucket", le="+Inf") == 12
    assert value(samples, "pointsman_queue_seconds_count") == 14
    text = (await fetch(port))[1].decode()
    assert "hold" not in text, "a request's text is among the metrics"


async def test_catalogs_model_and_processes_are_named(service: Service, port: str) -> None:
    """Active catalogs by digest; memory of the service and of its engine."""
    digest = service.catalog_file("dig_hole")
    await service.client.activate_catalog(digest, name="more")
    samples = await scraped(port)
    for name, active, tools in (("default", service.digest, 3), ("more", digest, 1)):
        assert value(samples, "pointsman_catalog_info", name=name, digest=active) == 1
        assert value(samples, "pointsman_catalog_tools", name=name) == tools
    assert value(samples, "pointsman_model_info", digest="f" * 64) == 1
    assert value(samples, "process_resident_memory_bytes") > 1 << 20
    assert value(samples, "pointsman_engine_process_resident_memory_bytes") > 1 << 20


async def test_a_lost_engine_is_seen(service: Service, port: str) -> None:
    """engine_up falls to 0, its process is no longer measured; then a start more is counted."""
    (service.control / "refuse-start").touch()
    assert service.engine.pid is not None
    os.kill(service.engine.pid, signal.SIGKILL)
    await until(lambda: service.engine.state is EngineState.DOWN and service.engine.pid is None)
    text = (await fetch(port))[1].decode()
    assert "pointsman_engine_up 0.0" in text
    (service.control / "refuse-start").unlink()
    await until(lambda: service.engine.state is EngineState.SERVING)
    agree(await scraped(port), await service.client.stats())
    assert value(await scraped(port), "pointsman_engine_starts_total") >= 2


async def test_the_series_of_tools_are_bounded_and_never_end(
    service: Service, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools that come late share a counter, however often they answer; the sum stays whole."""
    monkeypatch.setattr(metrics, "TOOLS_SHOWN", 2)
    for text in ("boil_tea", "nothing", "ring_bell", *["fly_kite"] * 5):
        await service.client.route(text)
    samples = await scraped(port)
    shown = [dict(labels) for name, labels in samples if name == "pointsman_tool_answers_total"]
    assert sorted(entry["tool"] for entry in shown) == ["boil_tea", "ring_bell"]
    assert value(samples, "pointsman_other_tool_answers_total") == 5
    assert value(samples, "pointsman_no_tool_fits_answers_total") == 1


def test_a_duration_as_long_as_a_buckets_end_is_in_it() -> None:
    """Buckets hold "at most", and each holds those before it."""
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.0, 0.1, 0.5, 1.0, 7.0):
        histogram.observe(seconds)
    assert histogram.cumulative() == [2, 4, 5]
    assert histogram.sum_s == pytest.approx(8.6)


async def test_openmetrics_is_given_to_whoever_asks(port: str) -> None:
    """By the Accept header; it ends with its end mark."""
    asked = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n"
    head, body = await fetch(port, asked)
    assert "Content-Type: application/openmetrics-text; version=1.0.0" in head
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET /metrics?a=b HTTP/1.0\r\n\r\n", 200),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        ("hello\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nX: " + "y" * 20_000 + "\r\n\r\n", 431),
    ],
)
async def test_what_is_not_the_page_is_refused(port: str, request_text: str, status: int) -> None:
    """Each with its own status, and the server goes on."""
    head, body = await fetch(port, request_text)
    assert head.startswith(f"HTTP/1.1 {status} "), head
    assert not (request_text.startswith("HEAD") and body)
    assert (await fetch(port))[0].startswith("HTTP/1.1 200 ")


async def test_connections_are_few_and_short(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent clients hold all connections until their time is over; others are told meanwhile."""
    monkeypatch.setattr(scrape, "LIMIT_S", 0.3)
    server = scrape.ScrapeServer(scrape.ScrapeConfig(0), page(service).render)
    address = await server.start()
    host, _, number = address.rpartition(":")
    silent = [
        await asyncio.open_connection(host, int(number)) for _ in range(scrape.MAX_CONNECTIONS)
    ]
    await until(lambda: len(server._connections) == scrape.MAX_CONNECTIONS)
    assert (await fetch(address, ""))[0].startswith("HTTP/1.1 503 ")
    for reader, writer in silent:
        assert await reader.read() == b"", "it was ended without a word"
        writer.close()
    assert (await fetch(address))[0].startswith("HTTP/1.1 200 ")
    await server.close()


async def test_closing_ends_what_is_open(service: Service) -> None:
    """A client that never asks does not hold the shutdown up."""
    server = scrape.ScrapeServer(scrape.ScrapeConfig(0), page(service).render)
    host, _, number = (await server.start()).rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(number))
    await until(lambda: len(server._connections) == 1)
    async with asyncio.timeout(20):
        await server.close()
        assert await reader.read() == b""
    writer.close()


async def test_a_fault_of_the_page_is_told_and_costs_nothing_else(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 500; requests go on."""

    async def broken(accept: str) -> tuple[str, bytes]:
        raise RuntimeError(accept)

    server = scrape.ScrapeServer(scrape.ScrapeConfig(0), broken)
    assert (await fetch(await server.start()))[0].startswith("HTTP/1.1 500 ")
    assert (await service.client.route("fly_kite")).tool == "fly_kite"
    await server.close()


async def test_a_server_hands_its_metrics_out(tmp_path: Path, catalog: Path) -> None:
    """From the ready file's address, up to the end."""
    async with serve(tmp_path, catalog, FAKE_METRICS_PORT="0") as running:
        ready = await running.ready()
        samples = await scraped(str(ready["metrics"]))
        assert value(samples, "pointsman_engine_up") == 1
        running.process.send_signal(signal.SIGTERM)
        code, errors = await running.end()
    assert code == 0
    events = [json.loads(line)["event"] for line in errors.splitlines()]
    assert "metrics" in events
    assert "metrics reachable by others" not in events


async def test_an_owned_metrics_port_is_a_reason_not_to_start(
    tmp_path: Path, catalog: Path
) -> None:
    """Exit code 1 and the address, before anything is compiled."""
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        number = owner.getsockname()[1]
        async with serve(tmp_path, catalog, FAKE_METRICS_PORT=str(number)) as running:
            code, errors = await running.end()
        assert code == 1
        assert f"can't serve metrics on 127.0.0.1:{number}" in errors
        server = scrape.ScrapeServer(scrape.ScrapeConfig(number), _never)
        with pytest.raises(scrape.ScrapeAddressError, match="--metrics-port"):
            await server.start()


async def _never(accept: str) -> tuple[str, bytes]:
    raise AssertionError(accept)


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` ends with exit code 1 and says what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    tools = tmp_path / "tools.json"
    tools.write_text("{}", encoding="utf-8")
    store = str(tmp_path / "store")
    arguments = ["serve", "--catalog", str(tools), "--port", "0", "--store", store]
    done = CliRunner().invoke(pointsman, [*arguments, "--metrics-port", "0"])
    assert done.exit_code == 1
    assert "pip install 'pointsman[metrics]'" in done.output
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match=r"pointsman\[tracing\]"):
        ObservingConfig(traces=TracesConfig("http://127.0.0.1:4317")).check()
