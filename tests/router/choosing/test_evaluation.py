"""Measures against hand-counted cases, and query files with every kind of bad row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.evaluation import (
    Choice,
    Query,
    auroc,
    bootstrap_mean,
    calibration_error,
    evaluate_method,
    read_queries,
    report_json,
    wilson,
)

if TYPE_CHECKING:
    from pathlib import Path


class Scripted:
    """A method that answers from a table."""

    name = "scripted"

    def __init__(self, answers: dict[str, Choice]) -> None:
        self.answers = answers

    def choose(self, text: str, among: tuple[str, ...] = ()) -> Choice:
        """Look the answer up."""
        choice = self.answers[text]
        if not among:
            return choice
        kept = tuple(tool for tool in choice.tools if tool in among)
        return Choice(kept, choice.none_score, kept[0] if kept else None, choice.probability)


def test_every_measure_of_a_small_case():
    """Five rows counted by hand."""
    method = Scripted(
        {
            "one": Choice(("a", "b"), 0.1, "a", 0.9),
            "two": Choice(("b", "a"), 0.2, "b", 0.6),
            "three": Choice(("b", "c"), 0.3, None, 0.5),
            "four": Choice(("b", "c"), 0.9, None, 0.8),
            "five": Choice(("a",), 0.0, "a", 0.7),
        }
    )
    queries = [
        Query("f", 1, "one", "a", ("a", "b")),
        Query("f", 2, "two", "a", ("a", "c")),
        Query("f", 3, "three", "c"),
        Query("f", 4, "four", None),
        Query("f", 5, "five", "d"),
    ]
    advanced: list[int] = []
    report = evaluate_method(method, queries, lambda: advanced.append(1))
    assert len(advanced) == 5
    assert report.top1 is not None
    assert (report.top1.value, report.top1.rows) == (0.25, 4)
    assert report.top5 is not None
    assert report.top5.value == 0.75
    assert report.mrr is not None
    assert report.mrr.value == pytest.approx((1 + 1 / 2 + 1 / 2 + 0) / 4)
    assert report.top1_offered is not None
    assert (report.top1_offered.value, report.top1_offered.rows) == (1.0, 2)
    assert report.answered_right is not None
    assert (report.answered_right.value, report.answered_right.rows) == (2 / 5, 5)
    assert report.abstain_auroc is not None
    assert report.abstain_auroc.value == 1.0
    confusions = [(c.right, c.answered, c.count) for c in report.confusions]
    assert confusions == [("a", "b", 1), ("c", "b", 1), ("d", "a", 1)]
    assert report.latency_p99_s >= report.latency_p50_s > 0
    document = report_json({"tools": 4}, queries, [], [report])
    assert json.loads(json.dumps(document)) == json.loads(json.dumps(document))
    assert document["rows_where_no_tool_fits"] == 1


def test_measures_without_rows_are_absent():
    """Nothing is reported where nothing was measured."""
    report = evaluate_method(Scripted({"x": Choice((), 0.0, None, None)}), [])
    assert (report.top1, report.mrr, report.top1_offered, report.abstain_auroc) == (None,) * 4
    assert report.calibration_error is None


def test_wilson_is_the_published_interval():
    """Against the textbook's worked case."""
    estimate = wilson(10, 20)
    assert estimate is not None
    assert (estimate.low, estimate.high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
    all_right = wilson(5, 5)
    assert all_right is not None
    assert all_right.high == 1.0
    assert all_right.low > 0.5


@given(st.integers(0, 50), st.integers(1, 50))
def test_an_interval_holds_its_value(hits: int, misses: int):
    """For every count the share lies within its interval, within 0..1."""
    estimate = wilson(hits, hits + misses)
    assert estimate is not None
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


def test_the_bootstrap_is_repeatable_and_covers_the_mean():
    """A fixed seed gives the same interval."""
    values = [0.0, 1.0, 0.5, 1.0] * 20
    first, second = bootstrap_mean(values), bootstrap_mean(values)
    assert first == second
    assert first is not None
    assert first.low < first.value < first.high


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
)
def test_the_area_is_the_share_of_pairs(positive: list[int], negative: list[int]):
    """By brute force over all pairs, ties counting half."""
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    expected = wins / (len(positive) * len(negative))
    assert auroc(positive, negative) == pytest.approx(expected)


def test_calibration_compares_stated_and_found():
    """Perfect statements have no error; overstatements have their excess."""
    assert calibration_error([1.0, 1.0, 0.0], [True, True, False]) == 0
    assert calibration_error([0.95] * 10, [True] * 5 + [False] * 5) == pytest.approx(0.45)


BAD_ROWS = {
    "{": "not JSON",
    "[1]": "not a JSON object",
    '{"tool": "a"}': "query",
    '{"query": "  ", "tool": "a"}': "query",
    '{"query": 3, "tool": "a"}': "query",
    '{"query": "x"}': "tool",
    '{"query": "x", "tool": 4}': "tool",
    '{"query": "x", "tool": "zzz"}': "zzz",
    '{"query": "x", "tool": "a", "offered": "a"}': "offered",
    '{"query": "x", "tool": "a", "offered": ["b"]}': "offered",
    "[" * 5000: "not JSON",
}


def test_bad_rows_are_left_out_and_named_by_line(tmp_path: Path):
    """Good rows around bad ones are used, and each bad one is reported with its line."""
    path = tmp_path / "rows.jsonl"
    rows = ['{"query": "fine", "tool": "a", "offered": ["a", "b", "gone"]}', "", *BAD_ROWS]
    path.write_text("\n".join([*rows, '{"query": "nothing", "tool": null}']), encoding="utf-8")
    queries, problems = read_queries([path], ["a", "b"])
    assert [(q.line, q.tool, q.offered) for q in queries] == [
        (1, "a", ("a", "b")),
        (len(rows) + 1, None, ()),
    ]
    assert [p.line for p in problems] == list(range(3, 3 + len(BAD_ROWS)))
    for problem, word in zip(problems, BAD_ROWS.values(), strict=True):
        assert word in problem.message


def test_a_file_that_is_not_utf8_is_still_read(tmp_path: Path):
    """One bad byte costs nothing but its own character."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"query": "caf\xe9", "tool": "a"}\n')
    queries, problems = read_queries([path], ["a"])
    assert len(queries) == 1
    assert problems == []
