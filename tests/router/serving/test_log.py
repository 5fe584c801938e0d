"""The two forms of a log line, and which is chosen."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from router.service import log


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


def written(monkeypatch: pytest.MonkeyPatch, form: str, stream: io.StringIO) -> str:
    """Log two events in a form; return what was written."""
    monkeypatch.setattr(sys, "stderr", stream)
    log.set_up("info", form)
    log.event("ready", address="127.0.0.1:1", tools=3, reason=None, findings={"error": 0})
    log.event("hidden", level=logging.DEBUG)
    return stream.getvalue()


def test_auto_is_text_on_a_terminal_and_json_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """People get text, machines JSON; both are had by name wherever the lines go."""
    for form, stream, is_json in (
        ("auto", Terminal(), False),
        ("auto", io.StringIO(), True),
        ("json", Terminal(), True),
        ("text", io.StringIO(), False),
    ):
        assert written(monkeypatch, form, stream).startswith("{") is is_json, form
    with pytest.raises(ValueError, match="none of auto, json, text"):
        log.set_up("info", "xml")


def test_both_forms_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Event and fields; a field without a value is left out of the text."""
    document = json.loads(written(monkeypatch, "json", io.StringIO()))
    assert (document["event"], document["tools"], document["reason"]) == ("ready", 3, None)
    line = written(monkeypatch, "text", io.StringIO())
    time, level, event, *fields = line.split()
    assert (len(time), level, event) == (12, "info", "ready")
    assert " ".join(fields) == 'address=127.0.0.1:1 tools=3 findings={"error": 0}'


def test_no_field_acts_on_a_terminal_or_makes_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Escapes, line ends, empty texts and what turns text round are spelt out, on one line."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    log.set_up("info", "text")
    log.event("compiling", file="a\x1b[2J\nb\u202ec", empty="", name="x y", other="münchen")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith(
        'file="a\\u001b[2J\\nb\\u202ec" empty="" name="x y" other=münchen\n'
    )


def test_a_fault_has_its_traceback_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of a fault is what a log is read for."""
    for form in ("text", "json"):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        log.set_up("info", form)
        try:
            raise ValueError("odd")  # noqa: TRY301
        except ValueError as error:
            log.fault("fault", error, request_id="i")
        assert "ValueError: odd" in stream.getvalue()
        assert "Traceback" in stream.getvalue()
