"""What must hold in one scenario and no other.

Owns those judgements, each a pure function of what was recorded. `loadtest.fairness` has that of
`greedy`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from loadtest.records import Outcome, Told
from loadtest.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtest.reconcile import Counters
    from loadtest.records import Record

MIB: Final = 1 << 20
FEWEST_SAMPLES: Final = 8
CUT_OFF: Final = "BARE_CANCELLED"
DRAINING: Final = "DRAINING"
ENGINE_DOWN: Final = "ENGINE_DOWN"


def cut_off(records: Sequence[Record], signalled_s: float) -> list[Record]:
    """Return the calls that came between the end of a drain and the closing of the socket.

    The gRPC library itself ends them, as CANCELLED and without details (docs/contract.md, point 2).
    Only calls sent after the signal can be such.
    """
    return [
        r
        for r in records
        if r.sent_s >= signalled_s and r.ending is not None and r.ending.reason == CUT_OFF
    ]


def judge_cut_off(records: Sequence[Record], signalled_s: float, *, most: int) -> Verdict:
    """Judge that no more calls were cut off at the exit than there are clients."""
    found = len(cut_off(records, signalled_s))
    return Verdict(
        "at most one late call of each client is cut off at the exit",
        passed=found <= most,
        evidence=f"{found} calls, {most} clients",
    )


def judge_drain(
    records: Sequence[Record],
    last_words: Counters,
    *,
    signalled_s: float,
    exit_code: int,
    open_at_signal: int,
) -> list[Verdict]:
    """Every admitted request was answered, late ones were turned away, and the exit was in order.

    What was admitted is known from the server's last words alone: it answered as many requests as
    its clients got answers, and ended none in another way than by an answer or a refusal.
    """
    answered = sum(r.ending is not None and r.ending.outcome is Outcome.ANSWERED for r in records)
    excused = {record.request_id for record in cut_off(records, signalled_s)}
    late = [
        r
        for r in records
        if r.ended_s >= signalled_s and r.ending is not None and r.request_id not in excused
    ]
    after = Counter(r.ending.reason or "answered" for r in late if r.ending is not None)
    allowed = {"answered", DRAINING, "QUEUE_FULL", "NO_SERVER", "CONNECTION_LOST"}
    sent_after = [r for r in records if r.sent_s >= signalled_s and r.ending is not None]
    turned_away = Counter(r.ending.reason for r in sent_after if r.ending is not None)
    return [
        Verdict(
            "exit code 0",
            passed=exit_code == 0,
            evidence=f"the server ended with {exit_code}",
        ),
        Verdict(
            "the signal came in the middle of load",
            passed=open_at_signal > 0,
            evidence=f"{open_at_signal} requests were open",
        ),
        Verdict(
            "every admitted request was answered, and its answer arrived",
            passed=last_words.answered == answered
            and not last_words.failed
            and not last_words.cancelled
            and not last_words.open,
            evidence=f"the server answered {last_words.answered}, its clients have {answered}; "
            f"{last_words.failed} failed, {last_words.cancelled} cancelled, "
            f"{last_words.open} open at the exit",
        ),
        Verdict(
            "late requests are turned away as DRAINING, or find no server",
            passed=after.keys() <= allowed and turned_away[DRAINING] + turned_away["NO_SERVER"] > 0,
            evidence="ended after the signal: "
            + (", ".join(f"{count} x {reason}" for reason, count in after.items()) or "none"),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Activation:
    """A catalog going live: its digest, when that was asked for and when it was confirmed."""

    digest: str
    asked_s: float
    confirmed_s: float


def judge_swap(records: Sequence[Record], activations: Sequence[Activation]) -> list[Verdict]:
    """Each answer names a catalog that was active at some time between its send and its end.

    Args:
        records: the requests.
        activations: in order; the first is the catalog that was active from the start.

    """
    ends = [*(a.confirmed_s for a in activations[1:]), math.inf]
    wrong, seen = [], Counter[str]()
    for record in records:
        if record.ending is None or record.ending.answer is None:
            continue
        digest = record.ending.answer.catalog_digest
        seen[digest] += 1
        if not any(
            a.digest == digest and a.asked_s <= record.ended_s and record.sent_s <= end_s
            for a, end_s in zip(activations, ends, strict=True)
        ):
            wrong.append(f"request {record.request_id} names {digest[:12]}")
    swapped = {activation.digest for activation in activations}
    counts = ", ".join(f"{count} of {digest[:12]}" for digest, count in seen.items())
    return [
        Verdict(
            "each answer names a catalog that was active while it was under way",
            passed=not wrong and bool(seen),
            evidence=f"{len(wrong)} do not; answers: {counts}"
            + "".join(f"; {w}" for w in wrong[:3]),
        ),
        Verdict(
            "both catalogs answered under load",
            passed=len(swapped) > 1 and swapped <= seen.keys(),
            evidence=f"{len(activations) - 1} activations of {len(swapped)} catalogs",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Kill:
    """The engine's end at our hands.

    Attributes:
        at_s: when.
        held: requests it held at least.
        slots: requests it held at most.
        serving_again_s: when the server served again; NaN where it never did.

    """

    at_s: float
    held: int
    slots: int
    serving_again_s: float


def judge_chaos(
    records: Sequence[Record], kills: Sequence[Kill], *, planned: int, starts: int
) -> list[Verdict]:
    """Judge that just what the engine held failed, as ENGINE_DOWN, and that it always came back.

    Args:
        records: the requests.
        kills: what was done.
        planned: how many kills there were to be.
        starts: how often the server says that it started the engine meanwhile.

    """
    failed = [r.ending for r in records if r.ending and r.ending.outcome is Outcome.FAILED]
    down = sum(e.told is Told.SERVER and e.reason == ENGINE_DOWN for e in failed)
    silent = sum(e.reason == ENGINE_DOWN and e.retry_after_s is None for e in failed)
    least, most = sum(k.held for k in kills), sum(k.slots for k in kills)
    again = [k for k in kills if not math.isnan(k.serving_again_s)]
    longest = max((k.serving_again_s - k.at_s for k in again), default=math.nan)
    return [
        Verdict(
            "every kill happened, and hit requests",
            passed=len(kills) == planned and least > 0,
            evidence=f"{len(kills)} of {planned} kills; the engine held at least {least} requests",
        ),
        Verdict(
            "what the engine held failed as ENGINE_DOWN, and nothing else failed",
            passed=least <= down <= most and down == len(failed),
            evidence=f"{len(failed)} failed, {down} of them as ENGINE_DOWN; due were {least} to "
            f"{most}",
        ),
        Verdict(
            "each of them was told when to come back",
            passed=not silent,
            evidence=f"{silent} without a pause",
        ),
        Verdict(
            "the engine was started once for each kill and serves again",
            passed=bool(kills) and len(again) == len(kills) and starts == len(kills),
            evidence=f"{starts} starts, {len(again)} times serving again; longest {longest:.2f} s",
        ),
    ]


def judge_agents(
    records: Sequence[Record], *, agents: int, requests_each: int, attempts: int
) -> Verdict:
    """Every agent asked all that it had to, and gave up none before its last attempt."""
    by_agent: dict[str, list[Record]] = {}
    for record in records:
        by_agent.setdefault(record.client, []).append(record)
    short = 0
    for own in by_agent.values():
        answered = sum(r.ending is not None and r.ending.answer is not None for r in own)
        given_up = requests_each - answered
        short += given_up < 0 or len(own) - answered < given_up * attempts
    answered_all = sum(r.ending is not None and r.ending.answer is not None for r in records)
    return Verdict(
        "every agent asked all that it had to",
        passed=len(by_agent) == agents and not short,
        evidence=f"{len(by_agent)} of {agents} agents; {short} fell short; "
        f"{answered_all} of {agents * requests_each} questions answered in {len(records)} attempts",
    )


def slope_a_minute(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope between any two points, a minute; NaN for fewer than two.

    The median over pairs (Theil and Sen) is moved by no single sample: a collection of garbage in
    the middle does not look like a leak, and one at the end does not hide one.
    """
    slopes = [
        (late - early) / (at - since)
        for index, (since, early) in enumerate(points)
        for at, late in points[index + 1 :]
        if at > since
    ]
    return 60 * statistics.median(slopes) if slopes else math.nan


def judge_memory(
    name: str, points: Sequence[tuple[float, int | None]], *, bound_mib_a_minute: float
) -> Verdict:
    """Judge that the later half of a process's memory rises no faster than the bound."""
    known = [(at, size / MIB) for at, size in points if size is not None]
    later = known[len(known) // 2 :]
    slope = slope_a_minute(_thinned(later))
    enough = len(later) >= FEWEST_SAMPLES
    return Verdict(
        f"memory of the {name} is flat",
        passed=enough and slope <= bound_mib_a_minute,
        evidence=f"{slope:+.2f} MiB a minute over the later {len(later)} samples, at most "
        f"{bound_mib_a_minute:g} allowed"
        + ("" if enough else f"; too few, under {FEWEST_SAMPLES}"),
    )


def _thinned(
    points: Sequence[tuple[float, float]], most: int = 400
) -> Sequence[tuple[float, float]]:
    """Keep at most so many points, evenly: pairs grow with the square."""
    step = -(-len(points) // most) or 1
    return points[::step]
