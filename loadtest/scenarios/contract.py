"""`contract`: more requests than the server takes, and every one of them accounted for.

Owns its sizes and the three ways of offering the load: clients that wait (asyncio or Locust), and
an open loop.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

from loadtest import verdicts
from loadtest.caller import Caller
from loadtest.locust_mode import run_locust
from loadtest.loops import LoopClient, closed_loop, open_loop
from loadtest.records import ClientLedger
from loadtest.sampling import sampling
from loadtest.schedule import Arrivals, due_times_s
from loadtest.stage import Findings, Stage, at_rest, audit
from loadtest.verdicts import Verdict

if TYPE_CHECKING:
    from loadtest.records import Record

Mode = Literal["closed", "open", "locust"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        mode: how the load is offered.
        requests: how many are offered.
        clients: how many offer them, where clients wait.
        rate: requests a second, where they do not.
        arrivals: how those are spaced.
        timeout_s: time each is given.

    """

    mode: Mode = "closed"
    requests: int = 512
    clients: int = 64
    rate: float = 40.0
    arrivals: Arrivals = "poisson"
    timeout_s: float = 60.0


PLANS: Final = {"small": Plan(requests=192), "full": Plan()}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Offer the load and audit it."""
    ledger = ClientLedger()
    cases = [index % len(stage.corpus.texts) for index in range(plan.requests)]
    async with stage.control() as control:
        before = await at_rest(control)
        async with sampling(control, stage.server, 0.25) as samples:
            if plan.mode == "locust":
                ledger = await run_locust(
                    stage, clients=plan.clients, cases=cases, timeout_s=plan.timeout_s
                )
            else:
                await _offer(stage, plan, ledger, cases)
        audited = await audit(stage, control, ledger, before)
    return Findings(
        scenario="contract",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *audited.verdicts,
            verdicts.judge_ends(ledger.records, refusals=verdicts.SATURATED),
            judge_offered(ledger.records, plan.requests),
        ],
        reconciliation=audited.reconciliation,
        comparison=audited.comparison,
        samples=samples,
    )


def judge_offered(records: list[Record], planned: int) -> Verdict:
    """All that was to be offered was."""
    return Verdict(
        "everything planned was offered",
        passed=len(records) == planned,
        evidence=f"{len(records)} of {planned}",
    )


async def _offer(stage: Stage, plan: Plan, ledger: ClientLedger, cases: list[int]) -> None:
    async with Caller(
        stage.address, stage.corpus, ledger, plan.timeout_s, connections=plan.clients
    ) as caller:
        if plan.mode == "open":
            due_s = due_times_s(plan.requests, plan.rate, plan.arrivals, stage.seed)
            await open_loop(caller, due_s, cases)
            return
        clients = [
            LoopClient(f"client-{lane}", cases[lane :: plan.clients], lane)
            for lane in range(plan.clients)
        ]
        await closed_loop(caller, clients)
