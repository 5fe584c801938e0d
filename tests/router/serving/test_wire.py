"""Messages between service and engine: nothing is lost, and what is no message is refused."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.arguments.values import (
    MAX_ARGUMENT_TOKENS,
    ArgumentOutcome,
    Arguments,
    ArgumentWish,
    MissingPolicy,
)
from router.engine import wire
from router.engine.errors import WireError
from router.engine.facts import Answer
from router.jobs import AllowRule, Candidate, RankedTools, RouteJob, RouteTimings, RouteUsage

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.floats(allow_nan=False)


@given(
    text=TEXT.filter(str.strip),
    previous=TEXT,
    names=st.lists(TEXT).map(tuple),
    rule=st.booleans(),
    k=st.integers(1, 100),
    wish=st.none() | st.builds(ArgumentWish, max_tokens=st.integers(1, MAX_ARGUMENT_TOKENS)),
)
def test_jobs_come_out_as_they_went_in(
    text: str,
    previous: str,
    names: tuple[str, ...],
    rule: bool,
    k: int,
    wish: ArgumentWish | None,
) -> None:
    """Any text, with or without a rule and a wish for arguments."""
    allowed = AllowRule(names, (), names) if rule else None
    job = RouteJob("i", "d", text, previous, allowed, k, arguments=wish)
    frame = wire.encode({"op": "route", "id": 1, "job": wire.job_to_wire(job)})
    message = wire.read_message(io.BytesIO(frame))
    assert message is not None
    back = wire.job_from_wire(message["job"])
    assert back == job
    assert back.arguments is None or isinstance(back.arguments.missing, MissingPolicy)


def arguments_of(text: str, tokens: int, logprob: float) -> st.SearchStrategy[Arguments]:
    """Arguments of every outcome."""
    none = {"code": "c", "reason": "r", "tokens": tokens}
    given_out = {"json": text + "{}", "tokens": tokens, "logprob": logprob}
    return st.sampled_from(
        [
            Arguments(ArgumentOutcome.DECODED, **given_out),
            Arguments(ArgumentOutcome.MISSING, missing=("/a", f"/{text}"), **given_out),
            Arguments(ArgumentOutcome.UNAVAILABLE, **none),
            Arguments(ArgumentOutcome.INVALID, **none),
            Arguments(ArgumentOutcome.OVER_BUDGET, **none),
        ]
    )


@given(
    probability=NUMBER,
    score=NUMBER,
    name=st.one_of(st.none(), TEXT),
    tokens=st.integers(0),
    data=st.data(),
)
def test_answers_keep_every_bit(
    probability: float, score: float, name: str | None, tokens: int, data: st.DataObject
) -> None:
    """Floats included, infinities too; arguments of every outcome."""
    arguments = data.draw(st.none() | arguments_of(name or "", tokens, score))
    index = None if name is None else 3
    ranked = RankedTools(
        "i",
        "d",
        (Candidate(index, name, probability, score),),
        probability,
        RouteUsage(1, 2, 3, 4, 5, 6),
        RouteTimings(probability, score, 0.0),
        arguments,
    )
    answer = Answer(ranked, tokens, score)
    frame = wire.encode({"op": "answer", "answer": wire.answer_to_wire(answer)})
    message = wire.read_message(io.BytesIO(frame))
    assert message is not None
    assert repr(wire.answer_from_wire(message["answer"])) == repr(answer)


@pytest.mark.parametrize(
    "stream",
    [
        b"\x00\x00",
        b"\x00\x00\x00\x05{}",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x01\xff",
        b'\x00\x00\x00\x08{"op":1}',
    ],
)
def test_what_is_no_message_is_refused(stream: bytes) -> None:
    """Short, too long, no JSON, no op."""
    with pytest.raises(WireError):
        wire.read_message(io.BytesIO(stream))


def test_the_end_of_a_stream_is_no_error() -> None:
    """Nothing more comes."""
    assert wire.read_message(io.BytesIO()) is None


def test_the_engine_imports_no_grpc() -> None:
    """Neither the engine's own process nor what spawns it."""
    code = (
        "import sys, router.engine.process, router.engine.supervisor, router.engine.compiler, "
        "router.cli.serve; print([m for m in sys.modules if m.split('.')[0] == 'grpc'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_imports_no_subcommand() -> None:
    """`pointsman --help` is at once: neither gRPC nor torch nor NumPy."""
    code = (
        "import sys\nfrom router.cli.main import pointsman\n"
        "pointsman(['--help'], standalone_mode=False)\n"
        "print([m for m in ('grpc', 'torch', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name in ("catalog", "serve", "route", "stats", "eval"):
        assert f"  {name} " in done.stdout


def test_log_lines_are_json_whatever_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """Line breaks and quotes stay inside the line; faults have their traceback."""
    from router.service import log  # noqa: PLC0415

    log.set_up("info")
    log.event("one", text='a\n"b"', kind=dataclasses.field)
    log.fault("two", RuntimeError("broken\nthing"))
    lines = capsys.readouterr().err.splitlines()
    first, second = map(json.loads, lines)
    assert (first["event"], first["text"]) == ("one", 'a\n"b"')
    assert "broken" in second["traceback"]
