"""`agents`: many agents at once, each thinking between its questions.

Owns its sizes. An agent that is turned away comes back when it was told to, a few times.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Final

from loadtest import verdicts
from loadtest.caller import MOST_CONNECTIONS, Caller
from loadtest.judges import judge_agents
from loadtest.loops import LoopClient, closed_loop
from loadtest.records import ClientLedger
from loadtest.sampling import sampling
from loadtest.stage import Findings, Stage, at_rest, audit


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        agents: how many.
        requests_each: questions of each.
        mean_think_s: mean time before each question, exponential.
        attempts: most times a question is offered.
        timeout_s: time each attempt is given.

    """

    agents: int = 2000
    requests_each: int = 2
    mean_think_s: float = 90.0
    attempts: int = 4
    timeout_s: float = 30.0


PLANS: Final = {"small": Plan(agents=100, mean_think_s=6.0), "full": Plan()}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Let every agent think and ask, and audit."""
    ledger = ClientLedger()
    async with stage.control() as control:
        before = await at_rest(control)
        async with (
            Caller(stage.address, stage.corpus, ledger, plan.timeout_s, MOST_CONNECTIONS) as caller,
            sampling(control, stage.server, 0.5) as samples,
        ):
            await closed_loop(
                caller, [_agent(stage, plan, number) for number in range(plan.agents)]
            )
        audited = await audit(stage, control, ledger, before)
    return Findings(
        scenario="agents",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *audited.verdicts,
            verdicts.judge_ends(ledger.records, refusals={*verdicts.SATURATED, "EXPIRED"}),
            judge_agents(
                ledger.records,
                agents=plan.agents,
                requests_each=plan.requests_each,
                attempts=plan.attempts,
            ),
        ],
        reconciliation=audited.reconciliation,
        comparison=audited.comparison,
        samples=samples,
    )


def _agent(stage: Stage, plan: Plan, number: int) -> LoopClient:
    dice = random.Random(f"{stage.seed}-{number}")  # noqa: S311  (no secret: it must repeat)
    cases = [dice.randrange(len(stage.corpus.texts)) for _ in range(plan.requests_each)]
    return LoopClient(
        client=f"agent-{number}",
        cases=cases,
        lane=number,
        think_s=lambda: dice.expovariate(1 / plan.mean_think_s),
        attempts=plan.attempts,
    )
