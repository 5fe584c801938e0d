"""`pointsman eval` end to end over a scripted engine: table, report, exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner, Result

import router.cli.evaluate as command
from catalog_compiler.errors import SourceError
from decoder.engine import Finished, WalkRequest, WalkResult
from router.cli.evaluate import evaluate
from router.inprocess import InProcessRouter
from router.jobs import RouteJob
from router.pipeline import Pipeline

from .conftest import CATALOG, WordEmbedder
from .test_pipeline import WEIGHTS, load, walk_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from router.catalogs import LoadedCatalog

    Run: TypeAlias = Callable[..., Result]


class EvenEngine:
    """Gives every allowed leaf the same probability, one walk a step, last come first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, WalkRequest]] = []
        self.submitted = 0
        self.most_alive = 0

    def submit(self, request: WalkRequest) -> int:
        """Take a walk."""
        self.submitted += 1
        self.waiting.append((self.submitted, request))
        self.most_alive = max(self.most_alive, len(self.waiting))
        return self.submitted

    def step(self) -> list[Finished]:
        """End the youngest walk."""
        handle, request = self.waiting.pop()
        assert request.allowed is not None
        leaves = np.flatnonzero(request.allowed).astype(np.int32)
        logprobs = np.full(len(leaves), -np.log(len(leaves)))
        result = WalkResult(leaves, logprobs, len(request.prompt), 0, len(leaves), 0, 1)
        return [Finished(handle, result, None)]


class ScriptedParts:
    """Stands in for the loaded model and encoder."""

    model_digest = "m1"

    def __init__(self) -> None:
        self.embedder = WordEmbedder()
        self.engine = EvenEngine()

    def open_or_compile(self, path: Path) -> LoadedCatalog:
        """Return the small catalog."""
        return load(CATALOG)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command on query lines."""
    monkeypatch.setattr(command, "load_parts", lambda path: ScriptedParts())

    def invoke(lines: list[str], *options: str) -> Result:
        (tmp_path / "catalog.json").write_text("{}")
        rows = tmp_path / "rows.jsonl"
        rows.write_text("\n".join(lines), encoding="utf-8")
        arguments = [str(tmp_path / "catalog.json"), str(rows), *options]
        return CliRunner().invoke(evaluate, arguments, env={"COLUMNS": "200"})

    return invoke


ROWS = [
    json.dumps({"query": "boil water in the kettle", "tool": "kettle_boil"}),
    json.dumps(
        {
            "query": "water the flower beds",
            "tool": "garden.water-beds",
            "offered": ["search", "garden.water-beds"],
        }
    ),
    json.dumps({"query": "quarterly bond yields", "tool": None}),
]


def test_all_methods_are_measured_and_reported(run: Run, tmp_path: Path):
    """The report holds every method and measure; the table names them."""
    out = tmp_path / "report.json"
    result = run(ROWS, "--json", str(out), "--methods", "router,retrieval,bm25,minilm")
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_text())
    assert [m["method"] for m in report["methods"]] == ["router", "retrieval", "bm25", "minilm"]
    assert report["rows"] == 3
    assert report["rows_where_no_tool_fits"] == 1
    assert report["catalog"]["tools"] == len(CATALOG)
    for method in report["methods"]:
        assert method["top1"]["value"] == 1.0
        assert method["top1_offered"]["value"] == 1.0
        assert method["abstain_auroc"]["value"] == 1.0
        assert method["method"] in result.output


def test_bad_rows_are_named_and_change_the_exit_code(run: Run):
    """The good rows are measured; the bad ones are named by line on the error stream."""
    result = run([*ROWS, "{", json.dumps({"query": "x", "tool": "gone"})], "--methods", "bm25")
    assert result.exit_code == 3
    assert "rows.jsonl:4: left out: not JSON" in result.stderr
    assert "rows.jsonl:5: left out: the catalog has no tool 'gone'" in result.stderr


def test_nothing_to_measure_is_an_error(run: Run):
    """A file without one good row says so."""
    result = run(["", "{}"])
    assert result.exit_code == 1
    assert "No usable row" in result.stderr


def test_a_catalog_that_cannot_be_read_is_named(run: Run, monkeypatch: pytest.MonkeyPatch):
    """The compiler's message is shown, and no traceback."""

    def refuse(self: ScriptedParts, path: Path) -> LoadedCatalog:
        raise SourceError(f"{path.name}: not JSON; mend it")

    monkeypatch.setattr(ScriptedParts, "open_or_compile", refuse)
    result = run(ROWS)
    assert result.exit_code == 1
    assert "catalog.json: not JSON; mend it" in result.stderr


def test_a_limit_takes_the_first_good_rows(run: Run, tmp_path: Path):
    """Of each file."""
    out = tmp_path / "report.json"
    result = run(["{", *ROWS], "--limit", "1", "--methods", "bm25", "--json", str(out))
    assert result.exit_code == 3
    assert json.loads(out.read_text())["rows"] == 1


@pytest.mark.parametrize("options", [("--methods", "oracle"), ("--limit", "0"), ("--what",)])
def test_wrong_usage_is_refused(run: Run, options: tuple[str, ...]):
    """Unknown methods and options never run anything."""
    assert run(ROWS, *options).exit_code == 2


def test_walks_are_handed_back_in_order_and_bounded():
    """However the engine ends them, and never more together than it was told."""
    pipeline = Pipeline(WordEmbedder(), WEIGHTS)
    pipeline.add_catalog(load(CATALOG))
    engine = EvenEngine()
    loop = InProcessRouter(pipeline, engine, together=3)
    texts = [f"boil the kettle {'again ' * i}" for i in range(7)]
    routes = [pipeline.prepare(RouteJob("r", "d1", text)) for text in texts]
    walks = loop.walk(routes)
    assert [w.prompt_tokens for w in walks] == [len(r.request.prompt) for r in routes]
    assert engine.most_alive == 3
    one = loop.route(RouteJob("r", "d1", texts[0]))
    assert one.usage.prompt_tokens == walks[0].prompt_tokens
    assert pipeline.finish(routes[0], walk_of(routes[0], "kettle_boil")).candidates
