"""`pointsman route`: ask a server which tool a request means.

Owns the command's options and how an answer is shown.
"""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from router.cli.connect import address_options, connect, tell_error
from router.client import RequestError, RouteQuery

if TYPE_CHECKING:
    from router.client import Arguments, RouteAnswer


@click.command("route")
@click.argument("text")
@click.option("--catalog", default="", help="Name or digest.  [default: the server's]")
@click.option("-k", "--k", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option(
    "--allow", "names", multiple=True, metavar="NAME", help="Only these tools may answer."
)
@click.option("--namespace", "namespaces", multiple=True, help="Only tools of these.")
@click.option("--tag", "tags", multiple=True, help="Only tools with one of these.")
@click.option("--previous", default="", help="The turn before.")
@click.option("--arguments", "want_arguments", is_flag=True, help="Ask for its arguments too.")
@click.option(
    "--missing",
    type=click.Choice(("fill", "report")),
    default="fill",
    show_default=True,
    help="Required values that the request does not mention: let the model fill them in, or "
    "report them.",
)
@click.option(
    "--max-argument-tokens",
    type=click.IntRange(min=0),
    default=0,
    help="Most tokens of arguments.  [default: the server's]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
@address_options(timeout_s=30.0)
def route(
    text: str,
    catalog: str,
    k: int,
    names: tuple[str, ...],
    namespaces: tuple[str, ...],
    tags: tuple[str, ...],
    previous: str,
    want_arguments: bool,  # noqa: FBT001  (click hands flags over so)
    missing: str,
    max_argument_tokens: int,
    as_json: bool,  # noqa: FBT001
    address: str,
    timeout_s: float,
    **reached: Any,
) -> None:
    """Ask a server which tool TEXT means.

    \b
    Exit codes: 0 answered, "no tool fits" included; 2 wrong usage; 4 no server answers; 5 refused;
    6 failed or out of time.
    """  # noqa: D301  (click's own mark)
    if not want_arguments and (missing != "fill" or max_argument_tokens):
        raise click.UsageError("--missing and --max-argument-tokens need --arguments")
    try:
        query = RouteQuery(
            text,
            catalog=catalog,
            previous=previous,
            names=names,
            namespaces=namespaces,
            tags=tags,
            k=k,
            want_arguments=want_arguments,
            missing=missing,
            max_argument_tokens=max_argument_tokens,
        )
    except ValueError as error:
        raise click.UsageError(str(error).replace("RouteQuery.", "", 1)) from error
    began = time.perf_counter()
    try:
        with connect(address, **reached) as client:
            answer = client.route(query, timeout_s=timeout_s)
    except RequestError as error:
        tell_error(error, address)
    took_s = time.perf_counter() - began
    if as_json:
        document = {**dataclasses.asdict(answer), "round_trip_micros": round(1e6 * took_s)}
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    show(Console(), answer, took_s)


def show(console: Console, answer: RouteAnswer, took_s: float) -> None:
    """Print an answer: candidates with their probabilities, time, and tokens."""
    table = Table(box=None, pad_edge=False)
    for heading, justify in (("", "right"), ("tool", "left"), ("probability", "right")):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for rank, name, probability in ranked(answer):
        shown = Text("no tool fits", style="italic") if name is None else Text(name)
        if rank == "1":
            shown.stylize("bold")
        table.add_row(rank, shown, f"{100 * probability:.1f}%")
    console.print(table)
    if answer.arguments is not None:
        show_arguments(console, answer.arguments)
    usage, timings = answer.usage, answer.timings
    console.print(
        f"{1000 * took_s:.1f} ms, of which {timings.total_micros / 1000:.1f} ms in the server "
        f"(waiting {timings.queue_micros / 1000:.1f}, retrieval "
        f"{timings.retrieval_micros / 1000:.1f}, model {timings.model_micros / 1000:.1f}"
        f"{_argument_time(answer)})",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"{usage.prompt_tokens:,} tokens read, {usage.shortlist_size:,} of {usage.allowed_size:,} "
        f"tools listed; sending them all takes {usage.offered_tokens:,}: "
        f"{usage.tokens_saved:,} saved",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"catalog {answer.catalog_digest[:12]}, model {answer.model_digest[:12]}", style="dim"
    )


def show_arguments(console: Console, arguments: Arguments) -> None:
    """Print the arguments as they may be sent on, or why there are none."""
    if arguments.json:
        console.print(Text(arguments.json), soft_wrap=True)
    if arguments.missing:
        pointers = ", ".join(arguments.missing)
        console.print(Text(f"not in the request: {pointers}", style="yellow"), soft_wrap=True)
    if arguments.code:
        told = f"no arguments ({arguments.outcome}): [{arguments.code}] {arguments.reason}"
        console.print(Text(told, style="yellow"), soft_wrap=True)


def _argument_time(answer: RouteAnswer) -> str:
    if answer.arguments is None:
        return ""
    return f", arguments {answer.timings.argument_micros / 1000:.1f}"


def ranked(answer: RouteAnswer) -> list[tuple[str, str | None, float]]:
    """Return (rank, tool or None for "no tool fits", probability), best first.

    Below the listed tools, "no tool fits" has no rank: tools that are not listed may lie between.
    """
    names: list[tuple[str | None, float]] = [(c.name, c.probability) for c in answer.candidates]
    ahead = sum(probability >= answer.none_probability for _, probability in names)
    place = 0 if answer.tool is None else max(ahead, 1)
    names.insert(place, (None, answer.none_probability))
    last = len(names) - 1
    return [
        ("" if name is None and rank == last and rank else str(rank + 1), name, probability)
        for rank, (name, probability) in enumerate(names)
    ]
