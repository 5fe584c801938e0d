"""What `pointsman top` shows: lines for a screen of any size.

Owns the layout; 80 by 24 cells hold everything, a smaller screen its beginning. Asks no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from router.cli.rates import COUNTERS, Rates
from router.cli.stats import duration, engine_line, latency_line, tool_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from router.client import ServerStats

BAR_CELLS: Final = 40
NUMBER_CELLS: Final = 10
NAME_CELLS: Final = 14
REASON_ROWS: Final = 6
_STATES: Final = {"serving": "green", "starting": "yellow", "silent": "yellow"}


@dataclass(frozen=True, slots=True)
class View:
    """What is known now.

    Attributes:
        address: of the server.
        interval_s: pause between two looks.
        found: the latest counters, or None before the first.
        rates: their growth, or None where it's not known.
        problem: why the latest look failed, or "".

    """

    address: str
    interval_s: float
    found: ServerStats | None = None
    rates: Rates | None = None
    problem: str = ""


def lines(view: View, width: int, height: int, *, plain: bool = False) -> list[Text]:
    """Lay a view out in at most `height` lines of at most `width` cells; `plain` is ASCII."""
    head = Text(f"pointsman top  {view.address}", style="bold")
    tail = f"every {view.interval_s:g} s   q quits"
    if view.found is not None:
        tail = f"up {duration(view.found.uptime_s)}   {tail}"
    head.append(" " * max(width - head.cell_len - cell_len(tail), 2) + tail, style="not bold")
    rows = [head]
    if view.problem:
        rows.append(Text(view.problem, style="bold red"))
    if view.found is not None:
        if not view.problem:
            rows.append(_engine(view.found))
        body = _body(view.found, view.rates, max(height - len(rows), 0), plain=plain)
        if view.problem:
            for row in body:
                row.stylize("dim")
        rows += body
    for row in rows:
        row.truncate(width, overflow="crop")
    return rows[:height]


def _body(found: ServerStats, rates: Rates | None, height: int, *, plain: bool) -> list[Text]:
    rows = [
        Text(),
        _bar("slots", found.alive, found.slots, found.alive_peak, plain=plain),
        _bar("queue", found.queued, found.queue, found.queued_peak, plain=plain),
        _row("latency", latency_line(found)),
        Text(),
        *_requests(found, rates),
        Text(),
    ]
    return rows + _tools(found, rates, height - len(rows))


def _engine(found: ServerStats) -> Text:
    row = _row("engine", "")
    row.append(engine_line(found), style=_STATES.get(found.engine_state, "bold red"))
    return row.append(f", model {found.model_digest[:12] or 'not loaded yet'}")


def _row(name: str, rest: str) -> Text:
    return Text.assemble((f"{name:9}", "bold"), rest)


def _bar(name: str, used: int, of: int, peak: int, *, plain: bool) -> Text:
    full, empty = ("#", ".") if plain else ("█", "░")
    filled = min(round(BAR_CELLS * used / of), BAR_CELLS) if of else 0
    if used and not filled:
        filled = 1
    style = "red" if of and used >= of else "green"
    row = _row(name, "")
    row.append(full * filled, style=style).append(empty * (BAR_CELLS - filled), style="dim")
    return row.append(f"  {used} of {of}, peak {peak}")


def _requests(found: ServerStats, rates: Rates | None) -> list[Text]:
    """Outcomes on the left, reasons on the right."""
    counters = None if rates is None else rates.counters
    left = [_figures(n, _rate(counters, n), getattr(found, n)) for n in COUNTERS]
    left.append(_figures("open", "", found.open))
    reasons = sorted(found.reasons.items(), key=lambda item: -item[1])
    by_reason = None if rates is None else rates.reasons
    right = [_figures(n, _rate(by_reason, n), count, 20) for n, count in reasons]
    if len(right) > REASON_ROWS:
        rest = len(right) - REASON_ROWS + 1
        right[REASON_ROWS - 1 :] = [f"and {rest} more reasons"]
    right += [""] * (REASON_ROWS - len(right))
    left.insert(0, _figures("requests", "per s", "total"))
    right.insert(0, _figures("no answer", "per s", "total", 20))
    rows = [Text(f"{one}    {other}".rstrip()) for one, other in zip(left, right, strict=True)]
    rows[0].stylize("bold")
    return rows


def _tools(found: ServerStats, rates: Rates | None, height: int) -> list[Text]:
    """List the tools used most, as many as fit."""
    title = Text(f"{'per s':>{NUMBER_CELLS}}{'total':>{NUMBER_CELLS}}  tools", style="bold")
    rows = [title]
    by_tool = None if rates is None else rates.tools
    for name, count in found.tools.items():
        rate = _rate(by_tool, name)
        rows.append(Text(f"{rate:>{NUMBER_CELLS}}{count:>{NUMBER_CELLS},}  {tool_name(name)}"))
    if len(rows) > height > 1:
        hidden = found.tools_counted - (height - 2)
        rows[height - 1 :] = [Text(f"{'':{2 * NUMBER_CELLS}}  and {hidden:,} more")]
    return rows


def _figures(name: str, rate: str, total: int | str, name_cells: int = NAME_CELLS) -> str:
    shown = f"{total:,}" if isinstance(total, int) else total
    return f"{set_cell_size(name, name_cells)}{rate:>{NUMBER_CELLS}}{shown:>{NUMBER_CELLS}}"


def _rate(rates: Mapping[str, float] | None, name: str) -> str:
    if rates is None or name not in rates:
        return "-"
    return f"{rates[name]:,.1f}"
