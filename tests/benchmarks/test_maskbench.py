"""The judging of schemas with instances: rules, sums, and rows that cost a process its life."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.maskbench import figures
from benchmarks.maskbench.crew import Worker
from benchmarks.maskbench.judge import judge
from benchmarks.maskbench.rows import Row, peer_texts, read_rows, read_suite
from benchmarks.maskbench.run import chosen_peers, chosen_rows
from benchmarks.maskbench.systems import PEERS, RefusedSchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ScriptedWalk:
    """Accepts exactly some texts; a token is a code point."""

    def __init__(self, accepted: Sequence[str]) -> None:
        self._accepted, self._text, self._next = accepted, "", set[str]()

    def mask(self) -> None:
        """See `Walk`."""
        place = len(self._text)
        self._next = {
            text[place] for text in self._accepted if text[: place + 1][:-1] == self._text != text
        }

    def allows(self, token: int) -> bool:
        """See `Walk`."""
        return chr(token) in self._next

    def advance(self, token: int) -> None:
        """See `Walk`."""
        assert self.allows(token)
        self._text += chr(token)

    def complete(self) -> bool:
        """See `Walk`."""
        return self._text in self._accepted


class Scripted:
    """A system whose schemas say what is accepted, and what becomes of the check."""

    how = "scripted"
    checked_after = False

    def compile(self, schema: Any) -> Scripted:
        """See `System`."""
        if "refuse" in schema:
            raise RefusedSchemaError(schema["refuse"], "as it was told")
        self._schema = schema
        self.checked_after = "check" in schema
        return self

    def texts(self, value: Any) -> list[str]:
        """See `Compiled`: a value is its own list of spellings."""
        return list(value)

    def walk(self) -> ScriptedWalk:
        """See `Compiled`."""
        return ScriptedWalk(self._schema["accept"])

    def check(self, value: Any) -> bool:
        """See `Compiled`."""
        return value[0] in self._schema["check"]


def judged(schema: Any, *tests: tuple[bool, list[str]]) -> dict[str, Any]:
    """Judge a scripted schema; an instance is (valid, its spellings)."""
    rows = [{"valid": valid, "data": texts} for valid, texts in tests]
    return judge(Scripted(), schema, rows, lambda text: [ord(c) for c in text])


def test_one_accepted_spelling_is_enough_for_a_valid_and_too_much_for_an_invalid_instance() -> None:
    """The rule, for both kinds; a text that only begins like an accepted one is refused."""
    verdict = judged(
        {"accept": ["abc", "b"]},
        (True, ["x", "abc"]), (True, ["ab", "x"]), (False, ["x", "b"]), (False, ["ab", "abcd"]),
    )  # fmt: skip
    assert verdict["outcome"] == "exact"
    assert verdict["valid_refused"] == [1]
    assert verdict["invalid_accepted"] == [2]


def test_look_ups_are_those_of_the_accepted_spelling_or_of_the_first() -> None:
    """Three of abc, two of ab: what was merely tried beside counts nowhere."""
    verdict = judged({"accept": ["abc"]}, (True, ["aXX", "abc"]), (False, ["abX", "ab"]))
    assert len(verdict["lookup_ns"]) == 3 + 2


def test_the_check_after_decoding_counts_and_the_machine_alone_is_told_beside() -> None:
    """It takes back what the machine accepted wrongly, and can itself refuse a valid instance."""
    verdict = judged(
        {"accept": ["a", "b", "c"], "check": ["a"]},
        (True, ["a"]), (True, ["b"]), (False, ["c"]), (False, ["x"]), (True, ["y"]),
    )  # fmt: skip
    assert verdict["outcome"] == "checked"
    assert verdict["machine_valid_refused"] == [4]
    assert verdict["machine_invalid_accepted"] == [2]
    assert verdict["valid_refused"] == [1, 4]
    assert verdict["invalid_accepted"] == []


def test_refusals_have_their_code_and_exceptions_are_failures() -> None:
    """A row's exception ends neither the run nor goes unsaid."""
    refused = judged({"refuse": "too-large"})
    assert (refused["outcome"], refused["code"]) == ("refused", "too-large")
    failed = judged({"nothing": 1}, (True, ["a"]))
    assert (failed["outcome"], failed["code"]) == ("failed", "KeyError")


def row(name: str, of: str, *valid: bool) -> Row:
    return Row(name, of, {}, tuple({"valid": each, "data": None} for each in valid))


def verdict(outcome: str = "exact", **changes: Any) -> dict[str, Any]:
    kinds = ("valid_refused", "invalid_accepted")
    wrong: dict[str, Any] = {f"{part}{kind}": [] for part in ("", "machine_") for kind in kinds}
    return {"outcome": outcome, "code": "", "message": "", "compile_ns": 2_000_000,
            "lookup_ns": [1000], **wrong, **changes}  # fmt: skip


def test_sums_by_set_and_in_all() -> None:
    """Every row is counted once, in its set and in all; ids name those that went wrong."""
    found = figures.summed([
        (row("1", "A", True, False), verdict(lookup_ns=[1000, 3000])),
        (row("2", "A", True, True), verdict("checked", valid_refused=[0, 1], compile_ns=4_000_000)),
        (row("3", "A", True), verdict("refused", code="not")),
        (row("4", "B", False), verdict(invalid_accepted=[0], machine_invalid_accepted=[0])),
        (row("5", "B", False), {"outcome": "failed", "code": "timeout", "message": "late"}),
    ])  # fmt: skip
    one, every = found["sets"]["A"], found["all"]
    assert list(found["sets"]) == ["A", "B"]
    assert (one["rows"], one["compiled"], one["refused"], one["errors"]) == (3, 2, 1, 0)
    assert (one["compiled_exact"], one["compiled_checked_after"]) == (1, 1)
    assert one["tests_of_compiled"] == {"valid": 3, "invalid": 1}
    assert (one["valid_refused"], one["machine_alone"]["valid_refused"]) == (2, 0)
    assert one["lookup_us"] == {"p50": 1.0, "p90": 3.0, "p99": 3.0, "max": 3.0}
    assert one["compile_ms"] == {"p50": 2.0, "p90": 4.0, "p99": 4.0, "max": 4.0}
    assert (every["rows"], every["tests"], every["compiled"]) == (5, 7, 3)
    assert (every["refusals"], every["error_kinds"]) == ({"not": 1}, {"timeout": 1})
    assert every["error_messages"] == ["5: timeout: late"]
    assert every["machine_alone"]["invalid_accepted"] == every["invalid_accepted"] == 1
    assert every["ids"] == {"errors": ["5"], "valid_refused": ["2"], "invalid_accepted": ["4"]}


def test_the_table_shows_every_set_and_what_the_check_took_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A set without a compiled row has no times, and the print bears it."""
    found = figures.summed([
        (row("1", "A", True, False), verdict("checked", machine_invalid_accepted=[1])),
        (row("2", "B"), {"outcome": "refused", "code": "no-way", "message": "", "compile_ns": 7}),
    ])  # fmt: skip
    figures.report("ours", "how", found)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["A", "B", "all"]
    assert "0/1 (1)" in lines[3]
    assert "- - - -" in lines[4]
    assert lines[6].strip() == "refused: no-way 1"


def test_a_peer_is_asked_in_the_given_order_and_in_the_schemas() -> None:
    """Through references and unions, whichever option comes first."""
    schema = {
        "$ref": "#/$defs/a~1b",
        "$defs": {"a/b": {"properties": {"z": {"items": {"properties": {"q": {}, "p": {}}}}}}},
        "anyOf": [{"properties": {"y": {}, "x": {}}}, {"properties": {"x": {}, "y": {}}}],
    }
    texts = peer_texts(schema, {"x": 1, "y": 2.0, "z": [{"p": 1, "q": 2}], "free": 0})
    assert texts[0] == '{"x": 1, "y": 2, "z": [{"p": 1, "q": 2}], "free": 0}'
    assert '{"z": [{"q": 2, "p": 1}], "y": 2, "x": 1, "free": 0}' in texts
    assert '{"z": [{"q": 2, "p": 1}], "x": 1, "y": 2, "free": 0}' in texts
    assert '{"z": [{"q": 2, "p": 1}], "x": 1, "y": 2.0, "free": 0}' in texts


def test_a_recursive_schema_orders_a_peers_texts() -> None:
    """A reference to itself ends with the value."""
    schema = {"properties": {"b": {"$ref": "#"}, "a": {}}, "allOf": [{"$ref": "#"}]}
    assert '{"b": {"b": {}, "a": 1}, "a": 2}' in peer_texts(
        schema, {"a": 2, "b": {"a": 1, "b": {}}}
    )


def test_rows_and_suite_are_read_and_what_is_neither_says_where(tmp_path: Path) -> None:
    """A damaged file is no shorter run."""
    test = {"valid": True, "data": 1, "description": "x"}
    raw = {"id": "i", "set": "S", "schema": True, "tests": [test]}
    rows, suite = tmp_path / "rows.jsonl", tmp_path / "suite.json"
    rows.write_text(json.dumps(raw) + "\n")
    assert read_rows(rows) == [Row("i", "S", True, ({"valid": True, "data": 1},))]
    rows.write_text(json.dumps(raw) + "\n{}\n")
    with pytest.raises(ValueError, match="line 2 is no row"):
        read_rows(rows)
    suite.write_text(json.dumps({"not": [{"description": "d", "schema": {}, "tests": [test]}]}))
    assert read_suite(suite) == [Row("not/0: d", "not", {}, ({"valid": True, "data": 1},))]
    suite.write_text("[]")
    with pytest.raises(ValueError, match="is not the test suite"):
        read_suite(suite)


ANSWERING = """
import json, os, sys, time
print(json.dumps({"ready": "as a script"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)["schema"]
    if asked == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if asked == "half":
        sys.stdout.write('{"outcome": "ex'); sys.stdout.flush()
        os._exit(0)
    while asked == "hang":
        time.sleep(1)
    print(json.dumps({"outcome": "exact", "pid": os.getpid()}), flush=True)
"""


def test_a_row_that_kills_or_holds_the_process_is_its_own_failure_alone() -> None:
    """The rows before and after are answered, by a new process where the old one is gone."""
    worker = Worker([sys.executable, "-c", ANSWERING], row_seconds=0.3)
    try:
        outcomes = []
        for asked in ("", "die", "", "half", "", "hang", ""):
            worker._row_seconds = 0.3 if asked == "hang" else 60
            outcomes.append(worker.judge(Row("i", "S", asked, ())))
    finally:
        worker.close()
    assert [each.get("code") for each in outcomes[1::2]] == ["crash", "crash", "timeout"]
    assert "last words" in outcomes[1]["message"]
    assert len({each["pid"] for each in outcomes[::2]}) == 4


def test_a_process_that_does_not_start_says_why() -> None:
    """At once, with what it printed last."""
    with pytest.raises(RuntimeError, match="no such system"):
        Worker([sys.executable, "-c", "raise SystemExit('no such system')"], 1)


class Stopped(Exception):  # noqa: N818 (stands in for the parser's exit)
    """What a parser's error comes to here."""


class Parser:
    """Stands in for argparse: an error is raised."""

    def error(self, message: str) -> None:
        """See `argparse.ArgumentParser`."""
        raise Stopped(message)


def test_sets_limits_and_peers_are_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not there is said; a peer that isn't installed is left out, and said to be."""
    parser: Any = Parser()
    rows = [row("1", "A"), row("2", "A"), row("3", "B")]
    assert [each.id for each in chosen_rows(parser, rows, None, 1)] == ["1", "3"]
    assert [each.id for each in chosen_rows(parser, rows, ["A"], None)] == ["1", "2"]
    with pytest.raises(Stopped, match="--set is 'C'; there are A, B"):
        chosen_rows(parser, rows, ["C"], None)
    with pytest.raises(Stopped, match="--limit is 0"):
        chosen_rows(parser, rows, None, 0)
    with pytest.raises(Stopped, match="names 'nobody'"):
        chosen_peers(parser, "nobody")
    monkeypatch.setitem(PEERS, "absent", ("no_such_module_anywhere", PEERS["xgrammar"][1]))
    monkeypatch.setitem(PEERS, "present", ("json", PEERS["xgrammar"][1]))
    assert chosen_peers(parser, "absent,present") == ["present"]
    assert "absent is left out: no_such_module_anywhere" in capsys.readouterr().out
