"""The command, the corpus, and what the report shows."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from loadtest import __main__ as command
from loadtest import plots, processes
from loadtest.corpus import OTHER_TOOLS, OWN_TOOLS, CorpusError, read_corpus
from loadtest.identity import Comparison
from loadtest.reconcile import Reconciliation, Row
from loadtest.report import write_report
from loadtest.sampling import Sample
from loadtest.stage import Findings
from loadtest.verdicts import Verdict
from tests.loadtest.making import answered, lost, record, refused

if TYPE_CHECKING:
    from pathlib import Path


def test_the_developments_requests_are_read(shared_data: Path) -> None:
    """They come with their own tools, drawn by the seed."""
    corpus = read_corpus(shared_data, 24, seed=1)
    assert len(set(corpus.texts)) == 24
    assert corpus.texts == read_corpus(shared_data, 24, seed=1).texts
    assert corpus.texts != read_corpus(shared_data, 24, seed=2).texts
    assert corpus.catalog.is_file()
    assert corpus.other == OTHER_TOOLS


def test_without_that_data_our_own_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is named and absent, that is an error; where it is only missing, it is not."""
    monkeypatch.setenv("POINTSMAN_SHARED_DATA", str(tmp_path))
    corpus = read_corpus(None, 64, seed=0)
    assert len(corpus.texts) > 20
    assert corpus.catalog == OWN_TOOLS
    assert "own" in corpus.origin
    with pytest.raises(CorpusError, match=re.escape(str(tmp_path))):
        read_corpus(tmp_path, 64, seed=0)


def test_damaged_requests_are_an_error(tmp_path: Path) -> None:
    """The file is named."""
    folder = tmp_path / "eval" / "bfcl_union"
    folder.mkdir(parents=True)
    for content in ("{", '{"other": 1}', "[]", ""):
        (folder / "queries_dev.jsonl").write_text(content, encoding="utf-8")
        with pytest.raises(CorpusError):
            read_corpus(tmp_path, 4, seed=0)


def test_our_own_tools_are_two_different_catalogs() -> None:
    """Else a swap would be none."""
    names = [
        {tool["name"] for tool in json.loads(path.read_text(encoding="utf-8"))["tools"]}
        for path in (OWN_TOOLS, OTHER_TOOLS)
    ]
    assert len(names[0]) > 10
    assert names[0] != names[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "'nothing' is not one of"),
        (["drain", "--mode", "open"], "belong to contract"),
        (["contract", "--requests", "0"], "0 is not in the range"),
        (["contract", "--address", "x:1", "--catalog", __file__], "exclude each other"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], says: str) -> None:
    """With exit code 2, before anything is started."""
    result = CliRunner().invoke(command.main, arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_no_server_is_told(tmp_path: Path) -> None:
    """With exit code 3: nothing was judged."""
    arguments = ["contract", "--address", "127.0.0.1:1", "--out", str(tmp_path)]
    result = CliRunner().invoke(command.main, arguments)
    assert result.exit_code == 3
    assert "loadtest contract:" in result.output
    assert not list(tmp_path.iterdir())


def test_children_and_memory_are_seen() -> None:
    """Of this very process; a process that is not there has neither."""
    resident = processes.resident_bytes(os.getpid())
    assert resident is not None
    assert resident > 1 << 20
    assert any("pytest" in part for part in processes.command_line(os.getpid()))
    assert os.getpid() in processes.children(os.getppid())
    gone = 2**22 + 1
    assert processes.resident_bytes(gone) is None
    assert processes.command_line(gone) == ()
    assert processes.children(gone) == []


class _Page(HTMLParser):
    """Collects the page's text and checks that its tags close."""

    VOID = frozenset({"meta", "rect", "line", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.drawn: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.drawn.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.drawn.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def findings(*verdicts: Verdict) -> Findings:
    row = Row("answered", 2, 1, 0)
    return Findings(
        scenario="contract",
        sizes={"requests": 3},
        records=[
            record(answered(), 0.0, 0.5),
            record(refused(), 0.1, 0.2),
            record(lost(), 0.3, 0.9),
        ],
        verdicts=list(verdicts),
        reconciliation=Reconciliation((row,), {"a lost connection": 1}, 0, ("something is off",)),
        comparison=Comparison(1, 0, 0, ()),
        samples=[Sample(0.1, 1, 2, True, 7, 50 << 20, 90 << 20), Sample(0.5)],
        marks=[(0.4, "kill")],
        notes=["a note"],
    )


def test_a_failed_verdict_fails_the_run_and_is_shown(tmp_path: Path) -> None:
    """In the page and in the JSON, with the ledger's row that does not hold."""
    found = findings(Verdict("one", passed=True, evidence="x"), Verdict("two", False, "<y>"))
    page = _Page()
    page.feed(write_report(found, tmp_path, {"seed": "0"}).read_text(encoding="utf-8"))
    assert page.open == []
    text = " ".join(page.words)
    for words in ("two", "<y>", "FAIL", "something is off", "1 told by a lost connection"):
        assert words in text
    for words in ("failed CONNECTION_LOST", "refused QUEUE_FULL", "a note", "kill", "MiB"):
        assert words in text
    assert page.drawn.count("svg") == 7
    document = json.loads((tmp_path / "contract.json").read_text(encoding="utf-8"))
    assert document["passed"] is False
    assert document["reconciliation"]["rows"][0]["holds"] is False
    assert document["outcomes"] == {"answered": 1, "refused": 1, "cancelled": 0, "failed": 1}


def test_axes_have_round_ticks() -> None:
    """Also where there is nothing to show."""
    assert [words for _, words in plots.linear_axis("x", 0, 10).ticks] == [*"02468", "10"]
    assert plots.linear_axis("x", 3, 3).high == 4
    assert plots.nines(99.9) == pytest.approx(3.0)
    assert plots.percentile_axis(0.0).ticks == ((0.0, "0%"),)
