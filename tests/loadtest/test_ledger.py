"""The client's ledger, and its comparison with the server's counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtest.reconcile import Counters, Reconciliation, reconcile
from loadtest.records import Answer, ClientLedger, Ending, LedgerError, Outcome, Record, Told
from loadtest.transfer import from_line, to_line
from tests.loadtest.making import (
    answered,
    bare,
    failed,
    lost,
    no_server,
    own_deadline,
    record,
    refused,
)

BEFORE = Counters(offered=10, answered=8, refused=2, reasons={"QUEUE_FULL": 2})
AFTER = Counters(
    offered=16, answered=11, refused=4, failed=1, reasons={"QUEUE_FULL": 4, "ENGINE_DOWN": 1}
)
ENDS = [answered(), answered(), answered(), refused(), refused(), failed()]


def against(after: Counters, *more: Ending | None) -> Reconciliation:
    ledger = ClientLedger(record(end) for end in [*ENDS, *more])
    return reconcile(ledger.tally(), BEFORE, after)


def test_a_request_ends_once() -> None:
    """A second end is a fault of the load test, and is told as one."""
    ledger = ClientLedger()
    begun = ledger.begin("c", 0, now_s=1.0, timeout_s=5.0, intended_s=0.5)
    assert ledger.tally().unresolved == 1
    ledger.end(begun, answered(), now_s=2.0)
    assert (ledger.tally().unresolved, begun.latency_s) == (0, 1.5)
    with pytest.raises(LedgerError, match="answered and again as refused"):
        ledger.end(begun, refused(), now_s=3.0)


def test_ids_are_new_for_each_request() -> None:
    """A repeat would get the recorded answer, and prove nothing."""
    ledger = ClientLedger()
    for _ in range(100):
        ledger.begin("c", 0, now_s=0.0, timeout_s=1.0)
    assert len({r.request_id for r in ledger.records}) == 100


def test_an_answer_is_an_answer() -> None:
    """No end both has an answer and is none."""
    with pytest.raises(LedgerError):
        Ending(Outcome.ANSWERED, Told.SERVER)
    with pytest.raises(LedgerError):
        Ending(Outcome.REFUSED, Told.SERVER, answer=Answer(b"", "", 0, 0))


def test_ledgers_that_agree() -> None:
    """Every row differs by nothing."""
    found = against(AFTER)
    assert found.holds
    assert [row.difference for row in found.rows] == [0] * 7
    assert [row.name for row in found.rows][-2:] == ["reason ENGINE_DOWN", "reason QUEUE_FULL"]


@pytest.mark.parametrize("name", ["offered", "answered", "refused", "cancelled", "failed"])
@pytest.mark.parametrize("by", [1, -1])
def test_a_counter_off_by_one_is_found(name: str, by: int) -> None:
    """In either direction, in any counter."""
    assert not against(replace(AFTER, **{name: getattr(AFTER, name) + by})).holds


@pytest.mark.parametrize("reason", ["QUEUE_FULL", "ENGINE_DOWN", "INVALID"])
def test_a_reason_off_by_one_is_found(reason: str) -> None:
    """Also one that no client saw."""
    assert AFTER.reasons is not None
    reasons = {**AFTER.reasons, reason: AFTER.reasons.get(reason, 0) + 1}
    assert not against(replace(AFTER, reasons=reasons)).holds


def test_an_outcome_taken_for_another_is_found() -> None:
    """The sums agree and the rows do not."""
    assert not against(replace(AFTER, answered=10, refused=5)).holds


def test_a_request_without_an_end_is_found() -> None:
    """Whatever the server says of it."""
    assert not against(AFTER, None).holds
    found = against(replace(AFTER, offered=17, answered=12), None)
    assert "1 requests have no end" in found.faults


def test_repeats_and_open_requests_are_found() -> None:
    """Ids are new, and both sums are taken at rest."""
    assert not against(replace(AFTER, repeated=1)).holds
    assert not against(replace(AFTER, open=1)).holds


@pytest.mark.parametrize("unknown", [own_deadline(), lost(), bare()])
def test_unknown_ends_widen_the_rows_by_their_number(unknown: Ending) -> None:
    """The server may have counted such a request once, in any way, or never; not twice."""
    assert against(AFTER, unknown).holds
    assert against(replace(AFTER, offered=17, answered=12), unknown).holds
    assert AFTER.reasons is not None
    expired = replace(AFTER, offered=17, cancelled=1, reasons={**AFTER.reasons, "EXPIRED": 1})
    found = against(expired, unknown)
    assert found.holds
    assert found.uncertain == {unknown.told.value: 1}
    assert not against(replace(AFTER, offered=18, answered=13), unknown).holds
    assert not against(replace(AFTER, offered=17, answered=12, failed=2), unknown).holds
    assert not against(replace(AFTER, answered=10), unknown).holds
    two = {**AFTER.reasons, "EXPIRED": 1, "INTERNAL": 1}
    assert not against(replace(expired, reasons=two), unknown).holds


def test_a_request_that_reached_nobody_widens_nothing() -> None:
    """It was never sent, so the server can't have counted it."""
    assert against(AFTER, no_server()).holds
    assert not against(replace(AFTER, offered=17, answered=12), no_server()).holds
    assert against(AFTER, no_server()).unreached == 1


def test_last_words_tell_what_is_left_open() -> None:
    """The log's event has no reasons: those rows are left out, not made up."""
    words = {"event": "stopped", "offered": 17, "answered": 11, "refused": 4}
    last = Counters.from_last_words({**words, "cancelled": 0, "failed": 1})
    assert (last.open, last.reasons) == (1, None)
    assert not against(last).holds
    closed = Counters.from_last_words({**words, "offered": 16, "cancelled": 0, "failed": 1})
    assert [row.name for row in against(closed).rows][-1] == "failed"
    assert against(closed).holds


@pytest.mark.parametrize("end", [answered(b"\x00\xff", total_s=0.1), refused(), lost(), None])
def test_a_record_crosses_a_file_whole(end: Ending | None) -> None:
    """What another process offered is audited like our own."""
    made = record(end, 1.25, 7.5, client="locust-3", case=4)
    read = from_line(to_line(made))
    assert (read.ending, read.request_id, read.client) == (end, made.request_id, "locust-3")
    assert (read.sent_s, read.case, read.timeout_s) == (1.25, 4, 10.0)
    assert (read.ended_s == 7.5) is (end is not None)
    assert isinstance(read, Record)
