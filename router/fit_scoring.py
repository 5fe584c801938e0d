"""Fitting the scoring weights on labelled queries: `python -m router.fit_scoring --data DIR`.

Owns which rows are used, the cross-validation and the weights file. The file holds weights and
measured figures only, never a row. For every catalog there is also a *fold*: weights fitted on the
other catalogs alone, with which the published accuracy is measured. Never part of serving.

What "no tool fits" is learnt from: rows labelled so, and requests made of another catalog.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress

from router.evaluation import Query, auroc, read_queries
from router.fitting import ChoiceRow, fit_binary, fit_choices
from router.inprocess import InProcessRouter
from router.jobs import RouteJob
from router.parts import load_parts
from router.pipeline import Pipeline, read_walk
from router.retrieval.shortlist import RetrievalWeights
from router.scoring import (
    WEIGHTS_FORMAT,
    ModelReading,
    ModelWeights,
    NoneWeights,
    ScoringWeights,
    combine,
    log_softmax,
    none_features,
)

if TYPE_CHECKING:
    from router.catalogs import LoadedCatalog
    from router.parts import RoutingParts
    from router.retrieval.shortlist import Evidence

VERBATIM_NATS: Final = 6.0
"""What a name spelt out is worth. Set, not fitted: hardly any labelled query spells one."""

NONE_BASE_RATE: Final = 0.1
"""The share of requests that no tool fits which the probabilities assume. Set, not fitted: the
labelled sets say nothing about it."""

RIDGE: Final = 1e-4
STARTING_WEIGHTS: Final = RetrievalWeights(cosine=12.0, bm25=0.25, verbatim=VERBATIM_NATS)
SEED: Final = 20_250_101


@dataclass(frozen=True, slots=True)
class Example:
    """One row's evidence and, where the model was run, its reading.

    Attributes:
        evidence: on every tool of the catalog.
        right: index of the right tool, or None where no tool fits.
        labelled: whether a person labelled it (False: a request made of another catalog).
        reading: the model's reading of the shortlist, or None.

    """

    evidence: Evidence
    right: int | None
    labelled: bool
    reading: ModelReading | None


def rescored(example: Example, weights: RetrievalWeights) -> Evidence:
    """Weigh an example's evidence anew."""
    evidence = example.evidence
    score = (
        weights.cosine * evidence.cosine
        + weights.bm25 * evidence.bm25
        + weights.verbatim * evidence.verbatim
    )
    return replace(evidence, score=score)


def fit_retrieval(sets: list[list[Example]]) -> RetrievalWeights:
    """Fit cosine and BM25 over all tools, every catalog counting the same."""
    rows = []
    for examples in sets:
        fitting = [e for e in examples if e.right is not None]
        rows += [
            ChoiceRow(
                features=np.column_stack((e.evidence.cosine, e.evidence.bm25)),
                offset=VERBATIM_NATS * e.evidence.verbatim.astype(np.float64),
                chosen=e.right,
                weight=1 / len(fitting),
            )
            for e in fitting
            if e.right is not None
        ]
    cosine, bm25 = fit_choices(rows, RIDGE).tolist()
    return RetrievalWeights(cosine=cosine, bm25=bm25, verbatim=VERBATIM_NATS)


def fit_model(sets: list[list[Example]], retrieval: RetrievalWeights) -> ModelWeights:
    """Fit the model's part within the shortlists that hold the right tool."""
    rows = []
    for examples in sets:
        usable = []
        for example in examples:
            if example.right is None or example.reading is None:
                continue
            places = np.flatnonzero(example.reading.listed == example.right)
            if len(places):
                usable.append((example, example.reading, int(places[0])))
        for example, reading, place in usable:
            prior = log_softmax(rescored(example, retrieval).score)
            rows.append(
                ChoiceRow(
                    features=reading.log_probabilities[:, None],
                    offset=prior[reading.listed],
                    chosen=place,
                    weight=1 / len(usable),
                )
            )
    (log_probability,) = fit_choices(rows, RIDGE).tolist()
    return ModelWeights(log_probability=log_probability)


def fit_none(sets: list[list[Example]], retrieval: RetrievalWeights) -> NoneWeights:
    """Fit "no tool fits", then move the constant to the stated base rate.

    Every catalog and both outcomes count the same.
    """
    features, labels, shares = [], [], []
    for examples in sets:
        for outcome in (True, False):
            chosen = [e for e in examples if (e.right is None) == outcome and e.reading is not None]
            for example in chosen:
                evidence = rescored(example, retrieval)
                prior = log_softmax(evidence.score)
                features.append(none_features(evidence, prior, example.reading))
                labels.append(outcome)
                shares.append(1 / len(chosen))
    fitted = fit_binary(np.array(features), np.array(labels), np.array(shares), RIDGE).tolist()
    best, second, confidence, model_none, bias = fitted
    return NoneWeights(
        bias=bias + math.log(NONE_BASE_RATE / (1 - NONE_BASE_RATE)),
        best_cosine=best,
        second_cosine=second,
        confidence=confidence,
        model_none=model_none,
    )


def fit_all(sets: list[list[Example]]) -> ScoringWeights:
    """Fit the three parts one after the other."""
    retrieval = fit_retrieval(sets)
    return ScoringWeights(retrieval, fit_model(sets, retrieval), fit_none(sets, retrieval))


def measure(examples: list[Example], weights: ScoringWeights) -> dict[str, float | int | None]:
    """Measure weights on examples: top-1 without and with the model, and the two AUROCs."""
    prior_hits = model_hits = rows = 0
    none_scores: dict[str, list[float]] = {"fits": [], "labelled": [], "foreign": []}
    for example in examples:
        if example.reading is None:
            continue
        evidence = rescored(example, weights.retrieval)
        scores = combine(weights, evidence, example.reading)
        kind = "labelled" if example.labelled else "foreign"
        none_scores["fits" if example.right is not None else kind].append(scores.none_log_odds)
        if example.right is not None:
            rows += 1
            prior_hits += int(evidence.best(1)[0]) == example.right
            model_hits += int(scores.best(1)[0]) == example.right
    fits = none_scores["fits"]
    return {
        "rows": rows,
        "top1_without_model": round(prior_hits / rows, 4),
        "top1_with_model": round(model_hits / rows, 4),
        "abstain_auroc_labelled": _area(none_scores["labelled"], fits),
        "abstain_auroc_foreign": _area(none_scores["foreign"], fits),
    }


def _area(positive: list[float], negative: list[float]) -> float | None:
    return round(auroc(positive, negative), 4) if positive and negative else None


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """One catalog with its labelled queries."""

    name: str
    catalog: LoadedCatalog
    queries: tuple[Query, ...]
    digest: str


def load_sets(data: Path, parts: RoutingParts) -> list[LabelledSet]:
    """Load every folder of ``data/eval`` that holds a catalog and its development queries.

    Raises:
        click.ClickException: fewer than two sets, so that nothing can be held out.

    """
    sets = []
    for folder in sorted((data / "eval").iterdir()):
        files = [f for f in sorted(folder.glob("*_dev.jsonl")) if not f.name.startswith("multi")]
        if not (folder / "catalog.json").is_file() or not files:
            continue
        catalog = parts.compile([folder / "catalog.json"])
        queries, _ = read_queries(files, [tool.name for tool in catalog.tools])
        content = b"".join(f.read_bytes() for f in (folder / "catalog.json", *files))
        digest = hashlib.sha256(content).hexdigest()
        sets.append(LabelledSet(folder.name, catalog, tuple(queries), digest))
    if len(sets) < 2:
        raise click.ClickException(
            f"{data / 'eval'} holds {len(sets)} labelled sets; at least two are needed"
        )
    return sets


def gather(
    sets: list[LabelledSet], parts: RoutingParts, rows: int, progress: Progress
) -> dict[str, list[Example]]:
    """Gather evidence and readings: up to `rows` labelled rows a set, and half as many foreign."""
    rng = np.random.default_rng(SEED)
    picked = {s.name: _sample(rng, s.queries, rows) for s in sets}
    neutral = ScoringWeights(STARTING_WEIGHTS, ModelWeights(0), NoneWeights(0, 0, 0, 0, 0))
    pipeline = Pipeline(parts.embedder, neutral)
    router = InProcessRouter(pipeline, parts.engine)
    gathered: dict[str, list[Example]] = {}
    for labelled in sets:
        pipeline.add_catalog(labelled.catalog)
        others = [q for name, queries in picked.items() if name != labelled.name for q in queries]
        foreign = _sample(rng, [q for q in others if q.tool is not None], rows // 2)
        asked = [(q, True) for q in picked[labelled.name]] + [(q, False) for q in foreign]
        index = {tool.name: i for i, tool in enumerate(labelled.catalog.tools)}
        examples = []
        for query, own in progress.track(asked, description=labelled.name):
            job = RouteJob("fit", labelled.catalog.digest, query.text)
            route = pipeline.prepare(job)
            reading = read_walk(route, router.walk([route])[0])
            right = index[query.tool] if own and query.tool is not None else None
            examples.append(Example(route.evidence, right, own, reading))
        gathered[labelled.name] = examples
    return gathered


def _sample(rng: np.random.Generator, queries: Any, rows: int) -> list[Query]:
    """Take at most `rows`, all rows where no tool fits among them, in file order."""
    nothing = [q for q in queries if q.tool is None][:rows]
    fitting = [q for q in queries if q.tool is not None]
    if len(fitting) > rows:
        fitting = [fitting[i] for i in sorted(rng.choice(len(fitting), rows, replace=False))]
    return fitting + nothing


def _rounded(weights: ScoringWeights) -> dict[str, dict[str, float]]:
    """Weights with six significant digits, as the file holds them."""
    return {
        part: {key: float(f"{value:.6g}") for key, value in numbers.items()}
        for part, numbers in asdict(weights).items()
    }


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder with eval/<set>/catalog.json and *_dev.jsonl.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(__file__).with_name("scoring_weights.json"),
    show_default=True,
)
@click.option("--rows", type=click.IntRange(min=20), default=400, show_default=True)
@click.option("--model", "model_path", type=click.Path(exists=True, path_type=Path), default=None)
def main(data: Path, out: Path, rows: int, model_path: Path | None) -> None:
    """Fit the weights, cross-validate catalog by catalog, and write the weights file."""
    console = Console(stderr=True)
    parts = load_parts(model_path)
    sets = load_sets(data, parts)
    with Progress(console=console) as progress:
        gathered = gather(sets, parts, rows, progress)
    folds, figures = {}, {}
    for held_out in gathered:
        weights = fit_all([e for name, e in gathered.items() if name != held_out])
        folds[held_out] = _rounded(weights)
        figures[held_out] = measure(gathered[held_out], weights)
    document = {
        "format": WEIGHTS_FORMAT,
        "model_digest": parts.model_digest,
        "weights": _rounded(fit_all(list(gathered.values()))),
        "set_not_fitted": {"verbatim": VERBATIM_NATS, "none_base_rate": NONE_BASE_RATE},
        "rows_per_set": rows,
        "fitted_on": {labelled.name: labelled.digest for labelled in sets},
        "held_out": figures,
        "folds": folds,
    }
    out.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    console.print_json(json.dumps({"weights": document["weights"], "held_out": figures}))


if __name__ == "__main__":
    main()
