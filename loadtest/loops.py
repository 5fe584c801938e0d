"""How load is offered: clients that wait for their answer, and a clock that waits for nobody.

Owns the two loops. Never judges, and never hides a request: every attempt is in the ledger.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from loadtest.caller import Caller
    from loadtest.records import ClientLedger, Ending

LONGEST_PAUSE_S: Final = 5.0
POLL_S: Final = 0.01
LONGEST_SILENCE_S: Final = 120.0
UNTOLD_PAUSE_S: Final = 0.05
"""Pause after an end that says nothing about coming back, so that no client spins."""


@dataclass(frozen=True, slots=True)
class LoopClient:
    """One client of a closed loop.

    Attributes:
        client: its id.
        cases: what it asks, one after the other; may be endless where `go_on` ends it.
        lane: its connection.
        think_s: returns how long it thinks before each request.
        attempts: most times a request is offered, each as a request of its own.

    """

    client: str
    cases: Iterable[int]
    lane: int
    think_s: Callable[[], float] | None = None
    attempts: int = 1


def endless(names: Sequence[str], case_count: int) -> list[LoopClient]:
    """Return a client for each name, that asks every case in turn and begins at one of its own."""
    clients = []
    for lane, name in enumerate(names):
        first = lane % case_count
        cases = itertools.cycle((*range(first, case_count), *range(first)))
        clients.append(LoopClient(name, cases, lane))
    return clients


async def closed_loop(
    caller: Caller, clients: Sequence[LoopClient], go_on: Callable[[], bool] = lambda: True
) -> None:
    """Let every client ask, each its next request only after the end of the one before."""
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(_ask_in_turn(caller, client, go_on))


async def _ask_in_turn(caller: Caller, client: LoopClient, go_on: Callable[[], bool]) -> None:
    for case in client.cases:
        if client.think_s is not None:
            await asyncio.sleep(client.think_s())
        for _ in range(client.attempts):
            if not go_on():
                return
            record = await caller.ask(client.client, case, lane=client.lane)
            assert record.ending is not None
            if record.ending.answer is not None:
                break
            await asyncio.sleep(pause_s(record.ending))


def pause_s(ending: Ending) -> float:
    """Return how long a client that heeds the server waits after an end without an answer."""
    told_s = ending.retry_after_s
    return UNTOLD_PAUSE_S if told_s is None else min(told_s, LONGEST_PAUSE_S)


async def answers(ledger: ClientLedger, count: int) -> None:
    """Wait until so many more requests were answered.

    Raises:
        TimeoutError: not one of them came for long.

    """

    def answered() -> int:
        return sum(r.ending is not None and r.ending.answer is not None for r in ledger.records)

    wanted = answered() + count
    while (seen := answered()) < wanted:
        async with asyncio.timeout(LONGEST_SILENCE_S):
            while answered() == seen:  # noqa: ASYNC110  (the load makes it come)
                await asyncio.sleep(POLL_S)


async def open_loop(
    caller: Caller, due_s: Sequence[float], cases: Sequence[int], client: str = "open"
) -> None:
    """Send each request when it is due, whether or not those before it have ended.

    Latency counts from when a request was due: where this loop itself comes late, the lateness is
    part of what is measured, and so is all the time in which a slow server held up its turn.
    """
    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for index, (due, case) in enumerate(zip(due_s, cases, strict=True)):
            intended_s = began_s + due
            await asyncio.sleep(max(intended_s - time.monotonic(), 0.0))
            group.create_task(caller.ask(client, case, lane=index, intended_s=intended_s))
