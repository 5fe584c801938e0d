"""Who may enter the engine now, who waits, and who is turned away.

Owns slots and queue, and their fair division among clients. Slots in use plus requests waiting
never exceed what was declared; a slot is given back only when the engine has let go of the job,
whatever its caller did. A free slot goes to the waiting client that has the fewest; a full queue
makes room for a client that has less by sending away the latest of the one that has most (max-min
fairness), so whoever asks for more than its share gets what the others leave. Never measures what a
request is about.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from router.rpc import router_pb2 as pb
from router.service.pushback import Pushback
from router.service.ranking import Ranking
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

SMOOTHING: Final = 0.1
"""Weight of the latest service time in the running mean."""

UNMEASURED_SERVICE_S: Final = 0.5
"""Assumed until anything has been measured; used for pushback only."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a client is due.

    Attributes:
        client: its id; "" is every client that has none.
        weight: its part of slots and queue, beside the others', while there are too few.
        max_open: most requests of it that may run or wait at once; 0 is no limit of its own.

    """

    client: str = ""
    weight: int = 1
    max_open: int = 0


ANYONE: Final = Share()


@dataclass(eq=False, slots=True)
class _Waiting:
    granted: asyncio.Future[Slot]
    deadline: Callable[[], float]
    order: int


@dataclass(eq=False, slots=True)
class _Client:
    share: Share
    alive: int = 0
    waiting: deque[_Waiting] = field(default_factory=deque)

    @property
    def open(self) -> int:
        return self.alive + len(self.waiting)


class Slot:
    """One slot, held until `release`."""

    def __init__(self, admission: Admission, client: str) -> None:
        self._admission: Admission | None = admission
        self._client = client
        self._since = asyncio.get_running_loop().time()

    def release(self, *, answered: bool = False) -> None:
        """Give the slot back; a second time is no error. Answers tell how long a service takes."""
        admission, self._admission = self._admission, None
        if admission is not None:
            held_s = asyncio.get_running_loop().time() - self._since
            admission.take_back(self._client, held_s if answered else None)


class Admission:
    """Slots and queue, divided fairly.

    Attributes:
        slots, queue: what was declared.
        alive: slots in use.
        queued: requests waiting for a slot.
        alive_peak, queued_peak: the most there ever were at once.
        granted, returned: slots given out and taken back since the start.

    """

    def __init__(self, slots: int, queue: int) -> None:
        self.slots = slots
        self.queue = queue
        self.alive = 0
        self.queued = 0
        self.alive_peak = 0
        self.queued_peak = 0
        self.granted = 0
        self.returned = 0
        self._clients: dict[str, _Client] = {}
        self._next: Ranking[str] = Ranking()  # who is served next: those that wait
        self._most: Ranking[str] = Ranking()  # who makes room: those that wait
        self._orders = itertools.count()
        self._pushback = Pushback()
        self._service_s: float | None = None
        self._expected_s: float | None = None

    def expect(self, alone_s: float) -> None:
        """Say what a request takes alone; with all slots in use each takes about as many times it.

        Pauses are told by it until answers have been measured.
        """
        self._expected_s = alone_s * self.slots

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.alive and not self.queued

    def open_of(self, client: str) -> int:
        """Return how many requests of a client run or wait."""
        found = self._clients.get(client)
        return 0 if found is None else found.open

    async def enter(self, deadline: Callable[[], float], share: Share = ANYONE) -> Slot:
        """Wait for a slot, at most until `deadline()`, a time of the event loop's clock.

        Raises:
            NoAnswerError: QUEUE_FULL, DEADLINE_TOO_SHORT, OVER_QUOTA (at once, or when a client
                with less needs the place), or EXPIRED while waiting.

        """
        now = asyncio.get_running_loop().time()
        if deadline() <= now:
            raise _expired()
        client = self._clients.get(share.client) or _Client(share)
        client.share = share
        if share.max_open and client.open >= share.max_open:
            raise NoAnswerError(
                pb.REFUSAL_REASON_OVER_QUOTA,
                f"{client.open} requests of this client run or wait, as many as it may have",
                retry_after_s=self._pause_s(share.client, client.alive or 1),
            )
        if self.alive < self.slots and not self.queued:
            self._clients[share.client] = client
            return self._grant(client)
        wait_s = self._expected_wait_s(client)
        if now + wait_s >= deadline():
            raise NoAnswerError(
                pb.REFUSAL_REASON_DEADLINE_TOO_SHORT,
                f"about {wait_s:.3f} s pass before its turn comes, more than its deadline leaves",
                retry_after_s=wait_s,
            )
        if self.queued >= self.queue and not self._make_room(client):
            raise NoAnswerError(
                pb.REFUSAL_REASON_QUEUE_FULL,
                f"all {self.slots} slots are in use and {self.queued} requests wait; "
                "try again later or on another server",
                retry_after_s=self._pause_s("", self.slots),
            )
        self._clients[share.client] = client
        loop = asyncio.get_running_loop()
        waiting = _Waiting(loop.create_future(), deadline, next(self._orders))
        client.waiting.append(waiting)
        self.queued += 1
        self.queued_peak = max(self.queued_peak, self.queued)
        self._rank(client)
        try:
            return await waiting.granted
        except asyncio.CancelledError:
            self._leave(client, waiting)
            raise

    def take_back(self, client_id: str, service_s: float | None) -> None:
        """Take a slot back (through `Slot.release`) and hand it on."""
        client = self._clients[client_id]
        client.alive -= 1
        self.alive -= 1
        self.returned += 1
        if service_s is not None:
            mean = service_s if self._service_s is None else self._service_s
            self._service_s = mean + SMOOTHING * (service_s - mean)
        self._rank(client)
        self._serve_waiting()

    def _grant(self, client: _Client) -> Slot:
        client.alive += 1
        self.alive += 1
        self.granted += 1
        self.alive_peak = max(self.alive_peak, self.alive)
        self._rank(client)
        return Slot(self, client.share.client)

    def _leave(self, client: _Client, waiting: _Waiting) -> None:
        if waiting in client.waiting:
            client.waiting.remove(waiting)
            self.queued -= 1
            self._rank(client)
            return
        granted = waiting.granted
        if granted.done() and not granted.cancelled() and granted.exception() is None:
            granted.result().release()  # Granted in the same turn in which it was given up.

    def _serve_waiting(self) -> None:
        now = asyncio.get_running_loop().time()
        while self.alive < self.slots and (first := self._next.first()) is not None:
            client = self._clients[first]
            waiting = client.waiting.popleft()
            self.queued -= 1
            if waiting.granted.done():
                self._rank(client)
            elif waiting.deadline() <= now:
                waiting.granted.set_exception(_expired())
                self._rank(client)
            else:
                waiting.granted.set_result(self._grant(client))

    def _make_room(self, client: _Client) -> bool:
        """Send away the latest waiting request of the client that has most; whether there is one.

        It must still have more than the newcomer's client once both have changed.
        """
        first = self._most.first()
        if first is None:
            return False
        largest = self._clients[first]
        mine = (client.open + 1) / client.share.weight
        if largest is client or largest.open / largest.share.weight <= mine:
            return False
        waiting = largest.waiting.pop()
        self.queued -= 1
        self._rank(largest)
        if not waiting.granted.done():
            waiting.granted.set_exception(
                NoAnswerError(
                    pb.REFUSAL_REASON_OVER_QUOTA,
                    f"{largest.open + 1} requests of this client ran or waited, more than its "
                    "share, and another client needed the place",
                    retry_after_s=self._pause_s(first, max(self.slots // len(self._clients), 1)),
                )
            )
        return True

    def _rank(self, client: _Client) -> None:
        """Put a client where its numbers place it now; forget one that has nothing open."""
        name, weight = client.share.client, client.share.weight
        if client.waiting:
            self._next.put(name, (client.alive / weight, client.waiting[0].order))
            self._most.put(name, (-client.open / weight, -client.waiting[-1].order))
            return
        self._next.drop(name)
        self._most.drop(name)
        if not client.alive:
            self._clients.pop(name, None)

    def _pause_s(self, whom: str, slots: int) -> float:
        """Return when one of so many slots comes free that nobody was told of before."""
        service_s = self._service_s or self._expected_s or UNMEASURED_SERVICE_S
        return self._pushback.next_s(asyncio.get_running_loop().time(), whom, service_s / slots)

    def _expected_wait_s(self, client: _Client) -> float:
        """Return about how long a request of this client waits that joins the queue now.

        Clients take turns: before its own turn, each other one has at most as many.
        """
        mine = len(client.waiting)
        others = len(self._next) - (1 if mine else 0)
        ahead = mine + min(self.queued - mine, (mine + 1) * others)
        turns = ahead // self.slots + 1
        # The one that leaves next has been running already: on average, half its time is over.
        return (turns - 0.5) * (self._service_s or 0.0)


def _expired() -> NoAnswerError:
    return NoAnswerError(pb.REFUSAL_REASON_EXPIRED, "its deadline passed before it could start")
