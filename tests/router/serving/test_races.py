"""Every race of a request's life, step by step, and many of them: nothing is lost or held."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from router.client import (
    ClientConfig,
    FailedError,
    RefusedError,
    RouteQuery,
    ServerUnavailableError,
)
from router.client.aio import AsyncClient
from router.engine.supervisor import EngineState
from router.rpc import router_pb2 as pb
from router.service.clients import Caller
from router.service.config import ServiceConfig
from router.service.policies import EVERYBODY
from router.service.refusals import NoAnswerError
from tests.router.serving.conftest import serving, until, until_async

if TYPE_CHECKING:
    from router.client import RouteAnswer
    from router.service.admission import Admission
    from tests.router.serving.conftest import Service

CALLER = Caller("c", EVERYBODY)
CANCELS = 10_000
WAVE = 200
WAVES_A_CONNECTION = 5
GROWTH_BYTES = 12 << 20
"""What resident memory may grow by over the later cancels: 3 KB for each."""


def closed(service: Service) -> bool:
    """Whether the ledger and the accounts are at rest."""
    counts, admission, tokens = (
        service.server.ledger.counts, service.server.admission, service.server.ledger.tokens,
    )  # fmt: skip
    return (
        not counts.open
        and admission.idle
        and admission.granted == admission.returned
        and tokens.reserved == tokens.used + tokens.unused
    )


@pytest.mark.parametrize("text", ["fly_kite", "hold gate", "fault", " "])
async def test_a_cancel_at_any_turn_gives_everything_back(service: Service, text: str) -> None:
    """Given up after 0, 1, 2 ... turns of the event loop, slots free, slots full, queue full."""
    desk, loop = service.server.desk, asyncio.get_running_loop()
    for busy in (0, 2, 4):
        for turns in range(24):
            others = [
                asyncio.create_task(
                    desk.route(pb.RouteRequest(text=f"hold b{busy}"), loop.time() + 20, CALLER)
                )
                for _ in range(busy)
            ]
            await until(
                lambda n=busy: service.server.admission.alive + service.server.admission.queued == n  # type: ignore[misc]
            )
            call = asyncio.create_task(
                desk.route(pb.RouteRequest(text=text), loop.time() + 20, CALLER)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            for other in others:
                other.cancel()
            await asyncio.gather(call, *others, return_exceptions=True)
            await asyncio.wait_for(desk.at_rest(), 20)
            assert closed(service)
    counts = service.server.ledger.counts
    ended = counts.cancelled + counts.answered + counts.failed + counts.refused
    assert counts.offered == ended == 3 * 23 + 24 * (2 + 4)  # after no turn, it never came in


@pytest.mark.parametrize("turns", range(12))
async def test_an_answer_and_a_cancel_that_meet_are_one_outcome(
    service: Service, turns: int
) -> None:
    """The engine's answer is on the way when the caller leaves: cancelled or answered, once."""
    desk, loop = service.server.desk, asyncio.get_running_loop()
    request = pb.RouteRequest(text=f"hold g{turns}", request_id="r")
    call = asyncio.create_task(desk.route(request, loop.time() + 20, CALLER))
    await service.running(1)
    service.let(f"g{turns}")
    ended = next(iter(service.engine._pending.values()))
    await until(ended.done)
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.wait_for(desk.at_rest(), 20)
    counts = service.server.ledger.counts
    assert counts.answered + counts.cancelled == counts.offered == 1
    assert closed(service)


async def test_a_deadline_at_any_moment_is_one_outcome(service: Service) -> None:
    """Deadlines from nothing to longer than a service takes, all at once, over two slots."""
    desk, loop = service.server.desk, asyncio.get_running_loop()

    async def one(number: int) -> str:
        request = pb.RouteRequest(text="fly_kite", request_id=f"r{number}")
        try:
            await desk.route(request, loop.time() + number / 4000, CALLER)
        except NoAnswerError as error:
            return error.outcome.value
        return "answered"

    ends = await asyncio.gather(*(one(number) for number in range(200)))
    await asyncio.wait_for(desk.at_rest(), 20)
    counts = service.server.ledger.counts
    assert {name: ends.count(name) for name in ("answered", "refused", "cancelled")} == {
        "answered": counts.answered, "refused": counts.refused, "cancelled": counts.cancelled,
    }  # fmt: skip
    assert closed(service)


@pytest.mark.slow
async def test_ten_thousand_cancels_leave_nothing_behind(tmp_path: Path) -> None:
    """Waves of cancels at drawn moments: slots come back, and resident memory stays flat."""
    async with serving(tmp_path, ServiceConfig(slots=8, queue=WAVE)) as service:
        half, waves = 0, CANCELS // WAVE
        for first in range(0, waves, WAVES_A_CONNECTION):
            # A connection that resets thousands of streams has new ones refused, unread, by the
            # transport's guard against rapid resets, for as long as it likes.
            config = ClientConfig(attempts=6, timeout_s=60.0)
            async with AsyncClient(service.address, config) as client:
                for wave in range(first, first + WAVES_A_CONNECTION):
                    await _cancelled_wave(service, client, WAVE - wave % 60)
            if first == waves // 2:
                half = _resident()
        await until(lambda: closed(service))
        counts = service.server.ledger.counts
        assert counts.offered == counts.cancelled
        assert counts.offered > CANCELS * 2 // 3  # one cancelled on its way never came in
        assert _resident() - half < GROWTH_BYTES
        assert (await service.client.route("fly_kite")).tool == "fly_kite"


async def _cancelled_wave(service: Service, client: AsyncClient, wanted: int) -> None:
    """Cancel `WAVE` requests when so many have come in: some run, many wait."""
    admission = service.server.admission
    calls = [asyncio.create_task(client.route(RouteQuery("hold never"))) for _ in range(WAVE)]
    await until(partial(_come_in, admission, calls, wanted))
    for number, call in enumerate(calls):
        asyncio.get_running_loop().call_later(number % 17 * 0.001, call.cancel)
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} <= {asyncio.CancelledError, ServerUnavailableError}


def _come_in(admission: Admission, calls: list[asyncio.Task[RouteAnswer]], wanted: int) -> bool:
    given_up = sum(call.done() for call in calls)
    return admission.alive + admission.queued + given_up >= wanted


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# the engine


async def test_an_engine_that_fails_its_self_check_on_restart_is_tried_again(
    service: Service,
) -> None:
    """Health says so at once, refusals tell when; once it passes, requests are answered."""
    (service.control / "refuse-start").touch()
    call = asyncio.create_task(service.client.route("hold gate"))
    await service.running(1)
    assert service.engine.pid is not None
    os.kill(service.engine.pid, signal.SIGKILL)
    with pytest.raises(FailedError) as failed:
        await call
    assert failed.value.reason == "ENGINE_DOWN"
    assert failed.value.retry_after_s is not None
    await until(lambda: service.engine.starts >= 4)
    assert not await service.client.is_serving()
    with pytest.raises(RefusedError) as refused:
        await service.client.route("fly_kite")
    assert refused.value.reason == "ENGINE_DOWN"
    assert refused.value.retry_after_s is not None
    (service.control / "refuse-start").unlink()
    await until(lambda: service.engine.state is EngineState.SERVING)
    assert (await service.client.route("fly_kite")).tool == "fly_kite"
    assert closed(service)


async def test_an_engine_killed_again_and_again_never_hangs_a_request(tmp_path: Path) -> None:
    """Every request ends, and those of one moment end together."""
    async with serving(tmp_path, ServiceConfig(slots=4, queue=40)) as service:
        ends: dict[str, int] = {"answered": 0, "failed": 0, "refused": 0}

        async def one(number: int) -> None:
            try:
                await service.client.route(RouteQuery("fly_kite", request_id=f"r{number}"))
                ends["answered"] += 1
            except FailedError:
                ends["failed"] += 1
            except RefusedError:
                ends["refused"] += 1

        for kill in range(6):
            await until(lambda: service.engine.state is EngineState.SERVING)
            calls = [asyncio.create_task(one(40 * kill + i)) for i in range(40)]
            for _ in range(kill):
                await asyncio.sleep(0.001)
            if service.engine.pid is not None:
                os.kill(service.engine.pid, signal.SIGKILL)
            await asyncio.wait_for(asyncio.gather(*calls), 20)
        await asyncio.wait_for(service.server.desk.at_rest(), 20)
        counts = service.server.ledger.counts
        assert sum(ends.values()) == 240 == counts.offered
        assert ends == {
            "answered": counts.answered, "failed": counts.failed, "refused": counts.refused,
        }  # fmt: skip
        assert closed(service)


# the end


async def test_a_drain_waits_for_no_reader_and_no_half_open_stream(tmp_path: Path) -> None:
    """Streams that nobody reads or closes, a stream without a word, and a watch: all end."""
    async with serving(tmp_path, ServiceConfig(slots=4, queue=600, grace_s=20)) as service:
        channel = grpc.aio.insecure_channel(service.address)
        name = f"/{pb.DESCRIPTOR.services_by_name['RouterService'].full_name}/RouteStream"
        unread = channel.stream_stream(name)()
        for number in range(400):  # over the window, so that the server stops reading
            request = pb.RouteRequest(text="fly_kite", request_id=f"u{number}")
            await unread.write(pb.RouteStreamRequest(request=request).SerializeToString())
        silent = channel.stream_stream(name)()
        await silent.wait_for_connection()
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await until(lambda: service.server.ledger.counts.answered >= 200)
        assert await asyncio.wait_for(service.server.drain(), 15)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await watch.read() is grpc.aio.EOF
        await until_async(lambda: _ended(silent))
        await until(lambda: not service.server._servicer._streams)
        assert closed(service)
        counts = service.server.ledger.counts
        # What had not been read from the stream before the drain is told so.
        assert counts.answered + counts.reasons[pb.REFUSAL_REASON_DRAINING] == counts.offered
        await channel.close()


async def _ended(call: object) -> bool:
    return bool(call.done())  # type: ignore[attr-defined]
