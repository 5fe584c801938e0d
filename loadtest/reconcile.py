"""The client's ledger beside the server's counters, to the last request.

Owns the comparison of sums. A request whose end the client can't know (its own clock was first, the
connection broke) may have been counted by the server once, in any way, or not at all: such requests
widen each row by their number, and are listed. Never reads a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadtest.records import Outcome, Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from router.client import ServerStats


@dataclass(frozen=True, slots=True)
class Counters:
    """The server's sums. `reasons` is None where its source does not tell them (its last words)."""

    offered: int = 0
    answered: int = 0
    refused: int = 0
    cancelled: int = 0
    failed: int = 0
    repeated: int = 0
    open: int = 0
    reasons: Mapping[str, int] | None = None

    @classmethod
    def from_stats(cls, stats: ServerStats) -> Counters:
        """Take them from what `Stats` told."""
        return cls(
            offered=stats.offered,
            answered=stats.answered,
            refused=stats.refused,
            cancelled=stats.cancelled,
            failed=stats.failed,
            repeated=stats.repeated,
            open=stats.open,
            reasons=dict(stats.reasons),
        )

    @classmethod
    def from_last_words(cls, event: Mapping[str, Any]) -> Counters:
        """Take them from the event `stopped` of the server's log."""
        names = ("offered", *(outcome.value for outcome in Outcome))
        offered, answered, refused, cancelled, failed = (int(event[name]) for name in names)
        ended = answered + refused + cancelled + failed
        return cls(offered, answered, refused, cancelled, failed, open=offered - ended)


@dataclass(frozen=True, slots=True)
class Row:
    """One sum: the server's, the client's certain one, and how far they may lie apart."""

    name: str
    server: int
    client: int
    may_differ_by: int

    @property
    def difference(self) -> int:
        """What the server has counted over what the client is certain of."""
        return self.server - self.client

    @property
    def holds(self) -> bool:
        """Whether the difference is zero, or explained by requests of unknown end."""
        return 0 <= self.difference <= self.may_differ_by


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The rows, and what else must hold at rest.

    Attributes:
        rows: offered, each outcome, each reason.
        uncertain: requests whose end the client can't know, by who told it.
        unreached: requests that can't have come to the server.
        faults: what does not hold beside the rows.

    """

    rows: tuple[Row, ...]
    uncertain: Mapping[str, int]
    unreached: int
    faults: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every row does, and nothing else is wrong."""
        return not self.faults and all(row.holds for row in self.rows)


def reconcile(tally: Tally, before: Counters, after: Counters) -> Reconciliation:
    """Compare a client's sums with what the server counted meanwhile. Both must be at rest."""
    unknown = sum(tally.uncertain.values())
    certain = tally.offered - tally.unresolved - tally.unreached - unknown
    offered = Row("offered", after.offered - before.offered, certain, unknown)
    outcomes = [
        Row(
            outcome.value,
            getattr(after, outcome.value) - getattr(before, outcome.value),
            tally.by_server.get(outcome, 0),
            unknown,
        )
        for outcome in Outcome
    ]
    faults = []
    for when, counters in (("before", before), ("after", after)):
        if counters.open:
            faults.append(f"the server was not at rest {when} the run: {counters.open} open")
    if after.repeated != before.repeated:
        faults.append(f"{after.repeated - before.repeated} repeats, though every id was new")
    if tally.unresolved:
        faults.append(f"{tally.unresolved} requests have no end")
    if sum(row.difference for row in outcomes) != offered.difference:
        faults.append("the differences by outcome do not add up to that of all offered")
    reasons: list[Row] = []
    if after.reasons is not None:
        earlier = before.reasons or {}
        reasons = [
            Row(
                f"reason {name}",
                after.reasons.get(name, 0) - earlier.get(name, 0),
                tally.reasons.get(name, 0),
                unknown,
            )
            for name in sorted({*after.reasons, *tally.reasons})
        ]
        if sum(row.difference for row in reasons) > unknown:
            faults.append("the differences by reason are more than the requests of unknown end")
    return Reconciliation(
        rows=(offered, *outcomes, *reasons),
        uncertain={told.value: count for told, count in tally.uncertain.items()},
        unreached=tally.unreached,
        faults=tuple(faults),
    )
