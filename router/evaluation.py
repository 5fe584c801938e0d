"""Measuring a way of choosing tools against labelled queries.

Owns the query files, the metrics with their 95% intervals and the report. What is measured is any
`Method`; the router is one, BM25 alone and the encoder alone are others. Never tunes anything.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

DEPTH: Final = 100
"""Ranks looked at; a right tool further down counts as not found (reciprocal rank 0)."""

MAX_CONFUSIONS: Final = 50
"""Confused pairs a report lists, most frequent first."""

_Z95: Final = 1.959963984540054
_BOOTSTRAP_ROUNDS: Final = 1_000
_BOOTSTRAP_SEED: Final = 20_250_101
_CALIBRATION_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Query:
    """One labelled request.

    Attributes:
        source: the file it stands in.
        line: its line number there, from 1.
        text: the request.
        tool: the right tool's name, or None where no tool fits.
        offered: names the benchmark itself offered for it, or ().

    """

    source: str
    line: int
    text: str
    tool: str | None
    offered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that was left out, and why."""

    source: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What a method answers to one request.

    Attributes:
        tools: names, best first, at most `DEPTH`.
        none_score: higher means "no tool fits" is likelier; comparable between requests.
        answer: what it would answer, None for "no tool fits".
        probability: calibrated probability of `answer`, or None where the method gives none.

    """

    tools: tuple[str, ...]
    none_score: float
    answer: str | None
    probability: float | None


class Method(Protocol):
    """A way of choosing."""

    @property
    def name(self) -> str:
        """Short name, as `--methods` takes it."""
        ...

    def choose(self, text: str, among: tuple[str, ...] = ()) -> Choice:
        """Choose for one request, among these names only where any are given."""
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with its 95% interval and the rows it rests on."""

    value: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often one tool was answered where another was right."""

    right: str
    answered: str
    count: int


@dataclass(frozen=True, slots=True)
class MethodReport:
    """All measures of one method. Shares lie in 0..1; a measure without rows is None.

    Attributes:
        method: its name.
        top1: right tool ranked first among tools (Wilson interval).
        top5: right tool among the first five.
        mrr: mean reciprocal rank to depth 100 (bootstrap interval).
        top1_offered: right tool first when choosing within `offered`.
        answered_right: right answer outright, "no tool fits" being an answer like any other:
            over all rows, those where no tool fits included. None for methods that never abstain.
        abstain_auroc: chance that a row where no tool fits gets the higher none score than a row
            where one does (bootstrap interval).
        calibration_error: expected calibration error of the answers' probabilities, ten bins.
        latency_p50_s, latency_p99_s: seconds a choice takes, one at a time.
        confusions: most frequent wrong first places.

    """

    method: str
    top1: Estimate | None
    top5: Estimate | None
    mrr: Estimate | None
    top1_offered: Estimate | None
    answered_right: Estimate | None
    abstain_auroc: Estimate | None
    calibration_error: float | None
    latency_p50_s: float
    latency_p99_s: float
    confusions: tuple[Confusion, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def read_queries(
    paths: Sequence[Path], known: Iterable[str]
) -> tuple[list[Query], list[RowProblem]]:
    """Read JSON Lines files of ``{"query", "tool"[, "offered"]}``.

    A row that is not such an object, is blank, or names a tool outside `known` is left out and
    reported. Names in `offered` outside `known` are dropped; the right tool must be left in it.
    """
    names = set(known)
    queries: list[Query] = []
    problems: list[RowProblem] = []
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                outcome = _read_row(line, str(path), number, names)
                if isinstance(outcome, Query):
                    queries.append(outcome)
                else:
                    problems.append(RowProblem(str(path), number, outcome))
    return queries, problems


def _read_row(line: str, source: str, number: int, names: set[str]) -> Query | str:
    """Return the query, or what is wrong with the row."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(row, dict):
        return "not a JSON object"
    text = row.get("query")
    if not isinstance(text, str) or not text.strip():
        return '"query" is missing, blank or no string'
    if "tool" not in row:
        return '"tool" is missing; write null where no tool fits'
    tool = row["tool"]
    if tool is not None and not isinstance(tool, str):
        return '"tool" is neither a string nor null'
    if tool is not None and tool not in names:
        return f"the catalog has no tool {tool!r}"
    offered = row.get("offered", [])
    if not isinstance(offered, list) or not all(isinstance(name, str) for name in offered):
        return '"offered" is no list of strings'
    kept = tuple(dict.fromkeys(name for name in offered if name in names))
    if offered and tool is not None and tool not in kept:
        return '"offered" does not hold the right tool'
    return Query(source, number, text, tool, kept)


def wilson(hits: int, rows: int) -> Estimate | None:
    """Return the share of hits with its Wilson 95% interval."""
    if rows == 0:
        return None
    share = hits / rows
    spread = _Z95 * _Z95 / rows
    centre = (share + spread / 2) / (1 + spread)
    half = _Z95 * math.sqrt(share * (1 - share) / rows + spread / (4 * rows)) / (1 + spread)
    # At no hits, or all, a bound is the share itself, which rounding may miss by one step.
    return Estimate(
        share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), rows
    )


def bootstrap_mean(values: Sequence[float]) -> Estimate | None:
    """Return the mean with a percentile bootstrap 95% interval (fixed seed)."""
    if not values:
        return None
    data = np.array(values, dtype=np.float64)
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    means = [float(rng.choice(data, len(data)).mean()) for _ in range(_BOOTSTRAP_ROUNDS)]
    low, high = np.quantile(means, [0.025, 0.975]).tolist()
    return Estimate(float(data.mean()), low, high, len(data))


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the chance that a positive scores above a negative, ties counting half."""
    scores = np.concatenate((positive, negative))
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mid_ranks = (last - (counts - 1) / 2)[inverse]
    wins = mid_ranks[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(wins / (len(positive) * len(negative)))


def bootstrap_auroc(positive: Sequence[float], negative: Sequence[float]) -> Estimate | None:
    """Return the AUROC with a percentile bootstrap 95% interval (fixed seed)."""
    if not positive or not negative:
        return None
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    ups, downs = np.array(positive), np.array(negative)
    areas = [
        auroc(rng.choice(ups, len(ups)).tolist(), rng.choice(downs, len(downs)).tolist())
        for _ in range(_BOOTSTRAP_ROUNDS // 4)
    ]
    low, high = np.quantile(areas, [0.025, 0.975]).tolist()
    return Estimate(auroc(positive, negative), low, high, len(ups) + len(downs))


def calibration_error(probabilities: Sequence[float], right: Sequence[bool]) -> float | None:
    """Return the expected calibration error over ten equal bins of probability."""
    if not probabilities:
        return None
    stated = np.array(probabilities, dtype=np.float64)
    hit = np.array(right, dtype=np.float64)
    bins = np.minimum((stated * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = [abs(float((stated - hit)[bins == b].sum())) for b in range(_CALIBRATION_BINS)]
    return sum(gaps) / len(stated)


def evaluate_method(
    method: Method,
    queries: Sequence[Query],
    advance: Callable[[], None] = lambda: None,
) -> MethodReport:
    """Ask one method every query, one at a time; `advance` is called after each."""
    ranks: list[int | None] = []
    offered_hits: list[bool] = []
    none_scores: tuple[list[float], list[float]] = ([], [])
    probabilities: list[float] = []
    answers_right: list[bool] = []
    seconds: list[float] = []
    confused: Counter[tuple[str, str]] = Counter()
    for query in queries:
        start = time.perf_counter()
        choice = method.choose(query.text)
        seconds.append(time.perf_counter() - start)
        none_scores[query.tool is None].append(choice.none_score)
        if choice.probability is not None:
            probabilities.append(choice.probability)
            answers_right.append(choice.answer == query.tool)
        if query.tool is not None:
            found = query.tool in choice.tools
            ranks.append(choice.tools.index(query.tool) + 1 if found else None)
            if choice.tools and choice.tools[0] != query.tool:
                confused[query.tool, choice.tools[0]] += 1
            if query.offered:
                within = method.choose(query.text, query.offered)
                offered_hits.append(within.tools[:1] == (query.tool,))
        advance()
    ordered = sorted(confused.items(), key=lambda item: (-item[1], item[0]))
    return MethodReport(
        method=method.name,
        top1=wilson(sum(rank == 1 for rank in ranks), len(ranks)),
        top5=wilson(sum(rank is not None and rank <= 5 for rank in ranks), len(ranks)),
        mrr=bootstrap_mean([0.0 if rank is None else 1 / rank for rank in ranks]),
        top1_offered=wilson(sum(offered_hits), len(offered_hits)),
        answered_right=wilson(sum(answers_right), len(answers_right)),
        abstain_auroc=bootstrap_auroc(none_scores[True], none_scores[False]),
        calibration_error=calibration_error(probabilities, answers_right),
        latency_p50_s=_quantile(seconds, 0.5),
        latency_p99_s=_quantile(seconds, 0.99),
        confusions=tuple(
            Confusion(right, answered, count)
            for (right, answered), count in ordered[:MAX_CONFUSIONS]
        ),
    )


def _quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else 0.0


def report_json(
    catalog: Mapping[str, Any],
    queries: Sequence[Query],
    problems: Sequence[RowProblem],
    reports: Sequence[MethodReport],
) -> dict[str, Any]:
    """Return one run as JSON values: what was asked, what was left out, and every measure."""
    return {
        "format": 1,
        "catalog": dict(catalog),
        "rows": len(queries),
        "rows_where_no_tool_fits": sum(query.tool is None for query in queries),
        "rows_left_out": [asdict(problem) for problem in problems],
        "methods": [report.to_json() for report in reports],
    }
