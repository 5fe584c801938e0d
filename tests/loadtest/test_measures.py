"""Percentiles, schedules, the comparison of answers, and the reading of statuses."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from loadtest import identity
from loadtest.endings import compared_bits, read_answer, read_error
from loadtest.percentiles import by_outcome, percentiles_of
from loadtest.records import Outcome, Told
from loadtest.schedule import due_times_s
from router.rpc import router_pb2 as pb
from tests.loadtest.making import answered, record, refused

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_percentiles_of_known_values() -> None:
    """1 to 1000 milliseconds: each percentile is known, to three significant digits."""
    found = percentiles_of(n / 1000 for n in range(1, 1001))
    assert found.count == 1000
    for percentile, expected_s in ((50.0, 0.5), (90.0, 0.9), (99.0, 0.99), (100.0, 1.0)):
        assert found.stated_s[percentile] == pytest.approx(expected_s, rel=1e-3)
    assert found.mean_s == pytest.approx(0.5005, rel=1e-3)
    curve = [seconds for _, seconds in found.curve]
    assert curve == sorted(curve)
    assert curve[-1] == pytest.approx(1.0, rel=1e-3)


def test_one_slow_request_stands_out() -> None:
    """The median does not move, the highest percentile does."""
    found = percentiles_of([0.010] * 999 + [60.0])
    assert found.stated_s[99.0] == pytest.approx(0.010, rel=1e-3)
    assert found.stated_s[100.0] == pytest.approx(60.0, rel=1e-3)


@pytest.mark.parametrize("latency_s", [math.nan, math.inf, -0.001, 4000.0])
def test_a_latency_that_can_not_be_is_refused(latency_s: float) -> None:
    """It is not left out of the distribution in silence."""
    with pytest.raises(ValueError, match="latency"):
        percentiles_of([latency_s])


def test_answers_and_refusals_are_apart() -> None:
    """Fast refusals don't flatter the answers; an open request is in neither."""
    records = [record(answered(), 0.0, 2.0), record(refused(), 0.0, 0.001), record(None)]
    found = by_outcome(records)
    assert found[Outcome.ANSWERED].stated_s[50.0] == pytest.approx(2.0, rel=1e-3)
    assert found[Outcome.REFUSED].stated_s[50.0] == pytest.approx(0.001, rel=1e-3)
    assert found[Outcome.FAILED].stated_s == {}
    assert math.isnan(found[Outcome.FAILED].mean_s)


def test_latency_counts_from_when_a_request_was_due() -> None:
    """A request that was sent late has waited all the same."""
    late = record(answered(), 5.0, 5.1)
    late.intended_s = 1.0
    found = by_outcome([late])
    assert found[Outcome.ANSWERED].stated_s[50.0] == pytest.approx(4.1, rel=1e-3)


def test_a_constant_schedule_is_even() -> None:
    """Four a second, from the start."""
    assert due_times_s(5, 4.0, "constant", 0) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_poisson_schedule_repeats_and_has_its_rate() -> None:
    """The same seed, the same times; gaps of the stated mean whose spread is as large."""
    times = due_times_s(20_000, 50.0, "poisson", 7)
    assert times == due_times_s(20_000, 50.0, "poisson", 7)
    assert times != due_times_s(20_000, 50.0, "poisson", 8)
    assert times == sorted(times)
    gaps = [late - early for early, late in itertools.pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(0.02, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(
    ("count", "rate", "arrivals"), [(-1, 1, "constant"), (1, 0, "poisson"), (1, 1, "often")]
)
def test_a_schedule_that_can_not_be_is_refused(count: int, rate: float, arrivals: Any) -> None:
    """Rather than sent at another rate."""
    with pytest.raises(ValueError, match=r"schedule|arrivals"):
        due_times_s(count, rate, arrivals, 0)


def message(probability: float = 0.1, **changed: Any) -> pb.RouteResponse:
    return pb.RouteResponse(
        request_id=changed.get("request_id", "one"),
        tool=pb.Candidate(name="fly_kite", probability=probability, log_score=-1.5),
        candidates=[pb.Candidate(name="fly_kite", probability=probability)],
        none_probability=0.25,
        catalog_digest="a" * 64,
        model_digest="b" * 64,
        usage=pb.Usage(prompt_tokens=changed.get("tokens", 7), passes=changed.get("passes", 1)),
        timings=pb.Timings(total_micros=changed.get("micros", 1)),
    )


def test_what_may_differ_is_not_compared() -> None:
    """The id, the timings and the shared passes; nothing else."""
    same = compared_bits(message(request_id="two", micros=99, passes=3))
    assert same == compared_bits(message())
    assert compared_bits(message(tokens=8)) != same
    assert compared_bits(message(math.nextafter(0.1, 1))) != same


def test_a_changed_bit_is_found_and_named() -> None:
    """The last bit of a double, written out with all of them."""
    alone, loaded = compared_bits(message()), compared_bits(message(math.nextafter(0.1, 1)))
    asked = (0, "a" * 64)
    records = [record(answered(alone)), record(answered(loaded)), record(refused())]
    found = identity.compare(records, {asked: alone})
    assert (found.compared, found.different, found.missing) == (2, 1, 0)
    assert "tool.probability: alone 0x1.999999999999ap-4" in found.examples[0]
    assert "under load 0x1.999999999999bp-4" in found.examples[0]
    assert identity.wanted(records) == [asked]


def test_an_answer_without_a_reference_is_told() -> None:
    """It is not taken for the same: another case, or another catalog, proves nothing."""
    records = [record(answered(b"x", "d1"), case=1), record(answered(b"x", "d2"), case=1)]
    found = identity.compare(records, {(1, "d1"): b"x"})
    assert (found.compared, found.different, found.missing) == (1, 0, 1)


class _Ended(grpc.RpcError):
    """A call's end as both stacks tell it."""

    def __init__(
        self, code: grpc.StatusCode, text: str, trailing: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        super().__init__(text)
        self._told = code, text, trailing

    def code(self) -> grpc.StatusCode:
        return self._told[0]

    def details(self) -> str:
        return self._told[1]

    def trailing_metadata(self) -> Sequence[tuple[str, bytes]]:
        return self._told[2]


def typed(outcome: str, reason: str, domain: str = "pointsman.dev", retry_ms: int = -1) -> _Ended:
    status = status_pb2.Status(code=8, message="words")
    info = error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata={"outcome": outcome})
    packed = any_pb2.Any()
    packed.Pack(info)
    status.details.append(packed)
    if retry_ms >= 0:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(retry_ms)
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        status.details.append(packed)
    raw = status.SerializeToString()
    return _Ended(grpc.StatusCode.RESOURCE_EXHAUSTED, "words", [("grpc-status-details-bin", raw)])


def test_an_answer_is_read_with_the_servers_times() -> None:
    """Fairness is judged by them."""
    reply = message()
    reply.timings.total_micros, reply.timings.queue_micros = 1_500_000, 500_000
    answer = read_answer(reply).answer
    assert answer is not None
    assert (answer.server_total_s, answer.server_queue_s) == (1.5, 0.5)


@pytest.mark.parametrize("outcome", ["refused", "cancelled", "failed"])
def test_the_servers_words_are_read(outcome: str) -> None:
    """Outcome, reason and pause, from the status details alone."""
    end = read_error(typed(outcome, "QUEUE_FULL", retry_ms=250))
    assert (end.outcome, end.told, end.reason) == (outcome, Told.SERVER, "QUEUE_FULL")
    assert end.retry_after_s == 0.25
    assert read_error(typed(outcome, "DRAINING")).retry_after_s is None


@pytest.mark.parametrize(
    "error",
    [
        typed("refused", "QUEUE_FULL", domain="else.where"),
        typed("answered", "QUEUE_FULL"),
        typed("refused", ""),
        _Ended(grpc.StatusCode.INTERNAL, "", [("grpc-status-details-bin", b"\xff\xff")]),
        _Ended(grpc.StatusCode.CANCELLED, ""),
        _Ended(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large"),
    ],
)
def test_anything_else_is_bare(error: _Ended) -> None:
    """A status that is not the server's typed one is never taken for it."""
    end = read_error(error)
    assert (end.outcome, end.told) == (Outcome.FAILED, Told.BARE)
    assert end.reason == f"BARE_{error.code().name}"


def test_what_the_client_saw_by_itself_is_told_apart() -> None:
    """Its own clock, a lost connection, and no connection at all."""
    told = [
        read_error(_Ended(code, text)).told
        for code, text in (
            (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
            (grpc.StatusCode.UNAVAILABLE, "Socket closed"),
            (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: x"),
        )
    ]
    assert told == [Told.DEADLINE, Told.CONNECTION, Told.UNREACHED]
