"""`pointsman stats`: show a server's counters."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from router.cli.connect import address_options, connect, tell_error
from router.client import RequestError, ServerStats

SHOWN_TOOLS = 10


@click.command("stats")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@address_options(timeout_s=5.0)
def stats(as_json: bool, address: str, timeout_s: float, **reached: Any) -> None:  # noqa: FBT001
    """Show a server's counters.

    \b
    Exit codes: 0 shown; 2 wrong usage; 4 no server answers; 6 out of time.
    """  # noqa: D301  (click's own mark)
    try:
        with connect(address, **reached) as client:
            found = client.stats(timeout_s=timeout_s)
    except RequestError as error:
        tell_error(error, address)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), ensure_ascii=False, indent=2))
        return
    show(Console(), found)


def show(console: Console, found: ServerStats) -> None:
    """Print the counters."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    state = "serving" if found.serving else "not serving"
    table.add_row("engine", f"{state}, started {found.engine_starts}x, up {found.uptime_s:.0f} s")
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
    table.add_row(
        "load",
        f"{found.alive} of {found.slots} slots (peak {found.alive_peak}), "
        f"{found.queued} of {found.queue} waiting (peak {found.queued_peak})",
    )
    table.add_row(
        "latency",
        f"p50 {found.p50_micros / 1000:.1f} ms, p99 {found.p99_micros / 1000:.1f} ms over "
        f"{found.latency_samples} answers",
    )
    for index, (name, count) in enumerate(list(found.tools.items())[:SHOWN_TOOLS]):
        table.add_row("" if index else "tools", Text(f"{count}x {name or 'no tool fits'}"))
    console.print(table)
