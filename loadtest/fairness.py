"""Whether a greedy client got more than its share while others waited.

Owns the judgement, from the clients' records alone. Each answer tells how long its request was in
the server and how long it waited there, so the server's queue can be drawn again from outside.
Never reads a server.

Two things are judged. *Turns*: each time a request began to run while requests of other clients
waited, every client that waited (and the one whose turn it was) had an equal claim to that turn.
*Places*: no other client was turned away while the greedy one held more than an equal share of
slots and queue.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from loadtest.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtest.records import Record

TURN_TOLERANCE: Final = 1.25
TURN_SLACK: Final = 4.0
"""Turns over its claim that are no finding: clocks of two processes are compared."""
PLACE_TOLERANCE: Final = 0.02
"""Share of the other clients' requests that may be turned away at such a moment."""
EDGE_S: Final = 0.005
"""A place is held for certain only so long after its start and before its end."""
TURNED_AWAY: Final = frozenset({"QUEUE_FULL", "OVER_QUOTA"})


@dataclass(frozen=True, slots=True)
class Stay:
    """An answered request in the server: it came, began to run, and left."""

    client: str
    came_s: float
    began_s: float
    left_s: float


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns taken while others waited.

    Attributes:
        contested: how many there were.
        greedy: how many of them the greedy client had.
        claim: how many were its due: the sum of its equal shares in those it had a claim to.

    """

    contested: int
    greedy: int
    claim: float

    @property
    def fair(self) -> bool:
        """Whether it had no more than its due, as far as it can be told."""
        return self.greedy <= self.claim * TURN_TOLERANCE + TURN_SLACK


@dataclass(frozen=True, slots=True)
class Places:
    """Refusals of the other clients.

    Attributes:
        offered: their requests.
        turned_away: those refused for want of a place.
        by_greed: those refused while the greedy client held more than `share` places.
        share: an equal share of slots and queue, at least one.

    """

    offered: int
    turned_away: int
    by_greed: int
    share: int

    @property
    def fair(self) -> bool:
        """Whether greed turned practically nobody away."""
        return self.by_greed <= PLACE_TOLERANCE * self.offered


def stays(records: Sequence[Record]) -> list[Stay]:
    """Draw the server's queue again from the answers."""
    found = []
    for record in records:
        if record.ending is None or record.ending.answer is None:
            continue
        answer = record.ending.answer
        came_s = record.ended_s - answer.server_total_s
        found.append(Stay(record.client, came_s, came_s + answer.server_queue_s, record.ended_s))
    return sorted(found, key=lambda stay: stay.began_s)


def count_turns(stays: Sequence[Stay], greedy: str) -> Turns:
    """Count the turns taken while other clients waited, and the greedy client's claim to them."""
    contested = had = 0
    claim = 0.0
    for turn in stays:
        waiting = {s.client for s in stays if s.came_s < turn.began_s < s.began_s}
        rivals = waiting - {turn.client}
        if not rivals:
            continue
        contested += 1
        claimants = waiting | {turn.client}
        had += turn.client == greedy
        claim += 1 / len(claimants) if greedy in claimants else 0.0
    return Turns(contested, had, claim)


def count_places(records: Sequence[Record], greedy: str, *, capacity: int) -> Places:
    """Count who was turned away while the greedy client held more than its share of places."""
    share = max(1, math.ceil(capacity / len({record.client for record in records})))
    held = [s for s in stays(records) if s.client == greedy and s.left_s - s.came_s > 2 * EDGE_S]
    came = sorted(stay.came_s + EDGE_S for stay in held)
    left = sorted(stay.left_s - EDGE_S for stay in held)
    others = [record for record in records if record.client != greedy]
    turned_away = [r for r in others if r.ending is not None and r.ending.reason in TURNED_AWAY]
    by_greed = sum(
        bisect.bisect_right(came, r.sent_s) - bisect.bisect_left(left, r.ended_s) > share
        for r in turned_away
    )
    return Places(len(others), len(turned_away), by_greed, share)


def judge_fairness(records: Sequence[Record], greedy: str, *, capacity: int) -> list[Verdict]:
    """Judge turns and places; a run in which nobody had to wait proves nothing, and fails."""
    turns = count_turns(stays(records), greedy)
    places = count_places(records, greedy, capacity=capacity)
    return [
        Verdict(
            "the greedy client had no more turns than its share while others waited",
            passed=turns.fair and turns.contested > 0,
            evidence=f"{turns.greedy} of {turns.contested} contested turns; its due were "
            f"{turns.claim:.1f}",
        ),
        Verdict(
            "nobody was turned away because the greedy client held more than its share",
            passed=places.fair and places.offered > 0,
            evidence=f"of {places.offered} requests of others {places.turned_away} were turned "
            f"away, {places.by_greed} while it held more than {places.share} of {capacity} places",
        ),
    ]
