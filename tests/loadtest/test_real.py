"""The load test against the server with the real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loadtest import __main__ as command
from loadtest.corpus import OWN_TOOLS, read_corpus
from loadtest.launch import Launch, serve_command
from loadtest.scenarios import chaos, contract, swap

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.mark.parametrize(
    ("scenario", "plan"),
    [
        ("contract", contract.Plan(requests=48, clients=16)),
        ("swap", swap.Plan(clients=6, swaps=2, ends_between=6)),
        ("chaos", chaos.Plan(clients=8, kills=1, answers_between=4, mean_wait_s=0.1)),
    ],
)
async def test_real_answers_keep_the_contract_under_load(
    scenario: str,
    plan: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    smollm2_gguf: Path,
    minilm_dir: Path,
) -> None:
    """Not one verdict fails, the bits of every answer included."""
    monkeypatch.setenv("POINTSMAN_SHARED_DATA", str(tmp_path / "absent"))
    corpus = read_corpus(None, 8, seed=0)
    launch = Launch(serve_command(OWN_TOOLS, slots=4, queue=6))
    findings = await command.play(scenario, plan, None, corpus, "small", 0, tmp_path, launch)
    assert {v.name: v.evidence for v in findings.verdicts if not v.passed} == {}
