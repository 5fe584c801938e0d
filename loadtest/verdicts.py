"""What must hold in every scenario.

Owns the judgements that all scenarios share, each a pure function of what was recorded. A run
passes when every verdict does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from loadtest.records import Outcome, Told

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from loadtest.identity import Comparison
    from loadtest.reconcile import Reconciliation
    from loadtest.records import Record
    from router.client import ServerStats

DEADLINE_SLACK_S: Final = 1.0
"""How late an end may be seen: the client shares its cores with the server it loads."""

SATURATED: Final = frozenset({"QUEUE_FULL", "DEADLINE_TOO_SHORT", "OVER_QUOTA"})
"""Reasons of a server that is whole and has more to do than it takes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement: what must hold, whether it does, and on what evidence."""

    name: str
    passed: bool
    evidence: str


def judge_resolved(records: Sequence[Record]) -> Verdict:
    """Every request has exactly one end."""
    unresolved = [record for record in records if record.ending is None]
    ids = Counter(record.request_id for record in records)
    twice = sum(count > 1 for count in ids.values())
    return Verdict(
        "every request has one end",
        passed=bool(records) and not unresolved and not twice,
        evidence=f"{len(records)} offered, {len(unresolved)} unresolved, {twice} ids used twice",
    )


def judge_reconciled(reconciliation: Reconciliation) -> Verdict:
    """Judge that the server's counters equal the client's."""
    wrong = [
        f"{row.name}: server {row.server}, client {row.client}"
        for row in reconciliation.rows
        if not row.holds
    ]
    unknown = sum(reconciliation.uncertain.values())
    return Verdict(
        "the ledgers agree",
        passed=reconciliation.holds,
        evidence="; ".join([*reconciliation.faults, *wrong])
        or f"{len(reconciliation.rows)} sums, no difference beyond {unknown} of unknown end",
    )


def judge_identical(comparison: Comparison) -> Verdict:
    """Every answer has the bits that the same request gets alone, and there are answers."""
    return Verdict(
        "answers under load have the bits of answers alone",
        passed=comparison.compared > 0 and not comparison.different and not comparison.missing,
        evidence=f"{comparison.compared} compared, {comparison.different} different, "
        f"{comparison.missing} without a reference"
        + "".join(f"; {e}" for e in comparison.examples),
    )


def judge_in_time(records: Sequence[Record], slack_s: float = DEADLINE_SLACK_S) -> Verdict:
    """Every end came by its deadline."""
    ended = [record for record in records if record.ending is not None]
    late = [r for r in ended if not r.ended_s - r.sent_s <= r.timeout_s + slack_s]
    longest = max((r.ended_s - r.sent_s for r in ended), default=0.0)
    return Verdict(
        "every end came by its deadline",
        passed=not late,
        evidence=f"{len(late)} of {len(ended)} were over {slack_s:g} s late; "
        f"longest {longest:.3f} s",
    )


def judge_typed(records: Sequence[Record]) -> Verdict:
    """No end was a status without the server's details."""
    bare = [r for r in records if r.ending is not None and r.ending.told is Told.BARE]
    seen = Counter(f"{r.ending.reason}: {r.ending.message}" for r in bare if r.ending is not None)
    return Verdict(
        "every refusal is typed",
        passed=not bare,
        evidence="; ".join(f"{count} x {text}" for text, count in seen.items()) or "none was bare",
    )


def judge_pushback(records: Sequence[Record]) -> Verdict:
    """Every refusal by a full queue says when to come back."""
    full = [r.ending for r in records if r.ending is not None and r.ending.reason == "QUEUE_FULL"]
    silent = sum(end.retry_after_s is None for end in full)
    return Verdict(
        "a full queue says when to come back",
        passed=not silent,
        evidence=f"{len(full)} refusals by a full queue, {silent} without a pause",
    )


def judge_bounded(stats: ServerStats) -> Verdict:
    """Slots and queue were never exceeded."""
    return Verdict(
        "slots and queue were never exceeded",
        passed=stats.alive_peak <= stats.slots and stats.queued_peak <= stats.queue,
        evidence=f"at most {stats.alive_peak} of {stats.slots} slots and {stats.queued_peak} of "
        f"{stats.queue} places were in use",
    )


def judge_ends(
    records: Sequence[Record],
    *,
    refusals: Collection[str],
    failures: Collection[str] = (),
    cancelled: bool = False,
) -> Verdict:
    """No request ended in a way that the scenario gives no cause for, and some were answered."""
    wrong: Counter[str] = Counter()
    answered = 0
    for record in records:
        end = record.ending
        if end is None:
            continue
        allowed = {
            Outcome.ANSWERED: True,
            Outcome.REFUSED: end.reason in refusals,
            Outcome.FAILED: end.reason in failures,
            Outcome.CANCELLED: cancelled,
        }[end.outcome]
        answered += end.outcome is Outcome.ANSWERED
        if not allowed:
            wrong[f"{end.outcome} {end.reason}".strip()] += 1
    said = ", ".join(f"{count} x {what}" for what, count in wrong.items()) or "none"
    return Verdict(
        "nothing ended without a cause",
        passed=answered > 0 and not wrong,
        evidence=f"{answered} answered; ended without a cause: {said}",
    )
