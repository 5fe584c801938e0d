"""Whether the pairs of `catalog lint --deep` are those that are confused in truth.

`python -m benchmarks.lint_deep --data DIR [--json FILE]`

The labelled queries of each set are answered by the router's retrieval; a pair is confused where
one of the two was the answer to a request for the other at least once. Said of the listed pairs:
how many there are, what share is confused (a lower bound: few requests ask for any one pair), what
share of all pairs is, and how many of the confused answers lie within listed pairs.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from rich.console import Console

from benchmarks.command import publish
from router.fit_scoring import load_sets
from router.parts import load_parts
from router.retrieval.confusable import LIKENESS, confusable_pairs
from router.scoring import load_weights


@click.command()
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True
)
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path))
def main(data: Path, out: Path | None) -> None:
    """Measure every labelled set."""
    console = Console(stderr=True)
    parts = load_parts(None)
    weights = load_weights().retrieval
    rows = {}
    for labelled in load_sets(data, parts):
        tools = labelled.catalog.tools
        place = {tool.name: index for index, tool in enumerate(tools)}
        confused: dict[tuple[int, int], int] = {}
        for query in labelled.queries:
            if query.tool is None:
                continue
            evidence = labelled.catalog.retriever.search(query.text, parts.embedder, weights)
            right, answer = place[query.tool], int(evidence.best(1)[0])
            if right != answer:
                pair = (min(right, answer), max(right, answer))
                confused[pair] = confused.get(pair, 0) + 1
        pairs, _ = confusable_pairs(tools, parts.embedder, at_most=len(tools) ** 2)
        listed = {(pair.first, pair.second) for pair in pairs}
        wrong = sum(confused.values())
        within = sum(count for pair, count in confused.items() if pair in listed)
        rows[labelled.name] = {
            "tools": len(tools),
            "listed": len(listed),
            "listed_confused": round(np.mean([p in confused for p in listed]).item(), 4),
            "all_confused": round(len(confused) / (len(tools) * (len(tools) - 1) / 2), 6),
            "wrong_answers": wrong,
            "wrong_within_listed": round(within / wrong, 4),
        }
        console.print(labelled.name, rows[labelled.name])
    publish({"benchmark": "lint_deep", "likeness": LIKENESS, "sets": rows}, out)


if __name__ == "__main__":
    main()
