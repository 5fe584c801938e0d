"""Admission and ledger by themselves: counts that hold whatever comes."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.rpc import router_pb2 as pb
from router.service.admission import Admission, Slot
from router.service.ledger import Ledger
from router.service.refusals import NoAnswerError, Outcome


def never() -> float:
    return float("inf")


@given(
    slots=st.integers(1, 4),
    queue=st.integers(0, 4),
    steps=st.lists(st.tuples(st.sampled_from(["enter", "release", "leave"]), st.integers(0, 9))),
)
def test_slots_and_queue_are_never_exceeded(
    slots: int, queue: int, steps: list[tuple[str, int]]
) -> None:
    """Whatever comes and goes: bounds hold, nobody is lost, order is kept, all ends at zero."""
    asyncio.run(_play(slots, queue, steps))


async def _play(slots: int, queue: int, steps: list[tuple[str, int]]) -> None:
    admission = Admission(slots, queue)
    tasks: list[asyncio.Task[Slot]] = []
    held: list[Slot] = []
    refused = 0

    def collect() -> None:
        nonlocal refused
        for task in [t for t in tasks if t.done()]:
            tasks.remove(task)
            if task.cancelled():
                continue
            if task.exception() is None:
                held.append(task.result())
            else:
                assert isinstance(task.exception(), NoAnswerError)
                refused += 1

    for action, number in steps:
        if action == "enter":
            full = admission.alive == slots and admission.queued == queue
            before = refused
            tasks.append(asyncio.create_task(admission.enter(never)))
            await asyncio.sleep(0)
            collect()
            assert (refused > before) == full
        elif action == "release" and held:
            held.pop(number % len(held)).release(answered=bool(number % 2))
        elif action == "leave" and tasks:
            tasks[number % len(tasks)].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        collect()
        assert admission.alive == len(held) <= slots
        assert admission.queued == len(tasks) <= queue
        assert not admission.queued or admission.alive == slots
    while held or tasks:
        held.pop().release()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        collect()
    assert admission.idle


async def test_a_slot_granted_to_one_who_left_in_the_same_turn_goes_on() -> None:
    """The grant and the cancellation meet: the slot is not lost."""
    admission = Admission(1, 2)
    first = await admission.enter(never)
    leaves = asyncio.create_task(admission.enter(never))
    stays = asyncio.create_task(admission.enter(never))
    await asyncio.sleep(0)
    first.release()
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    (await stays).release()
    assert admission.idle


async def test_a_slot_is_given_back_once() -> None:
    """A second release changes nothing."""
    admission = Admission(2, 0)
    slot = await admission.enter(never)
    await admission.enter(never)
    slot.release()
    slot.release()
    assert admission.alive == 1


async def test_what_expired_while_it_waited_is_passed_over() -> None:
    """The freed slot goes to the next whose deadline still lies ahead."""
    admission = Admission(1, 2)
    loop = asyncio.get_running_loop()
    limit = [float("inf")]
    first = await admission.enter(never)
    late = asyncio.create_task(admission.enter(lambda: limit[0]))
    good = asyncio.create_task(admission.enter(never))
    await asyncio.sleep(0)
    limit[0] = loop.time() - 1
    first.release()
    with pytest.raises(NoAnswerError) as caught:
        await late
    assert caught.value.reason == pb.REFUSAL_REASON_EXPIRED
    (await good).release()


async def test_a_deadline_shorter_than_the_wait_is_refused_at_once() -> None:
    """It is not let into the queue to expire there; the pause it is told is the wait."""
    admission = Admission(1, 5)
    loop = asyncio.get_running_loop()
    slot = await admission.enter(never)
    admission._service_s = 10.0
    with pytest.raises(NoAnswerError) as caught:
        await admission.enter(lambda: loop.time() + 1)
    assert caught.value.reason == pb.REFUSAL_REASON_DEADLINE_TOO_SHORT
    assert caught.value.retry_after_s == 5.0
    assert admission.queued == 0
    slot.release()


def _response(name: str = "") -> pb.RouteResponse:
    return pb.RouteResponse(tool=pb.Candidate(name=name)) if name else pb.RouteResponse()


def test_records_are_bounded_and_forgotten_in_time() -> None:
    """The oldest goes when there are too many, and each when its time is over."""
    now = [0.0]
    ledger = Ledger(2, 10.0, lambda: now[0])
    for number in range(3):
        ledger.offer("c")
        ledger.answer(("c", f"r{number}"), b"", _response("t"), 0.1)
    assert ledger.recorded(("c", "r0")) is None
    assert ledger.recorded(("c", "r1")) is not None
    assert ledger.recorded(("d", "r1")) is None
    now[0] = 10.0
    assert ledger.recorded(("c", "r2")) is None
    assert ledger.counts.open == 0


def test_only_ends_end() -> None:
    """An answer or a pending call can't be counted as an end without an answer."""
    ledger = Ledger(1, 1.0)
    for outcome in (Outcome.ANSWERED, Outcome.PENDING):
        with pytest.raises(ValueError, match="no end"):
            ledger.end_without("c", outcome, None)


def test_percentiles_are_those_of_the_answers() -> None:
    """Of 1..100 ms: the median and the last but one."""
    ledger = Ledger(1, 1.0)
    assert ledger.latency_s() == (0, 0.0, 0.0, 0.0)
    for number in range(100, 0, -1):
        ledger.answer(("c", "r"), b"", _response(), number / 1000)
    assert ledger.latency_s() == (100, 0.051, 0.09, 0.099)


@given(
    seconds=st.one_of(st.none(), st.floats(0, 1e6)),
    reason=st.sampled_from([v.number for v in pb.RefusalReason.DESCRIPTOR.values if v.number]),
)
def test_pushback_and_retry_info_agree(seconds: float | None, reason: int) -> None:
    """Every reason has a status code; the two pauses are the same and never early."""
    error = NoAnswerError(pb.RefusalReason.ValueType(reason), "m", retry_after_s=seconds)
    status = error.status()
    assert status.code == error.code.value[0] != 0
    pushback = int(str(dict(error.trailing_metadata())["grpc-retry-pushback-ms"]))
    assert (pushback == -1) == (seconds is None) == (len(status.details) == 1)
    if seconds is not None:
        assert pushback >= 1000 * seconds
