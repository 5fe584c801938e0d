"""Every scenario in small, against a server process over an engine without a model."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from loadtest import __main__ as command
from loadtest.caller import Caller
from loadtest.launch import LaunchError, own_server
from loadtest.records import ClientLedger, Outcome, Told
from loadtest.report import write_report
from loadtest.scenarios import agents, chaos, contract, drain, greedy, soak, swap
from loadtest.stage import StageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loadtest.stage import Findings
    from tests.loadtest.conftest import Fake

    Prepare = Callable[[int, int], Fake]


async def play(fake: Fake, scenario: str, plan: Any) -> Findings:
    return await command.play(
        scenario, plan, None, fake.corpus, "small", 0, fake.folder, fake.launch
    )


def failed(findings: Findings) -> dict[str, str]:
    return {v.name: v.evidence for v in findings.verdicts if not v.passed}


def count(findings: Findings, outcome: Outcome) -> int:
    return sum(r.ending is not None and r.ending.outcome is outcome for r in findings.records)


async def test_contract_accounts_for_every_request(fake: Prepare, tmp_path: Path) -> None:
    """More clients than slots and queue hold: some are refused, and the ledgers agree to the one.

    The report holds every verdict and loads nothing from anywhere.
    """
    prepared = fake(2, 3)
    prepared.set("takes", "5")
    findings = await play(prepared, "contract", contract.Plan(requests=96, clients=12))
    assert not failed(findings)
    assert len(findings.records) == 96
    assert count(findings, Outcome.ANSWERED) > 5
    assert count(findings, Outcome.REFUSED) > 5
    page = write_report(findings, tmp_path / "out", {"requests from": "a <test>"})
    text = page.read_text(encoding="utf-8")
    assert all(v.name in text for v in findings.verdicts)
    assert "QUEUE_FULL" in text
    assert "a &lt;test&gt;" in text
    assert "http" not in text
    document = json.loads((tmp_path / "out" / "contract.json").read_text(encoding="utf-8"))
    assert document["passed"] is True
    assert sum(document["outcomes"].values()) == 96
    assert all(row["difference"] == 0 for row in document["reconciliation"]["rows"])


async def test_contract_in_an_open_loop(fake: Prepare) -> None:
    """The same audit where nobody waits for an answer before the next request."""
    plan = contract.Plan(mode="open", requests=60, rate=400.0)
    prepared = fake(2, 3)
    prepared.set("takes", "5")
    findings = await play(prepared, "contract", plan)
    assert not failed(findings)
    assert len(findings.records) == 60
    assert all(record.intended_s <= record.sent_s for record in findings.records)


@pytest.mark.slow
async def test_contract_offered_by_locust(fake: Prepare) -> None:
    """Locust's users offer the same, and tell Locust's statistics refusals by reason.

    No refusal takes as long as an answer: no call waits for a thread of gevent's.
    """
    prepared = fake(30, 0)
    prepared = replace(prepared, corpus=replace(prepared.corpus, texts=("fly_kite",)))
    prepared.set("takes", "1000")
    findings = await play(
        prepared, "contract", contract.Plan(mode="locust", requests=80, clients=40)
    )
    assert not failed(findings)
    assert len({record.client for record in findings.records}) == 40
    latencies_s: dict[Outcome, list[float]] = {Outcome.ANSWERED: [], Outcome.REFUSED: []}
    for record in findings.records:
        assert record.ending is not None
        latencies_s[record.ending.outcome].append(record.latency_s)
    assert max(latencies_s[Outcome.REFUSED]) < min(latencies_s[Outcome.ANSWERED])
    stats = json.loads((prepared.folder / "locust" / "stats.json").read_text(encoding="utf-8"))
    counts = {each["name"]: each["num_requests"] for each in stats}
    assert counts == {
        "Route": count(findings, Outcome.ANSWERED),
        "Route refused: QUEUE_FULL": count(findings, Outcome.REFUSED),
    }


async def test_a_changed_bit_fails_the_run(fake: Prepare) -> None:
    """An engine whose answers differ in the last bit of one double does not pass."""
    prepared = fake(2, 3)
    prepared.set("flip")
    findings = await play(prepared, "contract", contract.Plan(requests=40, clients=4))
    assert failed(findings).keys() == {"answers under load have the bits of answers alone"}
    assert "none_probability" in findings.comparison.examples[0]


async def test_what_an_engine_keeps_from_the_load_does_not_vouch_for_it(fake: Prepare) -> None:
    """Wrong answers that are kept, and given again when asked alone, are found all the same."""
    prepared = fake(2, 3)
    prepared.set("takes", "5")
    prepared.set("keep")
    findings = await play(prepared, "contract", contract.Plan(requests=40, clients=4))
    assert failed(findings).keys() == {"answers under load have the bits of answers alone"}


async def test_a_caller_that_the_ledger_does_not_know_fails_the_run(
    fake: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request beside the ledger's, and the counters no longer agree."""
    offer = contract._offer

    async def with_a_stranger(stage: Any, plan: Any, ledger: Any, cases: Any) -> None:
        await offer(stage, plan, ledger, cases)
        async with Caller(stage.address, stage.corpus, ClientLedger(), 10.0) as stranger:
            await stranger.ask("stranger", 0)

    monkeypatch.setattr(contract, "_offer", with_a_stranger)
    findings = await play(fake(2, 3), "contract", contract.Plan(requests=20, clients=4))
    assert failed(findings).keys() == {"the ledgers agree"}
    assert "offered: server 21, client 20" in failed(findings)["the ledgers agree"]


async def test_drain_answers_what_was_admitted(fake: Prepare) -> None:
    """SIGTERM in the middle of load; the server's last words agree with the clients' ledger."""
    prepared = fake(2, 3)
    prepared.set("takes", "20")
    findings = await play(prepared, "drain", drain.Plan(clients=8, ends_before=20))
    assert not failed(findings)
    assert [words for _, words in findings.marks] == ["SIGTERM", "exit"]


async def test_a_server_that_is_killed_has_not_drained(
    fake: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a server that leaves its requests behind is not taken for a drain."""
    prepared = fake(2, 3)
    prepared.set("takes", "20")
    monkeypatch.setattr(
        "loadtest.launch.OwnServer.terminate", lambda self: os.kill(self.pid, signal.SIGKILL)
    )
    with pytest.raises(StageError, match="lacks its events"):
        await play(prepared, "drain", drain.Plan(clients=8, ends_before=20))


async def test_swap_under_load(fake: Prepare) -> None:
    """Both catalogs answer, each only while it was active."""
    prepared = fake(2, 8)
    plan = swap.Plan(clients=6, swaps=4, ends_between=10)
    findings = await play(prepared, "swap", plan)
    assert not failed(findings)
    assert len(findings.marks) == 4


async def test_chaos_ends_in_service(fake: Prepare) -> None:
    """Each kill fails just what the engine held, and the engine comes back."""
    prepared = fake(2, 3)
    prepared.set("takes", "20")
    findings = await play(prepared, "chaos", chaos.Plan(clients=8, kills=2, mean_wait_s=0.2))
    assert not failed(findings)
    assert count(findings, Outcome.FAILED) >= 2


async def test_agents_think_and_ask(fake: Prepare) -> None:
    """Every agent asks all that it had to."""
    findings = await play(
        fake(2, 3), "agents", agents.Plan(agents=40, requests_each=2, mean_think_s=0.2)
    )
    assert not failed(findings)


async def test_soak_samples_memory(fake: Prepare) -> None:
    """Memory of both processes is sampled, and judged."""
    plan = replace(soak.PLANS["small"], seconds=3.0, sample_s=0.1, clients=4)
    findings = await play(fake(2, 3), "soak", plan)
    judged = [v for v in findings.verdicts if v.name.startswith("memory of the")]
    assert len(judged) == 2
    assert not any("too few" in verdict.evidence for verdict in judged)
    assert all(s.server_bytes and s.engine_bytes for s in findings.samples)


async def test_greedy_is_judged(fake: Prepare) -> None:
    """Whatever the server's fairness, the ledgers close and the shares are reported."""
    prepared = fake(2, 6)
    prepared.set("takes", "5")
    findings = await play(prepared, "greedy", greedy.Plan(polite=7, greedy_at_once=16, seconds=2.0))
    fair = {v.name for v in findings.verdicts[-2:]}
    assert failed(findings).keys() <= fair
    assert "the greedy client" in findings.notes[0]


async def test_ends_that_the_server_did_not_tell(fake: Prepare) -> None:
    """The client's own deadline, and no server at all, are told apart from the server's words."""
    prepared = fake(1, 0)
    ledger = ClientLedger()
    async with own_server(prepared.launch, prepared.folder) as server:
        address, engine = server.address, server.engine_pid()
        assert engine is not None
        os.kill(engine, signal.SIGSTOP)
        async with Caller(address, prepared.corpus, ledger, 1e-4) as hasty:
            first = await hasty.ask("hasty", 0)
        os.kill(engine, signal.SIGCONT)
    async with Caller(address, prepared.corpus, ledger, 5.0) as late:
        second = await late.ask("late", 0)
    assert first.ending is not None
    assert second.ending is not None
    assert first.ending.told in (Told.DEADLINE, Told.SERVER)
    assert (second.ending.outcome, second.ending.told) == (Outcome.REFUSED, Told.UNREACHED)


async def test_a_server_that_does_not_start_says_why(fake: Prepare) -> None:
    """The load test ends with the server's own words."""
    prepared = fake(2, 3)
    prepared.corpus.catalog.write_text("broken", encoding="ascii")
    with pytest.raises(LaunchError, match="truncated"):
        await play(prepared, "contract", contract.Plan(requests=4, clients=2))


@pytest.mark.parametrize("scenario", ["drain", "chaos", "soak"])
async def test_what_needs_its_own_server_says_so(fake: Prepare, scenario: str) -> None:
    """A server that somebody else started is neither signalled nor killed."""
    prepared = fake(2, 3)
    module = command.SCENARIOS[scenario]
    with pytest.raises(StageError, match="leave --address away"):
        await command.play(
            scenario,
            module.PLANS["small"],
            "127.0.0.1:1",
            prepared.corpus,
            "small",
            0,
            prepared.folder,
            prepared.launch,
        )
