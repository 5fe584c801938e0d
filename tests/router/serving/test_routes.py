"""Requests over a real socket: answers, refusals, repeats, streams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from router.arguments.values import MAX_ARGUMENT_TOKENS
from router.client import ExpiredError, FailedError, RefusedError, RouteAnswer, RouteQuery
from router.jobs import MAX_TEXT_CHARS
from router.rpc import router_pb2 as pb
from router.service.config import ServiceConfig
from tests.router.serving.conftest import serving, until
from tests.router.serving.fake_engine import MODEL_DIGEST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.serving.conftest import Service


async def test_an_answer_names_tool_catalog_and_model(service: Service) -> None:
    """The best tool with its probability, what it cost, and the two digests."""
    answer = await service.client.route("please fly_kite and boil_tea", k=3)
    assert (answer.tool, answer.probability) == ("fly_kite", 0.5)
    assert [c.name for c in answer.candidates] == ["fly_kite", "boil_tea"]
    assert answer.none_probability == 0.25
    assert (answer.catalog_digest, answer.model_digest) == (service.digest, MODEL_DIGEST)
    assert (answer.usage.offered_tokens, answer.usage.tokens_saved) == (300, 293)
    assert answer.timings.total_micros >= 0
    assert answer.timings.model_micros == 4000


async def test_no_tool_fits_is_an_answer(service: Service) -> None:
    """Its probability is that of no tool."""
    answer = await service.client.route("sing")
    assert (answer.tool, answer.probability, answer.candidates) == (None, 0.25, ())


async def test_the_allowed_subset_binds(service: Service) -> None:
    """Only an allowed tool answers, and only its tokens would have been sent."""
    answer = await service.client.route("fly_kite boil_tea", names=("boil_tea",), k=5)
    assert [c.name for c in answer.candidates] == ["boil_tea"]
    assert answer.usage.offered_tokens == 100


@pytest.mark.parametrize(
    ("request_", "reason", "code"),
    [
        ({"text": " \n"}, "INVALID", grpc.StatusCode.INVALID_ARGUMENT),
        ({"text": ""}, "INVALID", grpc.StatusCode.INVALID_ARGUMENT),
        ({"text": "x" * (MAX_TEXT_CHARS + 1)}, "TOO_LONG", grpc.StatusCode.INVALID_ARGUMENT),
        (
            {"text": "x", "previous_turn": "é" * (MAX_TEXT_CHARS + 1)},
            "TOO_LONG",
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        ({"text": "x", "k": 101}, "INVALID", grpc.StatusCode.INVALID_ARGUMENT),
        ({"text": "x", "request_id": "i" * 129}, "TOO_LONG", grpc.StatusCode.INVALID_ARGUMENT),
        ({"text": "x", "request_id": "a\nb"}, "INVALID", grpc.StatusCode.INVALID_ARGUMENT),
        ({"text": "x", "catalog": "名"}, "UNKNOWN_CATALOG", grpc.StatusCode.NOT_FOUND),
        ({"text": "x", "catalog": "0" * 64}, "UNKNOWN_CATALOG", grpc.StatusCode.NOT_FOUND),
        (
            {"text": "x", "allow": pb.AllowRule(names=["nothing"])},
            "EMPTY_TOOLSET",
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
        (
            {"text": "x", "missing": pb.MISSING_POLICY_REPORT},
            "INVALID",
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        ({"text": "x", "max_argument_tokens": 9}, "INVALID", grpc.StatusCode.INVALID_ARGUMENT),
        (
            {"text": "x", "want_arguments": True, "missing": 77},
            "INVALID",
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            {"text": "x", "want_arguments": True, "max_argument_tokens": MAX_ARGUMENT_TOKENS + 1},
            "INVALID",
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
    ],
)
async def test_a_bad_request_is_refused_with_details(
    service: Service, request_: dict[str, object], reason: str, code: grpc.StatusCode
) -> None:
    """Each carries status, ErrorInfo and a pushback of -1 that RetryInfo's absence agrees with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await service.stub.Route(pb.RouteRequest(**request_))
    assert caught.value.code() is code
    trailing = dict(caught.value.trailing_metadata())
    assert trailing["grpc-retry-pushback-ms"] == "-1"
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    assert (status.code, status.message) == (code.value[0], caught.value.details())
    info = error_details_pb2.ErrorInfo()
    assert [d.Unpack(info) for d in status.details] == [True]
    assert (info.domain, info.reason) == ("pointsman.dev", reason)
    assert info.metadata["outcome"] == "refused"
    counts = service.server.ledger.counts
    assert (counts.offered, counts.refused) == (1, 1)


async def test_a_fault_of_one_request_fails_it_alone(service: Service) -> None:
    """Its neighbour is answered, and the engine stays."""
    held = asyncio.create_task(service.client.route("hold gate fly_kite"))
    await service.running(1)
    with pytest.raises(FailedError) as caught:
        await service.client.route("fault")
    assert caught.value.reason == "ENGINE_FAULT"
    service.let("gate")
    assert (await held).tool == "fly_kite"
    assert service.engine.starts == 1


async def test_a_repeated_id_gets_the_recorded_answer(service: Service) -> None:
    """The engine runs it once; bits and timings are the same; it is offered once."""
    query = RouteQuery("ring_bell", request_id="again")
    first = await service.client.route(query)
    assert await service.client.route(query) == first
    counts = service.server.ledger.counts
    assert (counts.offered, counts.answered, counts.repeated) == (1, 1, 1)
    assert service.noted("started") == ["again"]


async def test_a_repeat_joins_the_running_request(service: Service) -> None:
    """Five calls with one id are one request, and each gets its answer."""
    query = RouteQuery("hold gate ring_bell", request_id="joined")
    calls = [asyncio.create_task(service.client.route(query)) for _ in range(5)]
    await service.running(1)
    service.let("gate")
    assert {answer.tool for answer in await asyncio.gather(*calls)} == {"ring_bell"}
    assert service.noted("started") == ["joined"]
    counts = service.server.ledger.counts
    assert (counts.offered, counts.answered, counts.repeated) == (1, 1, 4)


async def test_an_id_reused_for_another_content_is_refused(service: Service) -> None:
    """Neither the recorded answer nor a second one is given."""
    await service.client.route(RouteQuery("ring_bell", request_id="mine"))
    with pytest.raises(RefusedError) as caught:
        await service.client.route(RouteQuery("fly_kite", request_id="mine"))
    assert caught.value.reason == "INVALID"
    assert service.server.ledger.counts.offered == 2


async def test_a_refused_id_may_come_again(service: Service) -> None:
    """A refusal is no recorded outcome: the same id is answered once it can be."""
    query = RouteQuery("ring_bell", request_id="retry", catalog="later")
    with pytest.raises(RefusedError):
        await service.client.route(query)
    await service.client.activate_catalog(service.digest, name="later")
    assert (await service.client.route(query)).tool == "ring_bell"


async def test_leaving_one_of_two_joined_calls_keeps_the_request(service: Service) -> None:
    """Only the last caller's leaving gives it up."""
    query = RouteQuery("hold gate ring_bell", request_id="shared")
    stays, goes = (asyncio.create_task(service.client.route(query)) for _ in range(2))
    await service.running(1)
    await until(lambda: service.server.ledger.counts.repeated == 1)
    goes.cancel()
    with pytest.raises(asyncio.CancelledError):
        await goes
    service.let("gate")
    assert (await stays).tool == "ring_bell"
    assert service.noted("cancelled") == []


async def test_a_stream_answers_each_by_its_id(service: Service) -> None:
    """The held one comes last, though it was sent first; bad ones end nothing."""
    queries = [
        RouteQuery("hold gate ring_bell", request_id="slow"),
        RouteQuery("fly_kite", request_id="quick"),
        RouteQuery("x", request_id="unknown", catalog="none"),
        RouteQuery("fault", request_id="broken"),
    ]
    results = {}
    async for query, result in service.client.route_many(queries):
        results[query.request_id] = result
        if len(results) == 3:
            assert "slow" not in results
            service.let("gate")
    answers = {i: r.tool for i, r in results.items() if isinstance(r, RouteAnswer)}
    assert answers == {"slow": "ring_bell", "quick": "fly_kite"}
    refused, failed = results["unknown"], results["broken"]
    assert isinstance(refused, RefusedError)
    assert refused.reason == "UNKNOWN_CATALOG"
    assert isinstance(failed, FailedError)


async def test_a_long_stream_is_answered_whole(service: Service) -> None:
    """More requests than the window and the queue hold: each has exactly one result."""
    queries = [RouteQuery("fly_kite", request_id=str(i)) for i in range(600)]
    seen = [q.request_id async for q, _ in service.client.route_many(queries, timeout_s=60)]
    assert sorted(seen, key=int) == [str(i) for i in range(600)]
    counts = service.server.ledger.counts
    assert counts.offered == 600
    assert counts.answered + counts.refused == 600
    assert counts.open == 0


async def test_a_request_on_a_stream_has_its_own_timeout(service: Service) -> None:
    """The one that holds for ever expires; the stream goes on."""
    slow = pb.RouteStreamRequest(request=pb.RouteRequest(request_id="slow", text="hold never"))
    slow.timeout.FromMilliseconds(50)
    quick = pb.RouteStreamRequest(request=pb.RouteRequest(request_id="quick", text="fly_kite"))
    results = {r.request_id: r async for r in service.stub.RouteStream(iter([slow, quick]))}
    assert results["quick"].answer.tool.name == "fly_kite"
    assert results["slow"].refusal.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


async def test_a_stream_without_a_deadline_outlives_the_servers_limit(tmp_path: Path) -> None:
    """The limit is each request's own: one sent after it has passed is answered."""
    async with serving(tmp_path, ServiceConfig(slots=2, queue=3, default_timeout_s=0.3)) as service:
        stream = service.stub.RouteStream()
        for text in ("hold never", "fly_kite"):
            request = pb.RouteRequest(request_id=text, text=text)
            await stream.write(pb.RouteStreamRequest(request=request))
            result = await stream.read()
            assert isinstance(result, pb.RouteStreamResponse)
            if text == "hold never":
                assert result.refusal.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
            else:
                assert result.answer.tool.name == "fly_kite"
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


async def test_a_huge_request_is_refused_unread(service: Service) -> None:
    """It is over the bound of a whole request, whichever field it is in."""
    rule = pb.AllowRule(names=["n" * 1000] * 5000)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await service.stub.Route(pb.RouteRequest(text="x", allow=rule, request_id="i"))
    assert "at most 4194304" in str(caught.value.details())
    assert service.server.ledger.counts.reasons == {pb.REFUSAL_REASON_TOO_LONG: 1}


async def test_a_dropped_stream_gives_its_slots_back(service: Service) -> None:
    """Requests of a client that went away are cancelled in the engine."""
    stream = service.stub.RouteStream()
    for i in range(2):
        request = pb.RouteRequest(request_id=str(i), text="hold never")
        await stream.write(pb.RouteStreamRequest(request=request))
    await service.running(2)
    stream.cancel()
    await asyncio.wait_for(service.server.desk.at_rest(), 20)
    assert sorted(service.noted("cancelled")) == ["0", "1"]
    assert service.server.ledger.counts.cancelled == 2


async def test_running_out_of_time_is_told_before_the_client_gives_up(service: Service) -> None:
    """The reply is the server's own, with details, and the slot comes back."""
    with pytest.raises(ExpiredError) as caught:
        await service.client.route("hold never", timeout_s=0.3)
    assert caught.value.message == "its deadline passed while it ran"
    await asyncio.wait_for(service.server.desk.at_rest(), 20)
    counts = service.server.ledger.counts
    assert (counts.cancelled, dict(counts.reasons)) == (1, {pb.REFUSAL_REASON_EXPIRED: 1})


async def test_stats_show_the_ledger(service: Service) -> None:
    """What a client reads is what the server has counted."""
    await service.client.route("ring_bell")
    await service.client.route("sing")
    with pytest.raises(RefusedError):
        await service.client.route("x", catalog="none")
    stats = await service.client.stats()
    assert (stats.offered, stats.answered, stats.refused, stats.open) == (3, 2, 1, 0)
    assert stats.reasons == {"UNKNOWN_CATALOG": 1}
    assert stats.tools == {"ring_bell": 1, "": 1}
    assert (stats.slots, stats.queue, stats.latency_samples) == (2, 3, 2)
    assert stats.p50_micros <= stats.p99_micros
    assert (stats.serving, stats.model_digest, stats.engine_starts) == (True, MODEL_DIGEST, 1)
