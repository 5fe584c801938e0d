"""The nine points of the contract as far as they hold now, counted from outside."""

from __future__ import annotations

import asyncio
import collections
import os
import signal
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from router.client import (
    AsyncClient,
    ClientConfig,
    ExpiredError,
    FailedError,
    PointsmanError,
    RefusedError,
    RouteQuery,
)
from router.engine.supervisor import EngineState, SupervisorConfig
from router.rpc import router_pb2 as pb
from router.service.config import ServiceConfig
from tests.router.serving.conftest import PATIENCE, serving, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.serving.conftest import Service

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def fill(service: Service, count: int, gate: str = "gate") -> list[asyncio.Task[object]]:
    """Send requests that hold, and wait until each runs or waits."""
    tasks = [
        asyncio.create_task(service.client.route(RouteQuery(f"hold {gate}", request_id=f"f{i}")))
        for i in range(count)
    ]
    admission = service.server.admission
    await until(lambda: admission.alive + admission.queued == count)
    return tasks


# 1 and 9: one outcome, and the ledger closes


async def test_the_ledger_closes_under_two_hundred_calls(service: Service) -> None:
    """Answers, refusals, faults, expiries and repeats: both sides count the same."""
    service.let("gate")
    assert await service.client.is_serving()  # The connection stands before deadlines run.
    outcomes: collections.Counter[str] = collections.Counter()

    async def one(number: int) -> None:
        text = ("fly_kite", "hold gate", "fault", " ", "hold never")[number % 5]
        # Long enough to arrive on a busy machine: what never arrives, only the client can count.
        limit_s = 2.0 if text == "hold never" else 20.0
        try:
            await service.client.route(RouteQuery(text, request_id=f"r{number}"), timeout_s=limit_s)
            outcomes["answered"] += 1
        except RefusedError:
            outcomes["refused"] += 1
        except FailedError:
            outcomes["failed"] += 1
        except ExpiredError:
            outcomes["cancelled"] += 1

    await asyncio.gather(*(one(number) for number in range(200)))
    await asyncio.wait_for(service.server.desk.at_rest(), 20)
    stats = await service.client.stats()
    counted = {
        name: getattr(stats, name) for name in ("answered", "refused", "failed", "cancelled")
    }
    assert counted == {name: outcomes[name] for name in counted}
    assert stats.offered == sum(counted.values()) == 200
    assert (stats.open, stats.alive, stats.queued) == (0, 0, 0)
    assert stats.alive_peak <= 2
    assert stats.queued_peak <= 3
    assert service.noted("most")[-1] in ("1", "2")


# 2 and 3: typed refusals, honest pushback


async def test_a_full_queue_refuses_exactly_the_surplus(service: Service) -> None:
    """Two run, three wait, seven are refused; RetryInfo and pushback say the same."""
    admitted = await fill(service, 5)
    refused = 0
    for _ in range(7):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await service.stub.Route(pb.RouteRequest(text="fly_kite"))
        refused += 1
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        trailing = dict(caught.value.trailing_metadata())
        status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        assert status.details[0].Unpack(info)
        assert status.details[1].Unpack(retry)
        assert info.reason == "QUEUE_FULL"
        delay = retry.retry_delay
        assert str(delay.ToMilliseconds()) == trailing["grpc-retry-pushback-ms"]
        assert delay.ToMilliseconds() > 0
    service.let("gate")
    await asyncio.gather(*admitted)
    counts = service.server.ledger.counts
    assert (counts.answered, counts.refused) == (5, refused)
    assert counts.reasons == {pb.REFUSAL_REASON_QUEUE_FULL: 7}
    assert len(service.noted("started")) == 5


async def test_a_refused_request_is_answered_on_the_clients_retry(service: Service) -> None:
    """The client waits as told and tries again with the same id."""
    admitted = await fill(service, 5)
    config = ClientConfig(attempts=50, timeout_s=20.0)
    async with AsyncClient(service.address, config) as patient:
        call = asyncio.create_task(patient.route("fly_kite"))
        await until(lambda: service.server.ledger.counts.refused > 0)
        service.let("gate")
        assert (await call).tool == "fly_kite"
    await asyncio.gather(*admitted)


# 4 and 5: bounded; cancelling gives the slot back


async def test_a_cancelled_request_frees_its_slot_for_the_next(service: Service) -> None:
    """The engine lets go of the cancelled one, and the first in the queue starts."""
    tasks = await fill(service, 3)
    await service.running(2)
    running = service.noted("started")[0]  # calls made together arrive in any order
    tasks.pop(int(running.removeprefix("f"))).cancel()
    await service.running(3)
    assert service.noted("cancelled") == [running]
    assert service.server.ledger.counts.cancelled == 1
    service.let("gate")
    await asyncio.gather(*tasks)


async def test_cancelled_work_that_still_runs_counts_as_alive(service: Service) -> None:
    """While the engine is stuck, two abandoned requests hold both slots and a third waits."""
    stuck = [asyncio.create_task(service.client.route("stuck wake")) for _ in range(2)]
    await until(lambda: service.server.admission.alive == 2)
    for task in stuck:
        task.cancel()
    await until(lambda: service.server.ledger.counts.cancelled == 2)
    third = asyncio.create_task(service.client.route("fly_kite"))
    await until(lambda: service.server.admission.queued == 1)
    assert service.server.admission.alive == 2
    service.let("wake")
    await third
    assert service.server.admission.alive_peak == 2


async def test_expired_requests_never_start(service: Service) -> None:
    """One whose deadline passes in the queue is refused and never reaches the engine."""
    running = await fill(service, 2)
    with pytest.raises(RefusedError) as caught:
        await service.client.route(RouteQuery("fly_kite", request_id="late"), timeout_s=1.5)
    assert caught.value.reason == "EXPIRED"
    service.let("gate")
    await asyncio.gather(*running)
    assert "late" not in service.noted("started")
    counts = service.server.ledger.counts
    assert (counts.answered, counts.refused, counts.cancelled) == (2, 1, 0)


async def test_a_request_cancelled_in_the_queue_never_starts(service: Service) -> None:
    """Its place is free again, and it counts as cancelled."""
    running = await fill(service, 2)
    waiting = asyncio.create_task(service.client.route(RouteQuery("fly_kite", request_id="left")))
    await until(lambda: service.server.admission.queued == 1)
    waiting.cancel()
    await until(lambda: service.server.admission.queued == 0)
    service.let("gate")
    await asyncio.gather(*running)
    assert "left" not in service.noted("started")
    assert service.server.ledger.counts.cancelled == 1


# 6: truthful health


async def test_health_tells_of_server_and_catalog_and_of_the_engines_loss(
    service: Service,
) -> None:
    """SERVING; NOT_SERVING when the engine is killed; SERVING again with the next one."""
    name = "pointsman.v1.RouterService/default"
    assert await service.client.is_serving()
    assert await service.client.is_serving(name)
    async with grpc.aio.insecure_channel(service.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=name))
        assert (await watch.read()).status == SERVING
        assert service.engine.pid is not None
        os.kill(service.engine.pid, signal.SIGKILL)
        assert (await watch.read()).status == NOT_SERVING
        assert (await watch.read()).status == SERVING
        watch.cancel()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="none"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert (await service.client.route("fly_kite")).tool == "fly_kite"
    assert service.engine.starts == 2


async def test_health_is_answered_while_everything_is_full(service: Service) -> None:
    """Slots and queue are taken and the engine is stuck: Check answers, within its deadline."""
    tasks = [asyncio.create_task(service.client.route("stuck wake")) for _ in range(5)]
    await until(lambda: service.server.admission.queued == 3)
    assert await service.client.is_serving(timeout_s=5)
    service.let("wake")
    await asyncio.gather(*tasks)


# 7: a drain answers all


async def test_a_drain_answers_what_was_admitted_and_refuses_the_rest(service: Service) -> None:
    """NOT_SERVING first, late calls DRAINING, five answers, Watches and streams closed."""
    admitted = await fill(service, 5)
    async with grpc.aio.insecure_channel(service.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        stream = service.stub.RouteStream()
        held = pb.RouteRequest(request_id="late", text="fly_kite")
        drain = asyncio.create_task(service.server.drain())
        assert (await watch.read()).status == NOT_SERVING
        with pytest.raises(RefusedError) as caught:
            await service.client.route("fly_kite")
        assert caught.value.reason == "DRAINING"
        assert caught.value.retry_after_s is None
        await stream.write(pb.RouteStreamRequest(request=held))
        late = await stream.read()
        assert late.refusal.code == grpc.StatusCode.UNAVAILABLE.value[0]
        assert not drain.done()
        service.let("gate")
        await asyncio.gather(*admitted)
        assert await watch.read() is grpc.aio.EOF
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.read()
        assert "shutting down" in str(ended.value.details())
        assert await drain
    assert service.server.ledger.counts.answered == 5
    assert service.engine.pid is None


async def test_a_drain_ends_though_a_request_never_does(tmp_path: Path) -> None:
    """The grace passes, the drain says so, and the caller is not left waiting."""
    async with serving(tmp_path, ServiceConfig(slots=2, queue=3, grace_s=0.2)) as service:
        held = await fill(service, 1, "never")
        assert not await service.server.drain()
        with pytest.raises(PointsmanError):
            await held[0]


# 8: real or absent; catalogs go live atomically


async def test_a_killed_engine_fails_what_it_held_and_says_when_to_retry(
    service: Service,
) -> None:
    """Both running requests fail as ENGINE_DOWN with a pause; the next engine answers."""
    running = await fill(service, 2)
    await service.running(2)
    assert service.engine.pid is not None
    os.kill(service.engine.pid, signal.SIGKILL)
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert [type(error) for error in ended] == [FailedError, FailedError]
    assert {error.reason for error in ended if isinstance(error, FailedError)} == {"ENGINE_DOWN"}
    retry = ended[0].retry_after_s if isinstance(ended[0], FailedError) else None
    assert retry is not None
    assert 0 < retry < 60
    async with AsyncClient(service.address, ClientConfig(attempts=100, timeout_s=20)) as patient:
        assert (await patient.route("fly_kite")).tool == "fly_kite"
    assert service.server.ledger.counts.failed == 2


async def test_an_engine_that_kills_itself_again_and_again_hangs_nobody(
    service: Service,
) -> None:
    """Ten requests that take the engine down each end; the one after them is answered."""
    for number in range(10):
        await until(lambda: service.engine.state is EngineState.SERVING)
        with pytest.raises(FailedError):
            await service.client.route(RouteQuery("die", request_id=f"d{number}"))
    async with AsyncClient(service.address, ClientConfig(attempts=100, timeout_s=20)) as patient:
        assert (await patient.route("fly_kite")).tool == "fly_kite"
    counts = service.server.ledger.counts
    assert (counts.failed, counts.answered, counts.open) == (10, 1, 0)


async def test_a_silent_engine_is_ended_and_replaced(tmp_path: Path) -> None:
    """A loop that is stuck for longer than the limit loses its requests, not the server."""
    patience = SupervisorConfig(
        heartbeat_s=0.02, unresponsive_after_s=0.3, first_pause_s=0.01, longest_pause_s=0.05
    )
    async with serving(tmp_path, ServiceConfig(slots=2, queue=3), patience) as service:
        with pytest.raises(FailedError) as caught:
            await service.client.route("stuck never")
        assert "silent" in caught.value.message
        await until(lambda: service.engine.state is EngineState.SERVING)
        assert (await service.client.route("fly_kite")).tool == "fly_kite"


async def test_a_stopped_engine_takes_no_request_until_it_goes_on(tmp_path: Path) -> None:
    """Health and refusals agree while it is silent; what it held is answered when it goes on."""
    patience = SupervisorConfig(heartbeat_s=0.02, quiet_after_s=0.3)
    async with serving(tmp_path, ServiceConfig(slots=2, queue=3), patience) as service:
        held = asyncio.create_task(service.client.route("hold gate ring_bell"))
        await service.running(1)
        assert service.engine.pid is not None
        os.kill(service.engine.pid, signal.SIGSTOP)
        try:
            await until(lambda: service.engine.state is EngineState.SILENT)
            assert not await service.client.is_serving()
            with pytest.raises(RefusedError) as caught:
                await service.client.route("fly_kite", timeout_s=0.5)
            assert caught.value.reason == "ENGINE_DOWN"
        finally:
            os.kill(service.engine.pid, signal.SIGCONT)
        await until(lambda: service.engine.state is EngineState.SERVING)
        assert await service.client.is_serving()
        service.let("gate")
        assert (await held).tool == "ring_bell"
        assert (await service.client.route("fly_kite")).tool == "fly_kite"
        assert service.engine.starts == 1


async def test_a_catalog_goes_live_atomically_and_back(service: Service) -> None:
    """A request finishes on the catalog it was admitted with; the next goes to the new one."""
    new = service.catalog_file("fly_kite dig_hole")
    held = asyncio.create_task(service.client.route("hold gate ring_bell", k=2))
    await service.running(1)
    catalog, before = await service.client.activate_catalog(new)
    assert (catalog.digest, before, catalog.earlier_digests) == (new, service.digest, (before,))
    after = await service.client.route("ring_bell dig_hole")
    assert (after.tool, after.catalog_digest) == ("dig_hole", new)
    service.let("gate")
    assert ((await held).tool, (await held).catalog_digest) == ("ring_bell", service.digest)
    again, before = await service.client.activate_catalog(service.digest)
    assert (again.digest, before, again.earlier_digests) == (service.digest, new, (new,))
    assert (await service.client.route("ring_bell")).tool == "ring_bell"
    assert (await service.client.route("dig_hole", catalog=new)).tool == "dig_hole"


@pytest.mark.parametrize(
    ("content", "reason"), [("broken", "BAD_CATALOG"), (None, "UNKNOWN_CATALOG")]
)
async def test_a_bad_catalog_leaves_the_old_in_service(
    service: Service, content: str | None, reason: str
) -> None:
    """A truncated file and an unknown digest change nothing."""
    digest = service.catalog_file(content) if content else "a" * 64
    with pytest.raises(RefusedError) as caught:
        await service.client.activate_catalog(digest)
    assert caught.value.reason == reason
    assert (await service.client.list_catalogs())[0].digest == service.digest
    assert (await service.client.route("ring_bell")).tool == "ring_bell"


async def test_a_restarted_engine_serves_the_activated_catalog(service: Service) -> None:
    """What was activated is opened by the next engine too."""
    new = service.catalog_file("dig_hole")
    await service.client.activate_catalog(new)
    assert service.engine.pid is not None
    os.kill(service.engine.pid, signal.SIGKILL)
    await until(lambda: service.engine.starts == 2)
    await until(lambda: service.engine.state is EngineState.SERVING)
    assert (await service.client.route("dig_hole")).catalog_digest == new


async def test_a_lost_inactive_catalog_does_not_stop_the_next_engine(service: Service) -> None:
    """Only what is active must be there; the lost one is UNKNOWN_CATALOG, or BAD to activate."""
    await service.client.activate_catalog(service.catalog_file("dig_hole"))
    (service.store / f"{service.digest}.catalog").unlink()
    assert service.engine.pid is not None
    os.kill(service.engine.pid, signal.SIGKILL)
    await until(lambda: service.engine.starts == 2)
    await until(lambda: service.engine.state is EngineState.SERVING)
    assert (await service.client.route("dig_hole")).tool == "dig_hole"
    with pytest.raises(RefusedError) as caught:
        await service.client.route("x", catalog=service.digest)
    assert caught.value.reason == "UNKNOWN_CATALOG"
    with pytest.raises(RefusedError) as caught:
        await service.client.activate_catalog(service.digest)
    assert caught.value.reason == "BAD_CATALOG"


async def test_surplus_catalogs_are_closed_but_not_under_a_request(tmp_path: Path) -> None:
    """With none kept, the old catalog is closed when its last request has ended."""
    config = ServiceConfig(slots=2, queue=3, kept_catalogs=0)
    async with serving(tmp_path, config, PATIENCE) as service:
        held = asyncio.create_task(service.client.route("hold gate ring_bell"))
        await service.running(1)
        await service.client.activate_catalog(service.catalog_file("dig_hole"))
        assert service.noted("closed") == []
        service.let("gate")
        assert (await held).tool == "ring_bell"
        await until(lambda: service.noted("closed") == [service.digest])
        with pytest.raises(RefusedError):
            await service.client.route("x", catalog=service.digest)
        await service.client.activate_catalog(service.digest)
        assert (await service.client.route("ring_bell")).tool == "ring_bell"
