"""The client's ledger: each request that was sent, and the one end it came to.

Owns the records and the rule that none ends twice. Never sends and never judges.
"""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Outcome(enum.StrEnum):
    """How a request ended; there is no fifth way."""

    ANSWERED = "answered"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Told(enum.StrEnum):
    """Who said how a request ended, and so what can be known of the server's own count of it."""

    SERVER = "the server"
    UNREACHED = "nobody: no server was reached"
    DEADLINE = "the client's own clock"
    CONNECTION = "a lost connection"
    BARE = "a status without the server's details"


UNCERTAIN = frozenset({Told.DEADLINE, Told.CONNECTION, Told.BARE})
"""Ends after which the client can't know whether and how the server counted the request."""


class LedgerError(Exception):
    """A request ended twice, or one that was never begun ended: the load test itself is wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is kept of an answer.

    Attributes:
        bits: the whole message but for its id, its timings and the passes it shared, as bytes.
        catalog_digest: the catalog it names.
        server_total_s, server_queue_s: the server's own measure of it.

    """

    bits: bytes
    catalog_digest: str
    server_total_s: float
    server_queue_s: float


@dataclass(frozen=True, slots=True)
class Ending:
    """The one end of a request.

    Attributes:
        outcome: which of the four.
        told: who said so.
        reason: the server's reason, or the client's own name for what it saw; "" for an answer.
        retry_after_s: the pause the server asked for, or None.
        answer: what was answered, where it was.
        message: for people, where there is no answer.

    """

    outcome: Outcome
    told: Told
    reason: str = ""
    retry_after_s: float | None = None
    answer: Answer | None = None
    message: str = ""

    def __post_init__(self) -> None:
        """Refuse an end that says two things."""
        if (self.outcome is Outcome.ANSWERED) != (self.answer is not None):
            raise LedgerError(f"an end as {self.outcome} with answer {self.answer is not None}")


@dataclass(slots=True)
class Record:
    """One request. Times are seconds of the machine's monotonic clock.

    Attributes:
        request_id: its own, new for each request and each further attempt.
        client: id of who sent it.
        case: index of its text in the corpus.
        intended_s: when it was due; latency counts from here.
        sent_s: when it was sent.
        timeout_s: time it was given.
        ended_s: when its end was known; NaN while it is open.
        ending: its end; None while it is open.

    """

    request_id: str
    client: str
    case: int
    intended_s: float
    sent_s: float
    timeout_s: float
    ended_s: float = float("nan")
    ending: Ending | None = None

    @property
    def latency_s(self) -> float:
        """Seconds from when it was due to its end."""
        return self.ended_s - self.intended_s


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over a ledger.

    Attributes:
        offered: requests begun.
        unresolved: those that have no end.
        outcomes: every end by outcome.
        by_server: ends that the server told, by outcome.
        reasons: reasons of those, by name.
        unreached: requests that can't have reached a server.
        uncertain: ends after which the server's count can't be known, by who told.

    """

    offered: int
    unresolved: int
    outcomes: Mapping[Outcome, int]
    by_server: Mapping[Outcome, int]
    reasons: Mapping[str, int]
    unreached: int
    uncertain: Mapping[Told, int]


class ClientLedger:
    """Every request of a run."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = list(records)

    def begin(
        self,
        client: str,
        case: int,
        *,
        now_s: float,
        timeout_s: float,
        intended_s: float | None = None,
    ) -> Record:
        """Enter a request that is about to be sent."""
        due_s = now_s if intended_s is None else intended_s
        record = Record(uuid.uuid4().hex, client, case, due_s, now_s, timeout_s)
        self.records.append(record)
        return record

    @staticmethod
    def end(record: Record, ending: Ending, *, now_s: float) -> None:
        """Enter a request's end.

        Raises:
            LedgerError: it has ended already.

        """
        if record.ending is not None:
            raise LedgerError(
                f"request {record.request_id} ended as {record.ending.outcome} and again as "
                f"{ending.outcome}"
            )
        record.ended_s, record.ending = now_s, ending

    def tally(self) -> Tally:
        """Sum up."""
        ends = [record.ending for record in self.records if record.ending is not None]
        told = [end for end in ends if end.told is Told.SERVER]
        return Tally(
            offered=len(self.records),
            unresolved=len(self.records) - len(ends),
            outcomes=Counter(end.outcome for end in ends),
            by_server=Counter(end.outcome for end in told),
            reasons=Counter(end.reason for end in told if end.reason),
            unreached=sum(end.told is Told.UNREACHED for end in ends),
            uncertain=Counter(end.told for end in ends if end.told in UNCERTAIN),
        )
