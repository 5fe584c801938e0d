"""Who may enter the engine now, who waits, and who is turned away.

Owns slots and queue. Slots in use plus requests waiting never exceed what was declared; a slot is
given back only when the engine has let go of the job, whatever its caller did. Never measures what
a request is about.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from router.rpc import router_pb2 as pb
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

SMOOTHING = 0.1
"""Weight of the latest service time in the running mean."""

UNMEASURED_SERVICE_S = 0.5
"""Assumed service time until one has been measured; used for pushback only."""


@dataclass(eq=False, slots=True)
class _Waiting:
    granted: asyncio.Future[Slot]
    deadline: Callable[[], float]


class Slot:
    """One slot, held until `release`."""

    def __init__(self, admission: Admission) -> None:
        self._admission: Admission | None = admission
        self._since = asyncio.get_running_loop().time()

    def release(self, *, answered: bool = False) -> None:
        """Give the slot back; a second time is no error. Answers tell how long a service takes."""
        admission, self._admission = self._admission, None
        if admission is not None:
            held_s = asyncio.get_running_loop().time() - self._since
            admission.take_back(held_s if answered else None)


class Admission:
    """First come, first served, within slots and queue.

    Attributes:
        slots, queue: what was declared.
        alive: slots in use.
        alive_peak, queued_peak: the most there ever were at once.

    """

    def __init__(self, slots: int, queue: int) -> None:
        self.slots = slots
        self.queue = queue
        self.alive = 0
        self.alive_peak = 0
        self.queued_peak = 0
        self._waiting: deque[_Waiting] = deque()
        self._service_s: float | None = None

    @property
    def queued(self) -> int:
        """Requests waiting for a slot."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.alive and not self._waiting

    async def enter(self, deadline: Callable[[], float]) -> Slot:
        """Wait for a slot, at most until `deadline()`, a time of the event loop's clock.

        Raises:
            NoAnswerError: QUEUE_FULL, DEADLINE_TOO_SHORT, or EXPIRED while waiting.

        """
        loop = asyncio.get_running_loop()
        if deadline() <= loop.time():
            raise _expired()
        if self.alive < self.slots and not self._waiting:
            return self._grant()
        if len(self._waiting) >= self.queue:
            raise NoAnswerError(
                pb.REFUSAL_REASON_QUEUE_FULL,
                f"all {self.slots} slots are in use and {len(self._waiting)} requests wait; "
                "try again later or on another server",
                retry_after_s=(self._service_s or UNMEASURED_SERVICE_S) / self.slots,
            )
        wait_s = self._expected_wait_s()
        if loop.time() + wait_s >= deadline():
            raise NoAnswerError(
                pb.REFUSAL_REASON_DEADLINE_TOO_SHORT,
                f"about {wait_s:.3f} s pass before its turn comes, more than its deadline leaves",
                retry_after_s=wait_s,
            )
        waiting = _Waiting(loop.create_future(), deadline)
        self._waiting.append(waiting)
        self.queued_peak = max(self.queued_peak, len(self._waiting))
        try:
            return await waiting.granted
        except asyncio.CancelledError:
            self._leave(waiting)
            raise

    def take_back(self, service_s: float | None) -> None:
        """Take a slot back (through `Slot.release`) and hand it on."""
        self.alive -= 1
        if service_s is not None:
            mean = service_s if self._service_s is None else self._service_s
            self._service_s = mean + SMOOTHING * (service_s - mean)
        self._serve_waiting()

    def _grant(self) -> Slot:
        self.alive += 1
        self.alive_peak = max(self.alive_peak, self.alive)
        return Slot(self)

    def _leave(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            return
        granted = waiting.granted
        if granted.done() and not granted.cancelled() and granted.exception() is None:
            granted.result().release()  # Granted in the same turn in which it was given up.

    def _serve_waiting(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting and self.alive < self.slots:
            waiting = self._waiting.popleft()
            if waiting.granted.done():
                continue
            if waiting.deadline() <= now:
                waiting.granted.set_exception(_expired())
                continue
            waiting.granted.set_result(self._grant())

    def _expected_wait_s(self) -> float:
        """Return the time until a request that joins the queue now gets its slot."""
        turns = len(self._waiting) // self.slots + 1
        # The one that leaves next has been running already: on average, half its time is over.
        return (turns - 0.5) * (self._service_s or 0.0)


def _expired() -> NoAnswerError:
    return NoAnswerError(pb.REFUSAL_REASON_EXPIRED, "its deadline passed before it could start")
