"""`python -m loadtest SCENARIO`: play one, print its verdicts, write its report.

Owns the options and the exit codes: 0 every verdict passed; 1 one did not; 2 wrong usage; 3 the
scenario could not be played.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from loadtest.corpus import CorpusError, read_corpus
from loadtest.launch import Launch, LaunchError, own_server, serve_command
from loadtest.report import write_report
from loadtest.restarts import NoEngineError
from loadtest.scenarios import agents, chaos, contract, drain, greedy, soak, swap
from loadtest.stage import Findings, Stage, StageError
from router.client import PointsmanError

if TYPE_CHECKING:
    from loadtest.corpus import Corpus
    from loadtest.stage import Scale

SCENARIOS: Final[dict[str, Any]] = {
    "contract": contract,
    "drain": drain,
    "swap": swap,
    "chaos": chaos,
    "agents": agents,
    "soak": soak,
    "greedy": greedy,
}
EXIT_FAILED: Final = 1
EXIT_NOT_PLAYED: Final = 3
CASES: Final = {"small": 24, "full": 64}


@click.command("loadtest")
@click.argument("scenario", type=click.Choice(list(SCENARIOS)))
@click.option("--address", help="A server that runs already; nobody else may call it meanwhile.")
@click.option(
    "--catalog",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Start a server on this tools file or catalog.  [default: the tools of the requests]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the development data.  [default: $POINTSMAN_SHARED_DATA, else ../shared/data; "
    "where it is absent, the load test's own requests]",
)
@click.option("--scale", type=click.Choice(("small", "full")), default="small", show_default=True)
@click.option(
    "--mode",
    type=click.Choice(("closed", "open", "locust")),
    default="closed",
    show_default=True,
    help="How `contract` offers its load.",
)
@click.option("--requests", type=click.IntRange(min=1), help="How many `contract` offers.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="For --mode open.")
@click.option(
    "--arrivals",
    type=click.Choice(("constant", "poisson")),
    default="poisson",
    show_default=True,
    help="For --mode open.",
)
@click.option("--slots", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--queue", type=click.IntRange(min=0), default=16, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="Cores for the engine.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".loadtest"),
    show_default=True,
    help="Folder of the report.",
)
def main(
    scenario: str,
    address: str | None,
    catalog: Path | None,
    data: Path | None,
    scale: str,
    mode: str,
    requests: int | None,
    rate: float | None,
    arrivals: str,
    slots: int,
    queue: int,
    threads: int | None,
    seed: int,
    out: Path,
) -> None:
    """Play SCENARIO against a server and audit what became of every request."""
    if address is not None and catalog is not None:
        raise click.UsageError("--address and --catalog exclude each other")
    if scenario != "contract" and (mode != "closed" or requests or rate):
        raise click.UsageError("--mode, --requests and --rate belong to contract")
    plan = SCENARIOS[scenario].PLANS[scale]
    if scenario == "contract":
        given = {"mode": mode, "requests": requests, "rate": rate, "arrivals": arrivals}
        plan = dataclasses.replace(
            plan, **{name: value for name, value in given.items() if value is not None}
        )
    try:
        corpus = read_corpus(data, CASES[scale], seed, catalog)
        launch = Launch(serve_command(corpus.catalog, slots=slots, queue=queue, threads=threads))
        stage = (address, corpus, cast("Scale", scale), seed)
        with tempfile.TemporaryDirectory(prefix="loadtest-") as scratch:
            findings = asyncio.run(play(scenario, plan, *stage, Path(scratch), launch))
    except (CorpusError, LaunchError, NoEngineError, StageError, PointsmanError) as error:
        click.echo(f"loadtest {scenario}: {error}", err=True)
        raise click.exceptions.Exit(EXIT_NOT_PLAYED) from error
    setting = {
        "requests from": corpus.origin,
        "server": address or f"started here on {corpus.catalog.name}",
        "scale": scale,
        "seed": str(seed),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
    }
    page = write_report(findings, out, setting)
    for verdict in findings.verdicts:
        click.echo(f"{'PASS' if verdict.passed else 'FAIL'}  {verdict.name}: {verdict.evidence}")
    for note in findings.notes:
        click.echo(f"      {note}")
    click.echo(f"{'PASS' if findings.passed else 'FAIL'}  {scenario}; report: {page}")
    raise click.exceptions.Exit(0 if findings.passed else EXIT_FAILED)


async def play(
    scenario: str,
    plan: Any,
    address: str | None,
    corpus: Corpus,
    scale: Scale,
    seed: int,
    folder: Path,
    launch: Launch,
) -> Findings:
    """Play a scenario at an address, or on a server started for it."""
    async with contextlib.AsyncExitStack() as stack:
        server = None
        if address is None:
            server = await stack.enter_async_context(own_server(launch, folder))
            address = server.address
        stage = Stage(address, server, corpus, scale, seed, folder)
        findings: Findings = await SCENARIOS[scenario].play(stage, plan)
    return findings


if __name__ == "__main__":
    main()
