"""The spans of calls, as an exporter gets them."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from router.client import AsyncClient, ClientConfig, RouteQuery
from router.rpc import router_pb2 as pb
from router.service.config import ServiceConfig
from router.service.observing import Observing, ObservingConfig, TracesConfig
from router.service.tracing import Tracing
from tests.router.serving.conftest import serving, until
from tests.router.serving.test_process import catalog, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from tests.router.serving.conftest import Service

__all__ = ["catalog"]

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{CALLER}-01")
PARTS = ["pointsman.queue", *(f"pointsman.{p}" for p in ("retrieval", "prompt", "model", "finish"))]
SECRET = "an otter's secret"


class Traced:
    """A service whose spans end in memory."""

    def __init__(self, service: Service, tracing: Tracing, memory: InMemorySpanExporter) -> None:
        self.service = service
        self.stub = service.stub
        self._tracing = tracing
        self._memory = memory

    def spans(self) -> list[ReadableSpan]:
        """Return the spans that have ended, by their start."""
        self._tracing._provider.force_flush()
        return sorted(self._memory.get_finished_spans(), key=lambda span: span.start_time or 0)

    async def span(self, name: str) -> ReadableSpan:
        """Wait for the one span of a name."""
        await until(lambda: any(span.name.endswith(name) for span in self.spans()))
        (found,) = [span for span in self.spans() if span.name.endswith(name)]
        return found

    def children(self, parent: ReadableSpan) -> list[str]:
        assert parent.context is not None
        return [
            span.name
            for span in self.spans()
            if span.parent is not None and span.parent.span_id == parent.context.span_id
        ]


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Traced]:
    """A traced service with one slot and a queue of one."""
    memory = InMemorySpanExporter()
    tracing = Tracing(memory, "memory")
    config = ServiceConfig(slots=1, queue=1)
    async with serving(tmp_path, config, interceptors=(tracing.interceptor,)) as service:
        yield Traced(service, tracing, memory)
    await tracing.close()


async def test_an_answer_is_a_server_span_with_its_parts(traced: Traced) -> None:
    """RPC conventions, the caller's trace, the measured durations, and no text."""
    request = pb.RouteRequest(text=f"fly_kite {SECRET}", request_id="i", previous_turn=SECRET)
    metadata = (TRACEPARENT, ("tracestate", "vendor=1"), ("other", SECRET))
    answer = await traced.stub.Route(request, metadata=metadata)
    span = await traced.span("/Route")
    assert span.name == "pointsman.v1.RouterService/Route"
    assert span.kind is SpanKind.SERVER
    assert span.status.status_code is StatusCode.UNSET
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == CALLER
    assert span.context.trace_state.get("vendor") == "1"
    assert dict(span.attributes or {}) == {
        "rpc.system": "grpc",
        "rpc.service": "pointsman.v1.RouterService",
        "rpc.method": "Route",
        "rpc.grpc.status_code": 0,
        "pointsman.request_id": "i",
        "pointsman.outcome": "answered",
        "pointsman.repeated": False,
        "pointsman.tool": "fly_kite",
        "pointsman.probability": 0.5,
        "pointsman.catalog_digest": traced.service.digest,
        "pointsman.model_digest": "f" * 64,
        "pointsman.prompt_tokens": 7,
        "pointsman.scored_tokens": 3,
        "pointsman.passes": 1,
        "pointsman.shortlist_size": 3,
        "pointsman.allowed_size": 3,
    }
    assert traced.children(span) == PARTS
    begin = span.start_time
    for name in PARTS:
        part = await traced.span(name)
        micros = getattr(answer.timings, f"{name.removeprefix('pointsman.')}_micros")
        assert part.start_time is not None
        assert part.end_time == part.start_time + 1000 * micros
        assert begin is not None
        assert part.start_time >= begin, "parts follow each other"
        begin = part.end_time
    assert span.resource.attributes["service.name"] == "pointsman"
    assert "otter" not in "".join(each.to_json() for each in traced.spans())


async def test_arguments_have_a_part_and_attributes(traced: Traced) -> None:
    """What came of them and what they cost; nothing of what is in them."""
    await traced.stub.Route(pb.RouteRequest(text="fly_kite", want_arguments=True))
    span = await traced.span("/Route")
    assert traced.children(span) == [*PARTS, "pointsman.arguments"]
    attributes = {
        key.removeprefix("pointsman.arguments."): value
        for key, value in (span.attributes or {}).items()
        if key.startswith("pointsman.arguments.")
    }
    assert attributes == {"outcome": "decoded", "missing": 0, "prompt_tokens": 11, "tokens": 5}
    part = await traced.span("pointsman.arguments")
    assert part.start_time is not None
    assert part.end_time == part.start_time + 5_000_000
    assert "colour" not in "".join(each.to_json() for each in traced.spans())


async def test_a_repeat_has_no_parts_of_its_own(traced: Traced) -> None:
    """A recorded answer's durations are those of another call."""
    request = pb.RouteRequest(text="fly_kite", request_id="i")
    await traced.stub.Route(request)
    await traced.stub.Route(request)
    await until(lambda: sum(span.name.endswith("/Route") for span in traced.spans()) == 2)
    first, second = [span for span in traced.spans() if span.name.endswith("/Route")]
    assert (traced.children(first), traced.children(second)) == (PARTS, [])
    assert (second.attributes or {})["pointsman.repeated"] is True


@pytest.mark.parametrize(
    ("text", "code", "reason", "outcome", "status"),
    [
        (" ", grpc.StatusCode.INVALID_ARGUMENT, "INVALID", "refused", StatusCode.UNSET),
        ("fault", grpc.StatusCode.INTERNAL, "ENGINE_FAULT", "failed", StatusCode.ERROR),
    ],
)
async def test_an_end_without_answer_has_its_reason(
    traced: Traced, text: str, code: grpc.StatusCode, reason: str, outcome: str, status: StatusCode
) -> None:
    """Only what is the server's fault is an error; what the engine began tells its wait."""
    with pytest.raises(grpc.aio.AioRpcError):
        await traced.stub.Route(pb.RouteRequest(text=text))
    span = await traced.span("/Route")
    attributes = span.attributes or {}
    assert attributes["rpc.grpc.status_code"] == code.value[0]
    assert attributes["pointsman.reason"] == reason
    assert attributes["pointsman.outcome"] == outcome
    assert span.status.status_code is status
    assert traced.children(span) == (["pointsman.queue"] if text == "fault" else [])


async def test_a_caller_that_leaves_is_no_error(traced: Traced) -> None:
    """The span ends as cancelled, with the wait for the slot that it had."""
    call = traced.stub.Route(pb.RouteRequest(text="hold never", request_id="gone"))
    await traced.service.running(1)
    call.cancel()
    span = await traced.span("/Route")
    attributes = span.attributes or {}
    assert (attributes["rpc.grpc.status_code"], attributes["pointsman.outcome"]) == (1, "cancelled")
    assert span.status.status_code is StatusCode.UNSET
    assert traced.children(span) == ["pointsman.queue"]


async def test_a_stream_has_a_span_for_each_request(traced: Traced) -> None:
    """Below the stream's own, each with its answer or reason."""
    client = traced.service.client
    queries = [RouteQuery(t, request_id=t or "-") for t in ("fly_kite", "fault", " ")]
    ended = [result async for _, result in client.route_many(queries)]
    assert len(ended) == 3
    stream = await traced.span("/RouteStream")
    assert traced.children(stream) == ["route"] * 3
    found = {
        (span.attributes or {})["pointsman.request_id"]: span
        for span in traced.spans()
        if span.name == "route"
    }
    assert traced.children(found["fly_kite"]) == PARTS
    assert (found["fault"].attributes or {})["pointsman.reason"] == "ENGINE_FAULT"
    assert (found[" "].attributes or {})["pointsman.reason"] == "INVALID"
    assert (found["fly_kite"].attributes or {})["pointsman.tool"] == "fly_kite"


async def test_bytes_that_are_no_message_pass_the_tracer(traced: Traced) -> None:
    """They are refused as without it, and the stream's other requests have their spans."""
    name = f"/{pb.DESCRIPTOR.services_by_name['RouterService'].full_name}"
    good = pb.RouteStreamRequest(request=pb.RouteRequest(request_id="g", text="fly_kite"))
    async with grpc.aio.insecure_channel(traced.service.address) as channel:
        stream = channel.stream_stream(f"{name}/RouteStream")(
            iter([b"\xff\xff", good.SerializeToString()])
        )
        results = [pb.RouteStreamResponse.FromString(r) async for r in stream]
        assert sorted(r.WhichOneof("result") for r in results) == ["answer", "refusal"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(f"{name}/Route")(b"\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    span = await traced.span("/Route")
    assert (span.attributes or {})["pointsman.reason"] == "INVALID"
    assert [s.name for s in traced.spans() if s.name == "route"] == ["route"]


async def test_a_dropped_stream_ends_its_spans(traced: Traced) -> None:
    """Requests that run when the caller goes are cancelled, and none is left open."""
    call = traced.stub.RouteStream()
    await call.write(pb.RouteStreamRequest(request=pb.RouteRequest(text="hold never")))
    await traced.service.running(1)
    call.cancel()
    stream = await traced.span("/RouteStream")
    route = await traced.span("route")
    assert (stream.attributes or {})["rpc.grpc.status_code"] == 1
    assert (route.attributes or {})["pointsman.outcome"] == "cancelled"


async def test_looking_is_not_traced_and_administration_is(traced: Traced) -> None:
    """Stats and lists make no spans."""
    client = traced.service.client
    await client.stats()
    await client.list_catalogs()
    await client.activate_catalog(traced.service.digest)
    await traced.span("/ActivateCatalog")
    assert len(traced.spans()) == 1


@pytest.mark.parametrize("header", ["", "00-zz-zz-01", "x" * 3000])
async def test_a_garbled_traceparent_begins_a_trace(traced: Traced, header: str) -> None:
    """As the recommendation has it; the request is served."""
    await traced.stub.Route(pb.RouteRequest(text="x"), metadata=(("traceparent", header),))
    assert (await traced.span("/Route")).parent is None


class Stuck(SpanExporter):
    """An exporter that hangs, and one that fails, as they come."""

    def __init__(self) -> None:
        self.calls = 0
        self.free = threading.Event()
        self.result = SpanExportResult.FAILURE

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls += 1
        self.free.wait()
        logging.getLogger("opentelemetry.test").error("connection refused")
        if self.calls == 2:
            raise OSError("no route")
        return self.result


async def test_a_dead_collector_costs_no_request_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests end while an export hangs; failures are one line, the return another."""
    caplog.set_level(logging.INFO, "pointsman")
    exporter = Stuck()
    tracing = Tracing(exporter, "http://collector")
    processor = tracing._provider._active_span_processor._span_processors[0]
    config = ServiceConfig(slots=2, queue=3)
    async with serving(tmp_path, config, interceptors=(tracing.interceptor,)) as service:
        for _ in range(100):  # 600 spans, more than a batch
            assert (await service.client.route("fly_kite")).tool == "fly_kite"
        await until(lambda: exporter.calls == 1)
        assert (await service.client.route("fly_kite")).tool == "fly_kite"
        exporter.free.set()
        await asyncio.to_thread(processor.force_flush)
        await service.client.route("fly_kite")
        await asyncio.to_thread(processor.force_flush)
        assert exporter.calls >= 2
        told = [record for record in caplog.records if record.getMessage() == "traces are lost"]
        assert [record.fields["reason"] for record in told] == ["connection refused"]
        exporter.result = SpanExportResult.SUCCESS
        await service.client.route("fly_kite")
        await asyncio.to_thread(processor.force_flush)
        assert [r.getMessage() for r in caplog.records].count("traces arrive again") == 1
    await tracing.close()


async def test_closing_waits_for_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that hangs at the end is given up."""
    monkeypatch.setattr("router.service.tracing.CLOSE_S", 0.05)
    exporter = Stuck()
    tracing = Tracing(exporter, "http://collector")
    tracing._provider.get_tracer("t").start_span("s").end()
    async with asyncio.timeout(20):
        await tracing.close()
    exporter.free.set()
    await until(lambda: "last spans" not in {thread.name for thread in threading.enumerate()})
    tracing._words.detach()


@pytest.mark.parametrize(
    ("endpoint", "protocol", "url"),
    [
        ("http://h:4317", "grpc", "http://h:4317"),
        ("https://h:4318", "http/protobuf", "https://h:4318/v1/traces"),
        ("http://h:4318/", "http/protobuf", "http://h:4318/v1/traces"),
        ("http://h/other", "http/protobuf", "http://h/other"),
    ],
)
def test_traces_over_http_have_a_path(endpoint: str, protocol: str, url: str) -> None:
    """The standard one, unless the URL has its own."""
    assert TracesConfig(endpoint, protocol).url == url


@pytest.mark.parametrize("endpoint", ["collector:4317", "ftp://h", "http://", "http://a:b@h"])
def test_what_is_no_collectors_url_is_refused(endpoint: str) -> None:
    """A password would be logged."""
    with pytest.raises(ValueError, match=r"TracesConfig\.endpoint"):
        TracesConfig(endpoint)


def test_nothing_watches_unless_asked() -> None:
    """No interceptor stands between gRPC and the service."""
    assert Observing(ObservingConfig()).interceptors == ()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_server_without_its_collector_serves_and_ends(
    tmp_path: Path, catalog: Path, protocol: str
) -> None:
    """Nobody listens at the collector's port: requests are answered, and the end is clean."""
    kind = "http/protobuf" if protocol == "http" else "grpc"
    environment = {"FAKE_COLLECTOR": "http://127.0.0.1:9", "FAKE_PROTOCOL": kind}
    async with serve(tmp_path, catalog, **environment) as running:
        address = str((await running.ready())["address"])
        async with AsyncClient(address, ClientConfig(attempts=1, timeout_s=30)) as client:
            for _ in range(3):
                assert (await client.route(RouteQuery("fly_kite"))).tool == "fly_kite"
        running.process.send_signal(signal.SIGTERM)
        code, errors = await running.end()
    assert code == 0, errors
    events = [json.loads(line) for line in errors.splitlines()]  # Nothing else is written there.
    names = [event["event"] for event in events]
    assert names.count("traces") == 1
    told = [event for event in events if event["event"] in ("traces are lost", "traces given up")]
    assert 1 <= len(told) <= 2
    assert names.count("traces are lost") <= 1


async def test_spans_arrive_at_a_collector(tmp_path: Path, catalog: Path) -> None:
    """Over OTLP and gRPC, with a collector made of the protocol's own messages."""
    from opentelemetry.proto.collector.trace.v1 import (  # noqa: PLC0415
        trace_service_pb2,
        trace_service_pb2_grpc,
    )

    names: list[str] = []

    class Collector(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
        async def Export(self, request: object, context: object) -> object:  # noqa: N802
            for resource in request.resource_spans:  # type: ignore[attr-defined]
                for scope in resource.scope_spans:
                    names.extend(span.name for span in scope.spans)
            return trace_service_pb2.ExportTraceServiceResponse()

    collector = grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), collector)
    port = collector.add_insecure_port("127.0.0.1:0")
    await collector.start()
    async with serve(tmp_path, catalog, FAKE_COLLECTOR=f"http://127.0.0.1:{port}") as running:
        async with AsyncClient(str((await running.ready())["address"])) as client:
            await client.route("fly_kite")
        running.process.send_signal(signal.SIGTERM)
        code, errors = await running.end()
    await collector.stop(None)
    assert code == 0, errors
    assert sorted(names) == sorted(["pointsman.v1.RouterService/Route", *PARTS])
