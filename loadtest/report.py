"""The report: one HTML file that needs nothing else, and the same as JSON.

Owns what is shown and in which order. Judges nothing: verdicts come with the findings.
"""

from __future__ import annotations

import html
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from loadtest import plots
from loadtest.percentiles import STATED, by_outcome
from loadtest.records import Outcome, Told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from loadtest.percentiles import Percentiles
    from loadtest.stage import Findings

HEADROOM: Final = 1.15
"""Room above the highest value, where the legend stands."""
MOST_BARS: Final = 120
MIB: Final = 1 << 20
STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#222}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{border-bottom:1px solid #ddd;padding:.25rem .7rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.pass{color:#2b6b2b;font-weight:600}.fail{color:#b3261e;font-weight:600}
svg{width:100%;background:#fafafa;border:1px solid #eee}svg text{font-size:11px;fill:#444}
svg .grid{stroke:#e2e2e2}
svg line.mark{stroke:#b3261e;stroke-dasharray:3 3}svg text.mark{fill:#b3261e}
"""


def as_document(findings: Findings) -> dict[str, Any]:
    """Return the findings as JSON's types, without the single records."""
    percentiles = by_outcome(findings.records)
    return {
        "scenario": findings.scenario,
        "passed": findings.passed,
        "sizes": dict(findings.sizes),
        "verdicts": [
            {"name": v.name, "passed": v.passed, "evidence": v.evidence} for v in findings.verdicts
        ],
        "outcomes": {o.value: percentiles[o].count for o in Outcome},
        "reasons": dict(_reasons(findings)),
        "latency_s": {
            outcome.value: {f"p{p:g}": seconds for p, seconds in found.stated_s.items()}
            for outcome, found in percentiles.items()
            if found.count
        },
        "reconciliation": {
            "rows": [
                {
                    "name": row.name,
                    "server": row.server,
                    "client": row.client,
                    "difference": row.difference,
                    "may_differ_by": row.may_differ_by,
                    "holds": row.holds,
                }
                for row in findings.reconciliation.rows
            ],
            "uncertain": dict(findings.reconciliation.uncertain),
            "unreached": findings.reconciliation.unreached,
            "faults": list(findings.reconciliation.faults),
        },
        "comparison": {
            "compared": findings.comparison.compared,
            "different": findings.comparison.different,
            "missing": findings.comparison.missing,
            "examples": list(findings.comparison.examples),
        },
        "notes": list(findings.notes),
    }


def write_report(findings: Findings, folder: Path, setting: dict[str, str]) -> Path:
    """Write `<scenario>.html` and `<scenario>.json`; return the former.

    Args:
        findings: of the run.
        folder: made where it is not there.
        setting: what the run was made with, for both.

    """
    folder.mkdir(parents=True, exist_ok=True)
    document = {**as_document(findings), "setting": setting}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (folder / f"{findings.scenario}.json").write_text(text + "\n", encoding="utf-8")
    page = folder / f"{findings.scenario}.html"
    page.write_text(_page(findings, setting), encoding="utf-8")
    return page


def _page(findings: Findings, setting: dict[str, str]) -> str:
    percentiles = by_outcome(findings.records)
    word = _verdict(passed=findings.passed)
    facts = {**setting, **{name: str(value) for name, value in findings.sizes.items()}}
    sections = [
        f"<h1>{html.escape(findings.scenario)}: {word}</h1>",
        _table(
            ("", "what must hold", "evidence"),
            [
                (_verdict(passed=v.passed), html.escape(v.name), html.escape(v.evidence))
                for v in findings.verdicts
            ],
        ),
        "".join(f"<p>{html.escape(note)}</p>" for note in findings.notes),
        "<h2>Latency, from when each request was due</h2>",
        _percentile_table(percentiles),
        _percentile_plot(percentiles),
        "<h2>Ends over time</h2>",
        _timeline(findings),
        "<h2>Ends without an answer, by reason</h2>",
        plots.counted_bars(_reasons(findings)),
        "<h2>The ledgers</h2>",
        _ledger(findings),
        *_load(findings),
        *_memory(findings),
        "<h2>Setting</h2>",
        _table(("", ""), [(html.escape(k), html.escape(v)) for k, v in facts.items()]),
    ]
    title = html.escape(f"Pointsman load test: {findings.scenario}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def _verdict(*, passed: bool) -> str:
    return '<span class="pass">PASS</span>' if passed else '<span class="fail">FAIL</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int = 99) -> str:
    """Write a table of cells that are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        marks = (' class="n"' if index >= numbers_from else "" for index in range(len(row)))
        return "".join(f"<{tag}{m}>{cell}</{tag}>" for m, cell in zip(marks, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def _reasons(findings: Findings) -> Counter[str]:
    ends = (r.ending for r in findings.records if r.ending is not None)
    found = Counter(f"{e.outcome} {e.reason}".strip() for e in ends if e.answer is None)
    return Counter(dict(found.most_common()))


def _percentile_table(percentiles: dict[Outcome, Percentiles]) -> str:
    rows = [
        (outcome.value, str(p.count), *(f"{1000 * p.stated_s[q]:,.1f}" for q in STATED))
        for outcome, p in percentiles.items()
        if p.count
    ]
    return _table(("milliseconds", "count", *(f"p{q:g}" for q in STATED)), rows, numbers_from=1)


def _percentile_plot(percentiles: dict[Outcome, Percentiles]) -> str:
    drawn = []
    for outcome, found in percentiles.items():
        inside = [(p, s) for p, s in found.curve if p < 100]
        if not inside:
            continue
        # The last point stands at the highest percentile that so many values can tell.
        last = 100 * (1 - 1 / (found.count + 1))
        curve = [*((p, s) for p, s in inside if p < last), (last, found.stated_s[100.0])]
        line = [(plots.nines(p), 1000 * s) for p, s in curve]
        axis = plots.linear_axis("milliseconds", 0.0, HEADROOM * line[-1][1])
        drawn.append(plots.line_plot(plots.percentile_axis(last), axis, {outcome.value: line}))
    return "".join(drawn)


def _began_s(findings: Findings) -> float:
    return min((r.intended_s for r in findings.records), default=0.0)


def _marks(findings: Findings) -> list[tuple[float, str]]:
    began_s = _began_s(findings)
    return [(at - began_s, words) for at, words in findings.marks]


def _timeline(findings: Findings) -> str:
    began_s = _began_s(findings)
    ended = [r for r in findings.records if r.ending is not None]
    length_s = max((r.ended_s - began_s for r in ended), default=1.0)
    width_s = max(length_s / MOST_BARS, 0.1)
    columns = math.floor(length_s / width_s) + 1
    bars = {outcome.value: [0.0] * columns for outcome in Outcome}
    for record in ended:
        assert record.ending is not None
        place = math.floor((record.ended_s - began_s) / width_s)
        bars[record.ending.outcome.value][place] += 1 / width_s
    axis = plots.linear_axis("seconds", 0.0, columns * width_s)
    return plots.stacked_bars(axis, bars, width_s, "ends a second", _marks(findings))


def _ledger(findings: Findings) -> str:
    found = findings.reconciliation
    rows = [
        (
            html.escape(row.name),
            str(row.server),
            str(row.client),
            str(row.difference),
            str(row.may_differ_by),
            _verdict(passed=row.holds),
        )
        for row in found.rows
    ]
    table = _table(("", "server", "client", "difference", "may be", ""), rows, numbers_from=1)
    unknown = [f"{count} told by {told}" for told, count in found.uncertain.items()]
    lines = [
        f"Ends the client can't know the server's count of: {', '.join(unknown) or 'none'}.",
        f"Requests that reached no server: {found.unreached} ({Told.UNREACHED.value}).",
        *found.faults,
    ]
    return table + "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _load(findings: Findings) -> list[str]:
    began_s = _began_s(findings)
    lines: dict[str, list[plots.Point]] = {"slots in use": [], "waiting": []}
    for sample in findings.samples:
        if sample.alive is not None and sample.queued is not None:
            lines["slots in use"].append((sample.at_s - began_s, float(sample.alive)))
            lines["waiting"].append((sample.at_s - began_s, float(sample.queued)))
    return _over_time("Slots and queue", "requests", lines, _marks(findings))


def _memory(findings: Findings) -> list[str]:
    began_s = _began_s(findings)
    lines: dict[str, list[plots.Point]] = {"server": [], "engine": []}
    for sample in findings.samples:
        for name, size in (("server", sample.server_bytes), ("engine", sample.engine_bytes)):
            if size is not None:
                lines[name].append((sample.at_s - began_s, size / MIB))
    return _over_time("Resident memory", "MiB", lines, _marks(findings))


def _over_time(
    title: str,
    label: str,
    lines: dict[str, list[plots.Point]],
    marks: Sequence[tuple[float, str]],
) -> list[str]:
    points = [point for line in lines.values() for point in line]
    if not points:
        return []
    x = plots.linear_axis("seconds", min(p[0] for p in points), max(p[0] for p in points))
    y = plots.linear_axis(label, 0.0, HEADROOM * max(p[1] for p in points))
    return [f"<h2>{html.escape(title)}</h2>", plots.line_plot(x, y, lines, marks)]
