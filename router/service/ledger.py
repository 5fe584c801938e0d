"""The requests' ledger: what came in, how each ended, and what was answered.

Owns the counters and the memory of answers by client and request id. At rest, offered = answered +
refused + cancelled + failed, and what was reserved has been used or given back; the counters change
nowhere else. Never runs a request.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from router.service.histogram import Histogram
from router.service.recent import RecentAnswers
from router.service.refusals import Outcome, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from router.rpc import router_pb2 as pb


LATENCY_SAMPLES = 4096
TOOLS_COUNTED = 10_000
"""Most different tool names counted; the answers of further ones are in the totals alone."""

CLIENTS_COUNTED = 10_000
"""Most different clients counted; the requests of further ones are in the totals alone."""


@dataclass(slots=True)
class Counts:
    """The counters; see `Ledger` in the .proto."""

    offered: int = 0
    answered: int = 0
    refused: int = 0
    cancelled: int = 0
    failed: int = 0
    repeated: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return self.offered - self.answered - self.refused - self.cancelled - self.failed


@dataclass(slots=True)
class ClientCounts:
    """One client's part."""

    offered: int = 0
    answered: int = 0
    refused: int = 0


@dataclass(slots=True)
class Tokens:
    """KV memory set aside with slots: at rest reserved = used + unused."""

    reserved: int = 0
    used: int = 0
    unused: int = 0


RequestKey: TypeAlias = tuple[str, str]
"""A client's id and its request's."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An answer kept for its request id.

    Attributes:
        fingerprint: of the request's content.
        response: the answer.
        until: when it is forgotten, by the ledger's clock.

    """

    fingerprint: bytes
    response: pb.RouteResponse
    until: float


class Ledger:
    """Counts outcomes and remembers answers.

    Args:
        capacity: most answers remembered.
        kept_for_s: how long one is remembered.
        clock: monotonic seconds.

    Attributes:
        counts: how many requests came in and how they ended.
        tools: answers by tool, in the order of each tool's first; "" is "no tool fits".
        arguments: answers with arguments, by what came of them.
        recent: the tools of the latest answers.
        answer_s: from arrival to answer.
        queue_s: from arrival to the slot, of each request that got one.

    """

    def __init__(
        self, capacity: int, kept_for_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts = Counts()
        self.tools: Counter[str] = Counter()
        self.arguments: Counter[pb.ArgumentOutcome.ValueType] = Counter()
        self.clients: dict[str, ClientCounts] = {}
        self.tokens = Tokens()
        self.recent = RecentAnswers()
        self.answer_s = Histogram()
        self.queue_s = Histogram()
        self._capacity = capacity
        self._kept_for_s = kept_for_s
        self._clock = clock
        self._recorded: OrderedDict[RequestKey, Recorded] = OrderedDict()
        self._latencies_s: deque[float] = deque(maxlen=LATENCY_SAMPLES)

    def offer(self, client: str) -> None:
        """Count a distinct request that came in."""
        self.counts.offered += 1
        self._of(client).offered += 1

    def reserve(self, tokens: int) -> None:
        """Count tokens set aside with a slot."""
        self.tokens.reserved += tokens

    def settle(self, tokens: int, used: int) -> None:
        """Count reserved tokens as used or given back; what was read over them is used whole."""
        self.tokens.used += min(used, tokens)
        self.tokens.unused += tokens - min(used, tokens)

    def repeat(self) -> None:
        """Count a call that joins a running request or gets a recorded answer."""
        self.counts.repeated += 1

    def enter(self, waited_s: float) -> None:
        """Note how long a request waited that has its slot now."""
        self.queue_s.observe(waited_s)

    def answer(
        self, key: RequestKey, fingerprint: bytes, response: pb.RouteResponse, took_s: float
    ) -> None:
        """Count an answer, and remember it."""
        self.counts.answered += 1
        self._of(key[0]).answered += 1
        self._latencies_s.append(took_s)
        self.answer_s.observe(took_s)
        name = response.tool.name if response.HasField("tool") else ""
        if name in self.tools or len(self.tools) < TOOLS_COUNTED:
            self.tools[name] += 1
        self.recent.add(response.catalog_digest, name)
        if response.HasField("arguments"):
            self.arguments[response.arguments.outcome] += 1
        now = self._clock()
        self._forget(now)
        self._recorded[key] = Recorded(fingerprint, response, now + self._kept_for_s)
        self._recorded.move_to_end(key)
        while len(self._recorded) > self._capacity:
            self._recorded.popitem(last=False)

    def end_without(self, client: str, outcome: Outcome, reason: Reason | None) -> None:
        """Count a request that ends without an answer; `reason` is None where its caller left.

        Raises:
            ValueError: the outcome is no end without an answer.

        """
        match outcome:
            case Outcome.REFUSED:
                self.counts.refused += 1
                self._of(client).refused += 1
            case Outcome.CANCELLED:
                self.counts.cancelled += 1
            case Outcome.FAILED:
                self.counts.failed += 1
            case _:
                raise ValueError(f"{outcome} is no end without an answer")
        if reason is not None:
            self.counts.reasons[reason] += 1

    def recorded(self, key: RequestKey) -> Recorded | None:
        """Return the answer remembered for a client's id."""
        self._forget(self._clock())
        return self._recorded.get(key)

    def busiest(self, count: int) -> list[tuple[str, ClientCounts]]:
        """Return the clients that offered most, with their counts, ties by id."""
        return heapq.nsmallest(count, self.clients.items(), key=lambda c: (-c[1].offered, c[0]))

    def latency_s(self) -> tuple[int, float, float, float]:
        """Return the number of latest answers, and the p50, p90 and p99 of their seconds."""
        ordered = sorted(self._latencies_s)
        if not ordered:
            return 0, 0.0, 0.0, 0.0
        last = len(ordered) - 1
        p50_s, p90_s, p99_s = (ordered[round(share * last)] for share in (0.5, 0.9, 0.99))
        return len(ordered), p50_s, p90_s, p99_s

    def _of(self, client: str) -> ClientCounts:
        found = self.clients.get(client)
        if found is None:
            found = ClientCounts()
            if len(self.clients) < CLIENTS_COUNTED:
                self.clients[client] = found
        return found

    def _forget(self, now: float) -> None:
        while self._recorded:
            oldest = next(iter(self._recorded.values()))
            if oldest.until > now:
                return
            self._recorded.popitem(last=False)
