"""What a run comes to: counts and percentiles, by set and in all.

Owns the sums and their print. Never measures.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.maskbench.judge import Verdict
    from benchmarks.maskbench.rows import Row

MAX_MESSAGES: Final = 8
"""Failures of which the message is kept."""
PERCENTILES: Final = (50, 90, 99)
_WRONG: Final = ("valid_refused", "invalid_accepted")
Figures = dict[str, Any]
Outcome = tuple["Row", "Verdict"]


class Tally:
    """Collects the verdicts of one system on rows of one kind."""

    def __init__(self) -> None:
        """Begin empty."""
        self._outcomes: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._wrong: Counter[str] = Counter()
        self._tests: Counter[bool] = Counter()
        self._judged: Counter[bool] = Counter()
        self._ids: dict[str, list[str]] = {"errors": [], **{kind: [] for kind in _WRONG}}
        self._messages: list[str] = []
        self._compile_ns: list[int] = []
        self._refusal_ns: list[int] = []
        self._lookup_ns: list[int] = []

    def add(self, row: Row, verdict: Verdict) -> None:
        """Count one row."""
        outcome = verdict["outcome"]
        self._outcomes[outcome] += 1
        self._tests.update(test["valid"] for test in row.tests)
        if outcome == "failed":
            self._failures[verdict["code"]] += 1
            self._ids["errors"].append(row.id)
            self._messages.append(f"{row.id}: {verdict['code']}: {verdict['message'][:200]}")
        elif outcome == "refused":
            self._refusals[verdict["code"]] += 1
            self._refusal_ns.append(verdict["compile_ns"])
        else:
            self._judged.update(test["valid"] for test in row.tests)
            self._compile_ns.append(verdict["compile_ns"])
            self._lookup_ns += verdict["lookup_ns"]
            for kind in _WRONG:
                self._wrong[kind] += len(verdict[kind])
                self._wrong[f"machine_{kind}"] += len(verdict[f"machine_{kind}"])
                if verdict[kind]:
                    self._ids[kind].append(row.id)

    def figures(self) -> Figures:
        """Return what it comes to; times in the units that the keys name."""
        exact, checked = self._outcomes["exact"], self._outcomes["checked"]
        rows = self._outcomes.total()
        return {
            "rows": rows,
            "tests": self._tests.total(),
            "tests_of_compiled": {
                "valid": self._judged[True], "invalid": self._judged[False]
            },
            "compiled": exact + checked,
            "compiled_exact": exact,
            "compiled_checked_after": checked,
            "refused": self._outcomes["refused"],
            "refusals": dict(self._refusals.most_common()),
            "errors": self._outcomes["failed"],
            "error_kinds": dict(self._failures.most_common()),
            "error_messages": self._messages[:MAX_MESSAGES],
            **{kind: self._wrong[kind] for kind in _WRONG},
            "machine_alone": {kind: self._wrong[f"machine_{kind}"] for kind in _WRONG},
            "compile_ms": percentiles(self._compile_ns, 1e6),
            "refusal_ms": percentiles(self._refusal_ns, 1e6),
            "lookup_us": percentiles(self._lookup_ns, 1e3),
            "lookups": len(self._lookup_ns),
            "ids": self._ids,
        }  # fmt: skip


def percentiles(values: Sequence[int], unit: float) -> dict[str, float | None]:
    """Return p50, p90, p99 (nearest rank) and max, in units; None where there are no values."""
    if not values:
        return dict.fromkeys([*(f"p{each}" for each in PERCENTILES), "max"])
    ordered = np.array(values)
    found = {
        f"p{each}": np.percentile(ordered, each, method="inverted_cdf") for each in PERCENTILES
    } | {"max": ordered.max()}
    return {name: round(float(value) / unit, 3) for name, value in found.items()}


def summed(outcomes: Iterable[Outcome]) -> Figures:
    """Return `{"sets": {name: figures}, "all": figures}`."""
    sets: dict[str, Tally] = {}
    every = Tally()
    for row, verdict in outcomes:
        sets.setdefault(row.set, Tally()).add(row, verdict)
        every.add(row, verdict)
    return {"sets": {name: t.figures() for name, t in sets.items()}, "all": every.figures()}


def report(system: str, how: str, found: Figures, *, width: int = 16) -> None:
    """Print a table of one system."""
    print(f"\n{system}: {how}")
    head = (
        f"{'':{width}s} {'rows':>5s} {'exact':>6s} {'check':>6s} {'refus.':>6s} {'errors':>6s} "
        f"{'valid refused':>13s} {'invalid accepted':>16s}  compile ms (p50 p90 p99 max)   "
        "look-up us (p50 p90 p99 max)"
    )
    print(head)
    for name, one in [*found["sets"].items(), ("all", found["all"])]:
        print(_line(name, one, width))
    for title, key in (("refused", "refusals"), ("errors", "error_kinds")):
        counts = ", ".join(f"{code} {count}" for code, count in found["all"][key].items())
        if counts:
            print(f"  {title}: {counts}")
    for message in found["all"]["error_messages"]:
        print(f"    {message}")


def _line(name: str, one: Figures, width: int) -> str:
    alone, judged = one["machine_alone"], one["tests_of_compiled"]
    refused = f"{one['valid_refused']}/{judged['valid']}"
    accepted = f"{one['invalid_accepted']}/{judged['invalid']}"
    if one["compiled_checked_after"]:  # without the check that follows
        accepted += f" ({alone['invalid_accepted']})"
    return (
        f"{name:{width}s} {one['rows']:5d} {one['compiled_exact']:6d} "
        f"{one['compiled_checked_after']:6d} {one['refused']:6d} {one['errors']:6d} "
        f"{refused:>13s} {accepted:>16s}  {_times(one['compile_ms']):29s}  "
        f"{_times(one['lookup_us'])}"
    )


def _times(found: dict[str, float | None]) -> str:
    return " ".join("-" if value is None else f"{value:.4g}" for value in found.values())
