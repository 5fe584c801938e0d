"""Accuracy over the labelled sets: the router beside each of its parts alone, on the same rows.

`python -m benchmarks.accuracy --data DIR --json benchmarks/results/accuracy.json`

Each set is measured with the weights fitted on the *other* sets (the folds of
`router/scoring_weights.json`), so no figure of the router has seen its own catalog. The floor of
every row of the table is the sentence encoder alone on the same queries.
"""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from router.evaluation import evaluate_method, read_queries
from router.inprocess import InProcessRouter
from router.methods import Bm25Method, EncoderMethod, RetrievalMethod, RouterMethod
from router.parts import load_parts
from router.pipeline import Pipeline
from router.scoring import SHIPPED_WEIGHTS, WEIGHTS_FORMAT, ScoringWeights

if TYPE_CHECKING:
    from router.evaluation import Estimate, Method, MethodReport, Query
    from router.parts import RoutingParts

SEED = 7
BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = ("azure_mcp", "toollinkos", "bfcl_union", "metatool")


def sample(queries: list[Query], rows: int) -> list[Query]:
    """Take at most `rows` queries (0: all) by a fixed seed, in file order."""
    if rows == 0 or len(queries) <= rows:
        return queries
    picked = np.random.default_rng(SEED).choice(len(queries), rows, replace=False)
    return [queries[index] for index in sorted(picked.tolist())]


def fold_weights(name: str) -> ScoringWeights:
    """Return the weights fitted without this set."""
    folds = json.loads(SHIPPED_WEIGHTS.read_text(encoding="utf-8"))["folds"]
    if name not in folds:
        raise click.ClickException(
            f"{SHIPPED_WEIGHTS.name} has no fold for {name}; run `python -m router.fit_scoring`"
        )
    return ScoringWeights.from_json({"format": WEIGHTS_FORMAT, "weights": folds[name]})


def measure_set(folder: Path, parts: RoutingParts, rows: int, progress: Progress) -> dict[str, Any]:
    """Measure every method on one set."""
    start = time.perf_counter()
    catalog = parts.open_or_compile(folder / "catalog.json")
    compiled_s = time.perf_counter() - start
    files = [folder / "queries_dev.jsonl", folder / "abstain_dev.jsonl"]
    files = [file for file in files if file.is_file()]
    queries: list[Query] = []
    problems = 0
    for file in files:
        read, bad = read_queries([file], [tool.name for tool in catalog.tools])
        queries += sample(read, rows)
        problems += len(bad)
    pipeline = Pipeline(parts.embedder, fold_weights(folder.name))
    pipeline.add_catalog(catalog)
    methods: list[Method] = [
        Bm25Method(catalog.tools),
        EncoderMethod(catalog.tools, parts.embedder),
        RetrievalMethod(pipeline, catalog),
        RouterMethod(InProcessRouter(pipeline, parts.engine), catalog.digest),
    ]
    reports = []
    for method in methods:
        task = progress.add_task(f"{folder.name} {method.name}", total=len(queries))
        reports.append(evaluate_method(method, queries, partial(progress.advance, task)))
    return {
        "set": folder.name,
        "tools": len(catalog.tools),
        "rows": len(queries),
        "rows_left_out": problems,
        "compile_s": round(compiled_s, 2),
        # Confusions name the tools of catalogs that are not ours; they stay out of the record.
        "methods": [
            {key: value for key, value in asdict(report).items() if key != "confusions"}
            for report in reports
        ],
        "_reports": reports,
    }


def cell(estimate: Estimate | None) -> str:
    """Write a share in percent with its interval."""
    if estimate is None:
        return ""
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.1f}–{100 * estimate.high:.1f})"


def markdown(results: list[dict[str, Any]]) -> str:
    """Write the table as it stands in docs/accuracy.md."""
    lines = [
        (
            "| set | method | top-1 | top-5 | MRR | top-1 in offered | answered right "
            "| abstain AUROC | ECE | p50 ms |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        report: MethodReport
        for report in result["_reports"]:
            calibration = report.calibration_error
            lines.append(
                f"| {result['set']} ({result['tools']} tools, {result['rows']} rows) "
                f"| {report.method} | {cell(report.top1)} | {cell(report.top5)} "
                f"| {cell(report.mrr)} | {cell(report.top1_offered)} "
                f"| {cell(report.answered_right)} | {cell(report.abstain_auroc)} "
                f"| {'' if calibration is None else f'{100 * calibration:.1f}'} "
                f"| {1000 * report.latency_p50_s:.1f} |"
            )
    return "\n".join(lines)


@click.command()
@click.option(
    "--data",
    envvar="POINTSMAN_SHARED_DATA",
    default=BESIDE_THE_REPOSITORY,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with eval/<set>/; by default $POINTSMAN_SHARED_DATA, else beside the repository.",
)
@click.option("--json", "json_out", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--rows", type=click.IntRange(min=0), default=600, show_default=True, help="A file; 0: all."
)
def main(data: Path, json_out: Path | None, rows: int) -> None:
    """Measure every set and print the table; the last line is one line of JSON."""
    console = Console(stderr=True)
    start = time.perf_counter()
    parts = load_parts(None)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        results = [measure_set(data / "eval" / name, parts, rows, progress) for name in SETS]
    print(markdown(results))
    table = [{k: v for k, v in result.items() if k != "_reports"} for result in results]
    document = {
        "format": 1,
        "weights": "folds: each set measured with weights fitted on the other sets",
        "model_digest": parts.model_digest,
        "machine": f"{platform.machine()} {platform.processor()}".strip(),
        "seconds": round(time.perf_counter() - start, 1),
        "sets": table,
    }
    if json_out is not None:
        json_out.parent.mkdir(parents=True, exist_ok=True)
        json_out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    summary = {
        result["set"]: {
            report.method: round(report.top1.value, 4)
            for report in result["_reports"]
            if report.top1 is not None
        }
        for result in results
    }
    print(json.dumps({"top1": summary, "seconds": document["seconds"]}))


if __name__ == "__main__":
    main()
