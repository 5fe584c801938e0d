"""The comparison with peers: who is asked what, what is made of the answers, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from benchmarks.peers import __main__ as peers_command
from benchmarks.peers.jobs import Job, Work

if TYPE_CHECKING:
    from benchmarks.peers.__main__ import Peer

JOBS = 8
NAMES = ["open_gate", "close_gate"]


class Scripted:
    """A system that answers the same name always, in a set time, and keeps what it was asked."""

    def __init__(self, name: str, answer: str, seconds: float, grammar: float = 0.0) -> None:
        self.name, self.how = name, "scripted"
        self._answer, self._seconds, self._grammar = answer, seconds, grammar
        self.asked: list[int] = []

    def ask(self, **command: Any) -> dict[str, Any]:
        """See `Peer`."""
        jobs = command["jobs"] if command["op"] == "many" else [command["job"]]
        self.asked += jobs
        return {"s": self._seconds, "grammar_s": self._grammar, "names": [self._answer] * len(jobs)}


def work() -> Work:
    """Return jobs enough for a run of eight of each kind."""
    count = peers_command.WARM + 3 * JOBS
    return Work([Job([i], [0, 1], NAMES) for i in range(count)], {}, [*NAMES, "elsewhere"], 0)


def measured(*systems: Scripted) -> list[dict[str, Any]]:
    """Measure scripted systems."""
    return peers_command.measure("none", cast("list[Peer]", list(systems)), work())


def test_every_system_is_asked_every_measured_job_once() -> None:
    """A prompt asked twice would be answered from what the first time kept."""
    ours, other = Scripted("ours", NAMES[0], 0.1), Scripted("other", NAMES[0], 0.2)
    measured(ours, other)
    assert sorted(ours.asked) == list(range(peers_command.WARM, peers_command.WARM + 3 * JOBS))
    assert ours.asked == other.asked


def test_figures_tell_grammar_and_answer_apart() -> None:
    """Eight clients' rate is given with the making of their grammars and without."""
    _, other = measured(
        Scripted("ours", NAMES[0], 0.1), Scripted("other", NAMES[1], 0.5, grammar=1.5)
    )
    assert other["one_ms"] == pytest.approx(500)
    assert other["grammar_ms"] == pytest.approx(1500)
    assert other["requests_per_s_8"] == pytest.approx(4)
    assert other["requests_per_s_8_without_grammar"] == pytest.approx(16)


def test_agreement_is_told_for_each_pair(capsys: pytest.CaptureFixture[str]) -> None:
    """Peers that agree with each other and not with ours can be seen to."""
    results = measured(
        Scripted("ours", NAMES[0], 0.1), Scripted("a", NAMES[1], 0.2), Scripted("b", NAMES[1], 0.2)
    )
    assert results[1]["same_answer_as"] == {"ours": 0.0, "b": 1.0}
    peers_command.report(results)
    assert "ours 0%, b 100%" in capsys.readouterr().out


def test_a_name_that_may_not_be_given_ends_the_run() -> None:
    """A system whose grammar did not hold has done other work: its time is no figure."""
    with pytest.raises(RuntimeError, match="other answered 'elsewhere' to job"):
        measured(Scripted("ours", NAMES[0], 0.1), Scripted("other", "elsewhere", 0.2))


@pytest.mark.parametrize("jobs", ["0", "4", "12", "-8"])
def test_jobs_that_fill_no_eight_clients_are_refused(
    jobs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said at the start, not after minutes of measuring."""
    monkeypatch.setattr("sys.argv", ["peers", "--jobs", jobs])
    with pytest.raises(SystemExit):
        peers_command.main()
    assert "give a multiple of 8" in capsys.readouterr().err
