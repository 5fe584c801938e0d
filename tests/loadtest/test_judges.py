"""Each judgement on a run that keeps the contract, and on runs that break it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from loadtest import verdicts
from loadtest.fairness import Stay, count_turns, judge_fairness
from loadtest.identity import Comparison
from loadtest.judges import (
    Activation,
    Kill,
    cut_off,
    judge_agents,
    judge_chaos,
    judge_cut_off,
    judge_drain,
    judge_memory,
    judge_swap,
    slope_a_minute,
)
from loadtest.reconcile import Counters
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

if TYPE_CHECKING:
    from loadtest.records import Record
    from loadtest.verdicts import Verdict


def broken(judged: list[Verdict]) -> list[str]:
    return [verdict.name for verdict in judged if not verdict.passed]


def test_every_request_must_have_an_end() -> None:
    """One that is open, one whose id was used twice, and none at all: all fail."""
    ended = [record(answered()), record(refused())]
    assert verdicts.judge_resolved(ended).passed
    assert not verdicts.judge_resolved([*ended, record(None)]).passed
    assert not verdicts.judge_resolved([*ended, replace(ended[0])]).passed
    assert not verdicts.judge_resolved([]).passed


def test_answers_must_be_the_same() -> None:
    """A difference, a missing reference, or nothing compared: all fail."""
    assert verdicts.judge_identical(Comparison(9, 0, 0, ())).passed
    assert not verdicts.judge_identical(Comparison(9, 1, 0, ("case 3",))).passed
    assert not verdicts.judge_identical(Comparison(9, 0, 1, ())).passed
    assert not verdicts.judge_identical(Comparison(0, 0, 0, ())).passed


def test_ends_must_come_in_time() -> None:
    """An end over the deadline and its slack is late; one without a time is no end in time."""
    assert verdicts.judge_in_time([record(own_deadline(), 0.0, 10.5)]).passed
    assert not verdicts.judge_in_time([record(own_deadline(), 0.0, 11.5)]).passed
    assert not verdicts.judge_in_time([record(answered(), 0.0, math.nan)]).passed


def test_refusals_must_be_typed_and_say_when_to_come_back() -> None:
    """A bare status fails the one, a full queue without a pause the other."""
    assert verdicts.judge_typed([record(refused()), record(lost())]).passed
    found = verdicts.judge_typed([record(bare("RESOURCE_EXHAUSTED"))])
    assert not found.passed
    assert "BARE_RESOURCE_EXHAUSTED: nothing said" in found.evidence
    assert verdicts.judge_pushback([record(refused())]).passed
    assert not verdicts.judge_pushback([record(refused(retry_after_s=None))]).passed


def test_ends_need_a_cause() -> None:
    """Another reason, a failure, a cancellation, or no answer at all: all fail."""

    def judge(*records: Record) -> bool:
        return verdicts.judge_ends([*records], refusals=verdicts.SATURATED).passed

    one = record(answered())
    assert judge(one, record(refused()))
    assert not judge(one, record(refused("INVALID")))
    assert not judge(one, record(failed("INTERNAL")))
    assert not judge(one, record(own_deadline()))
    assert not judge(record(refused()))


LAST = Counters(answered=2, open=0)
DRAINED = [
    record(answered(), 0.0, 1.0),
    record(answered(), 1.9, 2.5),
    record(refused("DRAINING", None), 2.1, 2.2),
    record(no_server(), 3.0, 3.1),
]


def drained(records: list[Record], last: Counters = LAST, code: int = 0) -> list[str]:
    judged = judge_drain(records, last, signalled_s=2.0, exit_code=code, open_at_signal=1)
    return broken(judged)


def test_a_drain_in_order() -> None:
    """Admitted ones answered, late ones turned away, exit code 0."""
    assert not drained(DRAINED)


@pytest.mark.parametrize(
    "last",
    [
        replace(LAST, answered=3),
        replace(LAST, failed=1),
        replace(LAST, cancelled=1),
        replace(LAST, open=1),
    ],
)
def test_an_admitted_request_left_behind_is_found(last: Counters) -> None:
    """An answer that never arrived, a failure, a cancellation, one still open at the exit."""
    assert drained(DRAINED, last) == ["every admitted request was answered, and its answer arrived"]


def test_other_faults_of_a_drain_are_found() -> None:
    """The exit code; an early signal; a late end of another kind; nobody turned away."""
    assert drained(DRAINED, code=3) == ["exit code 0"]
    idle = judge_drain(DRAINED, LAST, signalled_s=2.0, exit_code=0, open_at_signal=0)
    assert broken(idle) == ["the signal came in the middle of load"]
    late = "late requests are turned away as DRAINING, or find no server"
    assert drained([*DRAINED, record(failed("INTERNAL"), 1.0, 2.5)]) == [late]
    assert drained([*DRAINED, record(bare(), 1.0, 2.5)]) == [late]
    assert drained(DRAINED[:2]) == [late]


def test_only_late_calls_are_excused_at_the_exit() -> None:
    """The library's own status excuses no call sent before the signal, and not any number."""
    early, after = record(bare(), 1.0, 2.5), record(bare(), 2.1, 2.5)
    assert cut_off([early, after], 2.0) == [after]
    assert judge_cut_off([after], 2.0, most=1).passed
    assert not judge_cut_off([after, after], 2.0, most=1).passed
    assert not drained([*DRAINED, after])


SWAPS = [
    Activation("a", -math.inf, -math.inf),
    Activation("b", 10.0, 11.0),
    Activation("a", 20.0, 21.0),
]


@pytest.mark.parametrize(
    ("digest", "sent_s", "ended_s", "passes"),
    [
        ("a", 1.0, 2.0, True),
        ("a", 10.9, 12.0, True),  # admitted before the activation was confirmed
        ("a", 11.1, 12.0, False),
        ("b", 1.0, 9.9, False),
        ("b", 1.0, 10.1, True),  # may have been admitted as it went live
        ("b", 21.1, 22.0, False),
        ("a", 11.1, 20.1, True),
        ("c", 1.0, 2.0, False),
    ],
)
def test_an_answer_names_a_catalog_of_its_time(
    digest: str, sent_s: float, ended_s: float, passes: bool
) -> None:
    """Active at some time between its send and its end, as far as can be known from outside."""
    judged = judge_swap([record(answered(digest=digest), sent_s, ended_s)], SWAPS)
    assert judged[0].passed is passes


def test_a_swap_that_nobody_saw_proves_nothing() -> None:
    """Both catalogs must have answered."""
    a, b = record(answered(digest="a")), record(answered(digest="b"), 12.0, 13.0)
    assert not broken(judge_swap([a, b], SWAPS))
    assert broken(judge_swap([a], SWAPS)) == ["both catalogs answered under load"]
    assert broken(judge_swap([a], SWAPS[:1])) == ["both catalogs answered under load"]


KILLS = [Kill(1.0, 2, 2, 2.0), Kill(5.0, 1, 2, 6.0)]


def chaos(records: list[Record], kills: list[Kill] = KILLS, starts: int = 2) -> list[str]:
    return broken(judge_chaos(records, kills, planned=2, starts=starts))


def test_chaos_in_order() -> None:
    """Three or four failed, as ENGINE_DOWN, each with a pause."""
    three = [record(failed()) for _ in range(3)]
    assert not chaos([record(answered()), *three])
    assert not chaos([record(answered()), *three, record(failed())])


def test_faults_under_chaos_are_found() -> None:
    """One failed too few or too many, another reason, no pause, no return, too many starts."""
    three = [record(failed()) for _ in range(3)]
    held = "what the engine held failed as ENGINE_DOWN, and nothing else failed"
    back = "the engine was started once for each kill and serves again"
    assert chaos(three[:2]) == [held]
    assert chaos([record(failed()) for _ in range(5)]) == [held]
    assert chaos([*three, record(failed("INTERNAL"))]) == [held]
    assert chaos([*three, record(lost())]) == [held]
    assert chaos([*three[:2], record(failed(retry_after_s=None))]) == [
        "each of them was told when to come back"
    ]
    assert chaos(three, [KILLS[0], replace(KILLS[1], serving_again_s=math.nan)]) == [back]
    assert chaos(three, starts=3) == [back]
    assert "every kill happened, and hit requests" in chaos(three[:2], KILLS[:1], 1)
    idle = [replace(kill, held=0) for kill in KILLS]
    assert chaos([], idle) == ["every kill happened, and hit requests"]


def test_agents_give_up_only_after_their_last_attempt() -> None:
    """A missing agent, a missing question, one that gave up early: all fail."""

    def judge(*records: Record) -> bool:
        return judge_agents([*records], agents=2, requests_each=2, attempts=2).passed

    a = [record(answered(), client="a"), record(answered(), client="a")]
    b = [record(answered(), client="b"), record(refused(), client="b")]
    assert judge(*a, *b, record(refused(), client="b"))
    assert not judge(*a, *b)
    assert not judge(*a)
    assert not judge(a[0], *b, record(refused(), client="b"))
    assert not judge(*a, *a, *b, record(refused(), client="b"))


def test_a_slope_is_known() -> None:
    """One unit a second is sixty a minute, and no single sample moves it."""
    line = [(float(t), float(t)) for t in range(50)]
    assert slope_a_minute(line) == pytest.approx(60.0)
    assert slope_a_minute([*line[:25], (25.5, 900.0), *line[25:]]) == pytest.approx(60.0, rel=0.02)
    assert math.isnan(slope_a_minute(line[:1]))


def test_memory_that_rises_is_found() -> None:
    """In the later half: a rise at the start is a warm-up. Too few samples prove nothing."""
    mib = 1 << 20

    def judge(sizes: list[int | None]) -> bool:
        points = [(float(at), size) for at, size in enumerate(sizes)]
        return judge_memory("engine", points, bound_mib_a_minute=1.0).passed

    flat: list[int | None] = [500 * mib] * 60
    warm: list[int | None] = [*((400 + n) * mib for n in range(60)), *([460 * mib] * 60)]
    leak: list[int | None] = [500 * mib + n * mib // 30 for n in range(60)]
    assert judge(flat)
    assert judge(warm)
    assert not judge(leak)
    assert not judge(flat[:10])
    assert not judge([None] * 60)


def stay(client: str, came: float, began: float, left: float) -> Stay:
    return Stay(client, came, began, left)


def test_turns_are_counted_while_others_wait() -> None:
    """Two waited as the greedy one began: its claim to that turn was a third."""
    turns = count_turns(
        [stay("greedy", 0.0, 1.0, 2.0), stay("a", 0.5, 2.0, 3.0), stay("b", 0.6, 3.0, 4.0)],
        "greedy",
    )
    assert (turns.contested, turns.greedy) == (2, 1)
    assert turns.claim == pytest.approx(1 / 3)
    alone = count_turns([stay("greedy", 0.0, 1.0, 2.0), stay("a", 1.5, 1.6, 3.0)], "greedy")
    assert alone.contested == 0


def served(order: list[str]) -> list[Record]:
    """Return the records of one slot: each stays one second, and all came in time to wait."""
    records = []
    for turn, client in enumerate(order):
        came = max(turn - 4.0, 0.0)
        end = answered(total_s=turn + 1.0 - came, queue_s=turn - came)
        records.append(record(end, came, turn + 1.0, client=client))
    return records


def test_a_fair_server_passes_and_a_queue_in_order_of_arrival_does_not() -> None:
    """In turn, the greedy client has one of five; first come, first served, it has most."""
    clients = ["greedy", "a", "b", "c", "d"]
    assert not broken(judge_fairness(served(clients * 12), "greedy", capacity=5))
    greedy = served(["greedy", "greedy", "greedy", "a", "greedy", "greedy", "b"] * 10)
    assert broken(judge_fairness(greedy, "greedy", capacity=5)) == [
        "the greedy client had no more turns than its share while others waited"
    ]


def test_places_taken_from_others_are_found() -> None:
    """Somebody is turned away while the greedy one holds all places; not so while it holds one."""
    places = "nobody was turned away because the greedy client held more than its share"
    full = [record(answered(total_s=9.0), 0.0, 9.0, client="greedy") for _ in range(4)]
    away = [record(refused(), 4.0, 4.1, client="a") for _ in range(3)]
    assert places in broken(judge_fairness([*full, *away], "greedy", capacity=4))
    assert places not in broken(judge_fairness([full[0], *away], "greedy", capacity=4))


def test_a_run_in_which_nobody_waited_proves_nothing() -> None:
    """It fails, and its evidence says why."""
    idle = [record(answered(total_s=1.0), n * 2.0, n * 2.0 + 1.0, client="a") for n in range(4)]
    judged = judge_fairness(idle, "greedy", capacity=4)
    assert "0 contested" in judged[0].evidence.replace("0 of 0", "0")
    assert not judged[0].passed
