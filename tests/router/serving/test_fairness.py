"""Slots and queue are divided fairly: counts by client, whoever asks for how much."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.client import AsyncClient, ClientConfig, RefusedError, RouteQuery
from router.rpc import router_pb2 as pb
from router.service.admission import Admission, Share, Slot
from router.service.config import ServiceConfig
from router.service.pushback import LONGEST_S, REMEMBERED, Pushback
from router.service.ranking import Ranking
from router.service.rate import BURST_S, RateLimits
from router.service.refusals import NoAnswerError
from tests.router.serving.conftest import serving, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.serving.conftest import Service


def never() -> float:
    return float("inf")


class Crowd:
    """Clients of one admission, and what has become of each of their requests."""

    def __init__(self, slots: int, queue: int) -> None:
        self.admission = Admission(slots, queue)
        self.tasks: list[tuple[str, asyncio.Task[Slot]]] = []
        self.held: list[tuple[str, Slot]] = []
        self.refused: Counter[tuple[str, str]] = Counter()
        self.served: list[str] = []

    async def ask(self, client: str, count: int = 1, weight: int = 1, max_open: int = 0) -> None:
        share = Share(client, weight, max_open)
        for _ in range(count):
            self.tasks.append((client, asyncio.create_task(self.admission.enter(never, share))))
            await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        for client, task in self.tasks[:]:
            if not task.done():
                continue
            self.tasks.remove((client, task))
            error = task.exception()
            if error is None:
                self.held.append((client, task.result()))
                self.served.append(client)
            else:
                assert isinstance(error, NoAnswerError)
                self.refused[client, pb.RefusalReason.Name(error.reason)[15:]] += 1

    async def finish_one(self, number: int = 0) -> None:
        _, slot = self.held.pop(number % len(self.held))
        slot.release(answered=True)
        await self.settle()

    def waiting(self) -> Counter[str]:
        return Counter(client for client, _ in self.tasks)


async def test_a_free_slot_goes_to_who_has_fewest() -> None:
    """One client fills slots and queue; the others' are served next, until they have as many."""
    crowd = Crowd(slots=4, queue=12)
    await crowd.ask("greedy", 12)
    await crowd.ask("a")
    await crowd.ask("b", 2)
    for _ in range(3):
        await crowd.finish_one()  # those of the greedy one, which came first
    assert crowd.served == ["greedy"] * 4 + ["a", "b", "greedy"]


async def test_alone_a_client_may_have_everything() -> None:
    """Nothing is kept free for clients that are not there."""
    crowd = Crowd(slots=3, queue=5)
    await crowd.ask("greedy", 9)
    assert crowd.admission.open_of("greedy") == 8
    assert crowd.refused == {("greedy", "QUEUE_FULL"): 1}


async def test_a_full_queue_makes_room_for_who_has_less() -> None:
    """The latest of the one that has most goes, counted and told as OVER_QUOTA."""
    crowd = Crowd(slots=2, queue=4)
    await crowd.ask("greedy", 6)
    await crowd.ask("a", 2)
    assert crowd.refused == {("greedy", "OVER_QUOTA"): 2}
    assert crowd.waiting() == {"greedy": 2, "a": 2}
    await crowd.ask("a", 2)  # greedy has 4 and a 2: a third is due to a, a fourth would be more
    assert crowd.refused == {("greedy", "OVER_QUOTA"): 3, ("a", "QUEUE_FULL"): 1}
    assert crowd.admission.queued == 4


async def test_equals_are_not_sent_away_for_one_another() -> None:
    """Eight clients with one request each fill everything; a ninth finds it full."""
    crowd = Crowd(slots=4, queue=4)
    for name in "abcdefgh":
        await crowd.ask(name)
    await crowd.ask("i")
    assert crowd.refused == {("i", "QUEUE_FULL"): 1}


async def test_a_weight_is_a_larger_share() -> None:
    """With weight 3 beside 1 a client gets three slots of four while both want all."""
    crowd = Crowd(slots=4, queue=40)
    await crowd.ask("light", 12)
    await crowd.ask("heavy", 30, weight=3)
    for _ in range(28):
        # Each ends in the order in which it began, so that alive counts say who is favoured.
        await crowd.finish_one()
    last = Counter(crowd.served[-16:])
    assert last == {"heavy": 12, "light": 4}


async def test_a_limit_of_its_own_holds_while_everything_is_free() -> None:
    """`max_open` counts what runs and what waits."""
    crowd = Crowd(slots=2, queue=10)
    await crowd.ask("a", 5, max_open=3)
    assert crowd.refused == {("a", "OVER_QUOTA"): 2}
    assert crowd.admission.open_of("a") == 3
    await crowd.finish_one()
    await crowd.ask("a", 2, max_open=3)
    assert crowd.refused == {("a", "OVER_QUOTA"): 3}


@given(
    slots=st.integers(1, 4),
    queue=st.integers(0, 6),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ask", "ask", "finish", "leave"]),
            st.sampled_from("abcd"),
            st.integers(0, 9),
        ),
        max_size=60,
    ),
)
def test_nobody_waits_while_another_has_two_more(
    slots: int, queue: int, steps: list[tuple[str, str, int]]
) -> None:
    """Whatever comes and goes: bounds hold, and a client is refused only beside its equals."""

    async def play() -> None:
        crowd = Crowd(slots, queue)
        for action, client, number in steps:
            if action == "ask":
                before = crowd.refused[client, "QUEUE_FULL"]
                await crowd.ask(client)
                if crowd.refused[client, "QUEUE_FULL"] > before:
                    mine = crowd.admission.open_of(client)
                    others = crowd.waiting()
                    assert all(crowd.admission.open_of(c) <= mine + 1 for c in others)
            elif action == "finish" and crowd.held:
                await crowd.finish_one(number)
            elif action == "leave" and crowd.tasks:
                _, task = crowd.tasks.pop(number % len(crowd.tasks))
                task.cancel()
                await crowd.settle()
            assert crowd.admission.alive == len(crowd.held) <= slots
            assert crowd.admission.queued == len(crowd.tasks) <= queue
            assert not crowd.tasks or crowd.admission.alive == slots
        while crowd.held:
            await crowd.finish_one()
        assert crowd.admission.idle
        assert crowd.admission.granted == crowd.admission.returned == len(crowd.served)

    asyncio.run(play())


async def test_the_wait_told_to_a_newcomer_is_that_of_its_turn() -> None:
    """Behind one client's ten, another's first is two turns away, not eleven."""
    crowd = Crowd(slots=1, queue=20)
    admission = crowd.admission
    await crowd.ask("greedy", 11)
    admission._service_s = 1.0
    loop = asyncio.get_running_loop()
    with pytest.raises(NoAnswerError) as caught:
        await admission.enter(lambda: loop.time() + 1.2, Share("a"))
    assert caught.value.reason == pb.REFUSAL_REASON_DEADLINE_TOO_SHORT
    assert caught.value.retry_after_s == 1.5
    with pytest.raises(NoAnswerError) as caught:
        await admission.enter(lambda: loop.time() + 1.6, Share("greedy"))
    assert caught.value.retry_after_s == 10.5


async def test_before_any_answer_pauses_are_those_of_the_starts_own_request() -> None:
    """A request takes 0.4 s alone: a place comes free every 0.4 s, however many slots there are."""
    for slots in (1, 8):
        crowd = Crowd(slots, queue=0)
        crowd.admission.expect(0.4)
        await crowd.ask("a", slots)
        for turn in (1, 2):
            with pytest.raises(NoAnswerError) as caught:
                await crowd.admission.enter(never, Share("b"))
            assert caught.value.retry_after_s == pytest.approx(0.4 * turn, abs=0.1)


def test_those_turned_away_are_told_different_moments() -> None:
    """A place comes free every 0.1 s: the third is told 0.3 s, and one 0.2 s later 0.2 s."""
    pushback = Pushback()
    told = [pushback.next_s(100.0, "", 0.1) for _ in range(3)]
    assert told == pytest.approx([0.1, 0.2, 0.3])
    assert pushback.next_s(100.2, "", 0.1) == pytest.approx(0.2)
    assert pushback.next_s(100.2, "other", 0.1) == pytest.approx(0.1)
    assert pushback.next_s(500.0, "", 0.1) == pytest.approx(0.1)
    for _ in range(1000):
        assert pushback.next_s(500.0, "", 0.1) <= LONGEST_S
    for number in range(3 * REMEMBERED):
        pushback.next_s(500.0 + number, str(number), 0.1)
    assert len(pushback._told) <= REMEMBERED


def test_a_rate_lets_a_burst_through_and_then_its_pace() -> None:
    """60 a minute: ten at once after a quiet time, then one a second, told to the moment."""
    rates = RateLimits()
    assert [rates.pause_s("a", 60, 50.0) for _ in range(int(BURST_S))] == [None] * 10
    assert rates.pause_s("a", 60, 50.0) == pytest.approx(1.0)
    assert rates.pause_s("a", 60, 50.4) == pytest.approx(0.6)
    assert rates.pause_s("b", 60, 50.4) is None
    assert rates.pause_s("a", 60, 51.0) is None
    assert rates.pause_s("slow", 2, 0.0) is None
    assert rates.pause_s("slow", 2, 1.0) == pytest.approx(29.0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-3, 3), st.booleans())))
def test_the_first_is_the_least_of_those_ranked(steps: list[tuple[str, int, bool]]) -> None:
    """Ranked anew, dropped, and ranked again: as a sorted list would say."""
    ranking: Ranking[str] = Ranking()
    plain: dict[str, tuple[float, float]] = {}
    for key, rank, dropped in steps * 3:
        if dropped:
            ranking.drop(key)
            plain.pop(key, None)
        else:
            ranking.put(key, (rank, 0.0))
            plain[key] = (rank, 0.0)
        expected = min(plain.items(), key=lambda item: (item[1], item[0]))[0] if plain else None
        assert ranking.first() == expected
        assert len(ranking) == len(plain)
    assert len(ranking._heap) <= 2 * len(plain) + 65


def client_of(service: Service, name: str) -> AsyncClient:
    return AsyncClient(service.address, ClientConfig(attempts=1, timeout_s=30.0, client_id=name))


async def test_a_greedy_client_leaves_room_to_those_who_come_later(tmp_path: Path) -> None:
    """Over the wire: 40 of one, then one each of five others: the five are all answered."""
    outcomes: Counter[tuple[str, str]] = Counter()

    async def one(client: AsyncClient, number: int) -> None:
        name = client.config.client_id
        try:
            await client.route(RouteQuery("hold gate", request_id=f"r{number}"))
            outcomes[name, "answered"] += 1
        except RefusedError as error:
            outcomes[name, error.reason] += 1

    async with (
        serving(tmp_path, ServiceConfig(slots=2, queue=6)) as service,
        contextlib.AsyncExitStack() as stack,
    ):
        admission = service.server.admission
        greedy = await stack.enter_async_context(client_of(service, "greedy"))
        calls = [asyncio.create_task(one(greedy, number)) for number in range(40)]
        await until(lambda: outcomes["greedy", "QUEUE_FULL"] == 32)
        for name in "abcde":
            polite = await stack.enter_async_context(client_of(service, name))
            # The same id as one of the greedy client's: clients don't share ids.
            calls.append(asyncio.create_task(one(polite, 0)))
            await until(lambda name=name: admission.open_of(name) == 1)  # type: ignore[misc]
        service.let("gate")
        await asyncio.gather(*calls)
        assert outcomes == {
            ("greedy", "QUEUE_FULL"): 32, ("greedy", "OVER_QUOTA"): 5, ("greedy", "answered"): 3,
            **{(name, "answered"): 1 for name in "abcde"},
        }  # fmt: skip
        await asyncio.wait_for(service.server.desk.at_rest(), 20)
        stats = await service.client.stats()
        counted = {name: (c.offered, c.answered, c.refused) for name, c in stats.clients.items()}
        assert counted == {"greedy": (40, 3, 37), **dict.fromkeys("abcde", (1, 1, 0))}
        assert stats.accounts.closed
        assert stats.accounts.slots_granted == 8
        assert stats.accounts.tokens_used == 8 * 7
