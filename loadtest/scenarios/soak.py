"""`soak`: the same load for long, and memory that must not rise.

Owns its sizes and the bounds on memory.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Final

from loadtest import verdicts
from loadtest.caller import Caller
from loadtest.judges import judge_memory
from loadtest.loops import closed_loop, endless
from loadtest.records import ClientLedger
from loadtest.sampling import sampling
from loadtest.stage import Findings, Stage, at_rest, audit, warm


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        clients: how many ask without a pause; more than slots and queue hold, so that refusals are
            part of the load.
        seconds: how long.
        sample_s: time between two looks at memory.
        bound_mib_a_minute: how fast the later half of a process's memory may rise. Short runs have
            a wide bound: within seconds, buffers that grow once look like a slope.
        timeout_s: time each request is given.

    """

    clients: int = 28
    seconds: float = 1800.0
    sample_s: float = 2.0
    bound_mib_a_minute: float = 0.5
    timeout_s: float = 60.0


PLANS: Final = {
    "small": Plan(seconds=20.0, sample_s=0.25, bound_mib_a_minute=30.0),
    "full": Plan(),
}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Load for the time, sample, and audit."""
    server = stage.own_server("soak")
    ledger = ClientLedger()
    async with stage.control() as control:
        await warm(stage, control)
        before = await at_rest(control)
        async with (
            Caller(stage.address, stage.corpus, ledger, plan.timeout_s, plan.clients) as caller,
            sampling(control, server, plan.sample_s) as samples,
        ):
            names = [f"client-{number}" for number in range(plan.clients)]
            clients = endless(names, len(stage.corpus.texts))
            until_s = time.monotonic() + plan.seconds
            await closed_loop(caller, clients, lambda: time.monotonic() < until_s)
        audited = await audit(stage, control, ledger, before)
    bound = plan.bound_mib_a_minute
    return Findings(
        scenario="soak",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *audited.verdicts,
            verdicts.judge_ends(ledger.records, refusals=verdicts.SATURATED),
            judge_memory(
                "server", [(s.at_s, s.server_bytes) for s in samples], bound_mib_a_minute=bound
            ),
            judge_memory(
                "engine", [(s.at_s, s.engine_bytes) for s in samples], bound_mib_a_minute=bound
            ),
        ],
        reconciliation=audited.reconciliation,
        comparison=audited.comparison,
        samples=samples,
    )
