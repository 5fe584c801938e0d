"""`pointsman stats`: show a server's counters."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from catalog_compiler.display import one_line
from router.cli.connect import address_options, connect, tell_error
from router.cli.tool_use import TOOLS_COUNTED, CatalogUse, use_of_catalogs
from router.client import RequestError, ServerStats

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_TOOLS = 10
NAME_CHARS = 80
PERCENTILES = ("p50", "p90", "p99")


@click.command("stats")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--tools",
    "shown",
    type=click.IntRange(0, 1000),
    default=SHOWN_TOOLS,
    show_default=True,
    help="Tools listed, of those called and of each catalog's that never were.",
)
@click.option(
    "--last",
    type=click.IntRange(1, 100_000),
    help="Which tools were not called among the last N answers, in place of since the start.",
)
@address_options(timeout_s=5.0)
def stats(
    as_json: bool,  # noqa: FBT001  (click hands flags over so)
    shown: int,
    last: int | None,
    address: str,
    timeout_s: float,
    **reached: Any,
) -> None:
    """Show a server's counters, and which tools of its catalogs were never called.

    \b
    Exit codes: 0 shown; 2 wrong usage; 4 no server answers; 6 out of time.
    """  # noqa: D301  (click's own mark)
    try:
        with connect(address, **reached) as client:
            found = client.stats(
                max_tools=TOOLS_COUNTED, last_answers=last or 0, timeout_s=timeout_s
            )
            uses = use_of_catalogs(client, found, timeout_s)
    except RequestError as error:
        tell_error(error, address)
    if as_json:
        document = {**dataclasses.asdict(found), "catalogs": list(map(dataclasses.asdict, uses))}
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    show(Console(), found, uses, shown, last)


def show(
    console: Console,
    found: ServerStats,
    uses: Sequence[CatalogUse],
    shown: int = SHOWN_TOOLS,
    last: int | None = None,
) -> None:
    """Print the counters."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("engine", engine_line(found))
    table.add_row("uptime", duration(found.uptime_s))
    table.add_row("model", found.model_digest or "not loaded yet")
    table.add_row(
        "requests",
        f"{found.offered} offered = {found.answered} answered + {found.refused} refused + "
        f"{found.cancelled} cancelled + {found.failed} failed + {found.open} open; "
        f"{found.repeated} repeats",
    )
    if found.reasons:
        reasons = ", ".join(f"{name} {count}" for name, count in found.reasons.items())
        table.add_row("no answer", Text(reasons))
    if found.arguments:
        outcomes = ", ".join(f"{name} {count}" for name, count in found.arguments.items())
        table.add_row("arguments", Text(outcomes))
    table.add_row("slots", f"{found.alive} of {found.slots} in use (peak {found.alive_peak})")
    table.add_row("queue", f"{found.queued} of {found.queue} waiting (peak {found.queued_peak})")
    table.add_row("latency", latency_line(found))
    called = list(found.tools.items())
    for index, (name, count) in enumerate(called[:shown]):
        table.add_row("" if index else "tools", Text(f"{count}x {tool_name(name)}"))
    if found.tools_counted > shown:
        table.add_row("", f"and {found.tools_counted - shown:,} more")
    heading = "never called"
    if found.recent is not None:
        heading = "not called lately"
        table.add_row("latest answers", _latest_line(found.recent.answers, last))
    for index, use in enumerate(uses):
        table.add_row("" if index else heading, Text(_never_called(use, shown)))
    console.print(table)


def engine_line(found: ServerStats) -> str:
    """Say where the engine stands."""
    restarts = max(found.engine_starts - 1, 0)
    return f"{found.engine_state}, {restarts} restart{'' if restarts == 1 else 's'}"


def latency_line(found: ServerStats) -> str:
    """Say how long the latest answers took."""
    parts = [f"{name} {getattr(found, f'{name}_micros') / 1000:.1f} ms" for name in PERCENTILES]
    return f"{', '.join(parts)} over the latest {found.latency_samples} answers"


def tool_name(name: str) -> str:
    """Return what is shown for a counted answer."""
    return one_line(name, NAME_CHARS) if name else "no tool fits"


def duration(seconds: float) -> str:
    """Write a time as days, hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours}:{minutes:02}:{rest:02}"
    return f"{days} d {clock}" if days else clock


def _latest_line(answers: int, last: int | None) -> str:
    """Say how many answers the use is told of."""
    if last is None or answers >= last:
        return f"the last {answers:,}"
    return f"all {answers:,}: there are no {last:,} yet"


def _never_called(use: CatalogUse, shown: int) -> str:
    if use.never_called is None:
        return f"{use.name}: not known: {use.unknown}"
    line = f"{use.name}: {use.never_called:,} of {use.tool_count:,} tools"
    if use.answers is not None:
        line += f", of {use.answers:,} answers on it"
    names = [tool_name(name) for name in use.names[:shown]]
    if not names:
        return line
    rest = use.never_called - len(names)
    return f"{line}: {', '.join(names)}{f' and {rest:,} more' if rest else ''}"
