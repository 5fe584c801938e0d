"""The fitting command over scripted parts: what it writes, holds out and refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

import router.fit_scoring as command
from router.scoring import SHIPPED_WEIGHTS, WEIGHTS_FORMAT, ScoringWeights, load_weights

from .conftest import CATALOG
from .test_evaluate_command import ScriptedParts
from .test_pipeline import load

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from router.catalogs import LoadedCatalog

SECRET = "zanzibar"
"""Stands in every row and must not be in what is written."""


class TwoCatalogs(ScriptedParts):
    """Compiles either half of the small catalog, by the folder's name."""

    def compile(self, paths: list[Path]) -> LoadedCatalog:
        """Return the half that the folder names."""
        tools = CATALOG[:4] if paths[0].parent.name == "first" else CATALOG[4:]
        return load(tools)


def write_sets(folder: Path, *, names: tuple[str, ...] = ("first", "second")) -> Path:
    """Write labelled sets of our own: each tool asked for by its own words, and two misses."""
    for name in names:
        place = folder / "eval" / name
        place.mkdir(parents=True)
        (place / "catalog.json").write_text("{}")
        tools = CATALOG[:4] if name == "first" else CATALOG[4:]
        rows = [
            {"query": f"{tool.description} {SECRET} {i}", "tool": tool.name}
            for tool in tools
            for i in range(6)
        ]
        (place / "queries_dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
        misses = [{"query": f"{SECRET} tax return {i}", "tool": None} for i in range(5)]
        (place / "abstain_dev.jsonl").write_text("\n".join(map(json.dumps, misses)))
    return folder


def test_the_file_holds_weights_folds_and_figures_and_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both sets are held out in turn, the weights load, and no word of a row is written."""
    monkeypatch.setattr(command, "load_parts", lambda path: TwoCatalogs())
    out = tmp_path / "weights.json"
    data = write_sets(tmp_path)
    result = CliRunner().invoke(
        command.main, ["--data", str(data), "--out", str(out), "--rows", "20"]
    )
    assert result.exit_code == 0, result.output
    text = out.read_text()
    assert SECRET not in text
    document = json.loads(text)
    assert set(document["folds"]) == set(document["held_out"]) == {"first", "second"}
    assert load_weights(out).retrieval.cosine > 0
    for figures in document["held_out"].values():
        assert figures["rows"] == 20
        assert figures["top1_with_model"] == 1.0
        assert figures["abstain_auroc_labelled"] == 1.0


def test_the_same_data_give_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Byte for byte."""
    monkeypatch.setattr(command, "load_parts", lambda path: TwoCatalogs())
    data = write_sets(tmp_path)
    texts = []
    for name in ("one.json", "two.json"):
        arguments = ["--data", str(data), "--out", str(tmp_path / name), "--rows", "20"]
        assert CliRunner().invoke(command.main, arguments).exit_code == 0
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]


def test_one_set_cannot_be_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A fit that nothing judges is refused."""
    monkeypatch.setattr(command, "load_parts", lambda path: TwoCatalogs())
    data = write_sets(tmp_path, names=("first",))
    result = CliRunner().invoke(command.main, ["--data", str(data), "--out", str(tmp_path / "w")])
    assert result.exit_code == 1
    assert "at least two" in result.output
    assert not (tmp_path / "w").exists()


def test_every_shipped_fold_is_a_set_of_weights():
    """The published accuracy is measured with them."""
    document = json.loads(SHIPPED_WEIGHTS.read_text(encoding="utf-8"))
    assert set(document["folds"]) == set(document["fitted_on"]) == set(document["held_out"])
    for weights in document["folds"].values():
        loaded = ScoringWeights.from_json({"format": WEIGHTS_FORMAT, "weights": weights})
        assert loaded.retrieval.cosine > 0
