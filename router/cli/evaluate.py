"""`pointsman eval`: how often the right tool is chosen, on labelled queries.

Owns the command's options, table and exit codes. Measuring is `router.evaluation`'s.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from catalog_compiler.errors import CatalogError
from decoder.errors import DecoderError
from router.assets import AssetError
from router.catalogs import CatalogMismatchError
from router.chat import PromptError
from router.evaluation import evaluate_method, read_queries, report_json
from router.inprocess import InProcessRouter
from router.methods import Bm25Method, EncoderMethod, RetrievalMethod, RouterMethod
from router.parts import load_parts
from router.pipeline import Pipeline

if TYPE_CHECKING:
    from router.catalogs import LoadedCatalog
    from router.evaluation import Estimate, Method, MethodReport, RowProblem
    from router.parts import RoutingParts

METHODS: Final = ("router", "retrieval", "bm25", "minilm")
SHOWN_PROBLEMS: Final = 20
SHOWN_CONFUSIONS: Final = 5

EXIT_NOTHING_MEASURED: Final = 1
EXIT_ROWS_LEFT_OUT: Final = 3


def _split_methods(
    context: click.Context, parameter: click.Parameter, value: str
) -> tuple[str, ...]:
    """Split at commas and refuse unknown names."""
    chosen = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        raise click.BadParameter(
            f"unknown: {', '.join(unknown)}; known are {', '.join(METHODS)}", context, parameter
        )
    return chosen


@click.command("eval")
@click.argument("catalog", type=click.Path(exists=True, path_type=Path))
@click.argument(
    "queries",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--json", "json_out", type=click.Path(dir_okay=False, path_type=Path), help="Write a report."
)
@click.option("--limit", type=click.IntRange(min=1), help="Use the first N good rows of each file.")
@click.option(
    "--methods",
    callback=_split_methods,
    default="router,bm25,minilm",
    show_default=True,
    help=f"Any of {', '.join(METHODS)}.",
)
@click.option(
    "--model",
    "model_path",
    type=click.Path(exists=True, path_type=Path),
    help="GGUF file or model folder; by default the embedded model.",
)
def evaluate(
    catalog: Path,
    queries: tuple[Path, ...],
    json_out: Path | None,
    limit: int | None,
    methods: tuple[str, ...],
    model_path: Path | None,
) -> None:
    """Measure how often the right tool is chosen.

    CATALOG is a tools file of any format that `catalog compile` reads, or a compiled .catalog.
    QUERIES are JSON Lines files of {"query", "tool"[, "offered"]}; "tool" is null where no tool
    fits, and "offered" names a short list to choose within as well.

    Exit codes: 0 every row was used; 1 no row could be used, or an input could not be read;
    2 wrong usage; 3 measured, but some rows were left out (they are named).
    """
    console = Console(stderr=True)
    try:
        parts = load_parts(model_path)
        loaded = parts.open_or_compile(catalog)
    except (CatalogError, CatalogMismatchError, PromptError, AssetError, DecoderError) as error:
        raise click.ClickException(str(error)) from error
    rows, problems = read_queries(queries, [tool.name for tool in loaded.tools])
    if limit is not None:
        rows = [
            row for path in queries for row in [r for r in rows if r.source == str(path)][:limit]
        ]
    _show_problems(console, problems)
    if not rows:
        console.print("[bold]No usable row.[/] Every row needs a query and a tool of the catalog.")
        raise click.exceptions.Exit(EXIT_NOTHING_MEASURED)
    reports = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        for name in methods:
            task = progress.add_task(name, total=len(rows))
            method = make_method(name, parts, loaded)
            reports.append(evaluate_method(method, rows, partial(progress.advance, task)))
    about = {
        "path": catalog.name,
        "digest": loaded.digest,
        "tools": len(loaded.tools),
        "model_digest": parts.model_digest,
    }
    if json_out is not None:
        document = report_json(about, rows, problems, reports)
        json_out.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    _show_reports(Console(), reports, len(rows), len(loaded.tools))
    if problems:
        raise click.exceptions.Exit(EXIT_ROWS_LEFT_OUT)


def make_method(name: str, parts: RoutingParts, catalog: LoadedCatalog) -> Method:
    """Make the way of choosing that `--methods` names, over a loaded catalog."""
    if name == "bm25":
        return Bm25Method(catalog.tools)
    if name == "minilm":
        return EncoderMethod(catalog.tools, parts.embedder)
    pipeline = Pipeline(parts.embedder)
    pipeline.add_catalog(catalog)
    if name == "retrieval":
        return RetrievalMethod(pipeline, catalog)
    return RouterMethod(InProcessRouter(pipeline, parts.engine), catalog.digest)


def _show_problems(console: Console, problems: list[RowProblem]) -> None:
    for problem in problems[:SHOWN_PROBLEMS]:
        console.print(
            f"{problem.source}:{problem.line}: left out: {problem.message}",
            markup=False,
            highlight=False,
        )
    if len(problems) > SHOWN_PROBLEMS:
        console.print(f"... and {len(problems) - SHOWN_PROBLEMS} more rows left out")


def _share(estimate: Estimate | None) -> str:
    """Write percent and the wider side of the interval; the report file has both sides."""
    if estimate is None:
        return "-"
    reach = max(estimate.value - estimate.low, estimate.high - estimate.value)
    return f"{100 * estimate.value:.1f}±{100 * reach:.1f}"


def _show_reports(console: Console, reports: list[MethodReport], rows: int, tools: int) -> None:
    table = Table(
        title=f"{rows} queries, {tools} tools; percent, 95% interval",
        box=None,
        padding=(0, 1, 0, 0),
    )
    for heading in (
        "method",
        "top-1",
        "top-5",
        "MRR",
        "offered",
        "AUROC",
        "ECE",
        "p50 ms",
        "p99 ms",
    ):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for report in reports:
        calibration = report.calibration_error
        table.add_row(
            report.method,
            _share(report.top1),
            _share(report.top5),
            _share(report.mrr),
            _share(report.top1_offered),
            _share(report.abstain_auroc),
            "-" if calibration is None else f"{100 * calibration:.1f}",
            f"{1000 * report.latency_p50_s:.1f}",
            f"{1000 * report.latency_p99_s:.1f}",
        )
    console.print(table)
    for report in reports:
        for confusion in report.confusions[:SHOWN_CONFUSIONS]:
            console.print(
                f"{report.method}: {confusion.answered!r} for {confusion.right!r} "
                f"x{confusion.count}",
                markup=False,
                highlight=False,
            )
