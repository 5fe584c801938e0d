"""How fast a server's counters grow, between two looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from router.client import ServerStats

COUNTERS: Final = ("answered", "refused", "cancelled", "failed", "repeated")


@dataclass(frozen=True, slots=True)
class Rates:
    """Growth per second.

    Attributes:
        counters: by the ledger's names.
        reasons: by reason.
        tools: by tool; only those of which both looks tell.

    """

    counters: Mapping[str, float]
    reasons: Mapping[str, float]
    tools: Mapping[str, float]


def rates(before: ServerStats, after: ServerStats) -> Rates | None:
    """Return the growth between two looks, or None where they are not of one server's life.

    The time between them is the server's own: a slow network changes nothing.
    """
    seconds = after.uptime_s - before.uptime_s
    counted_before = {name: getattr(before, name) for name in COUNTERS}
    counted_after = {name: getattr(after, name) for name in COUNTERS}
    fell = any(counted_after[name] < counted_before[name] for name in COUNTERS)
    if seconds <= 0 or fell:
        return None
    told_all = before.tools_counted <= len(before.tools)
    return Rates(
        counters=_growth(counted_before, counted_after, seconds),
        reasons=_growth(before.reasons, after.reasons, seconds),
        tools=_growth(
            before.tools,
            {n: c for n, c in after.tools.items() if told_all or n in before.tools},
            seconds,
        ),
    )


def _growth(
    before: Mapping[str, int], after: Mapping[str, int], seconds: float
) -> dict[str, float]:
    return {name: (count - before.get(name, 0)) / seconds for name, count in after.items()}
