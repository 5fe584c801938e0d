"""`greedy`: one client with as many requests at once as all others together.

Owns its sizes and the ids that the server may tell the clients apart by.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from loadtest import verdicts
from loadtest.caller import MOST_CONNECTIONS, Caller
from loadtest.fairness import judge_fairness
from loadtest.loops import closed_loop, endless
from loadtest.percentiles import percentiles_of
from loadtest.records import ClientLedger
from loadtest.sampling import sampling
from loadtest.stage import Findings, Stage, at_rest, audit, warm

if TYPE_CHECKING:
    from loadtest.records import Record

GREEDY: Final = "greedy"


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        polite: clients with one request at a time.
        greedy_at_once: requests that the greedy client has open at once.
        seconds: how long.
        timeout_s: time each request is given.

    """

    polite: int = 63
    greedy_at_once: int = 64
    seconds: float = 60.0
    timeout_s: float = 60.0


PLANS: Final = {"small": Plan(seconds=10.0), "full": Plan()}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Let all ask at once, and judge who was served."""
    ledger = ClientLedger()
    async with stage.control() as control:
        await warm(stage, control)
        before = await at_rest(control)
        async with (
            Caller(stage.address, stage.corpus, ledger, plan.timeout_s, MOST_CONNECTIONS) as caller,
            sampling(control, stage.server, 0.25) as samples,
        ):
            names = [f"polite-{number}" for number in range(plan.polite)]
            names += [GREEDY] * plan.greedy_at_once
            clients = endless(names, len(stage.corpus.texts))
            until_s = time.monotonic() + plan.seconds
            await closed_loop(caller, clients, lambda: time.monotonic() < until_s)
        audited = await audit(stage, control, ledger, before)
    capacity = audited.stats.slots + audited.stats.queue
    return Findings(
        scenario="greedy",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *audited.verdicts,
            verdicts.judge_ends(ledger.records, refusals=verdicts.SATURATED),
            *judge_fairness(ledger.records, GREEDY, capacity=capacity),
        ],
        reconciliation=audited.reconciliation,
        comparison=audited.comparison,
        samples=samples,
        notes=[
            _share("the greedy client", [r for r in ledger.records if r.client == GREEDY], 1),
            _share(
                "the polite clients",
                [r for r in ledger.records if r.client != GREEDY],
                plan.polite,
            ),
        ],
    )


def _share(who: str, records: list[Record], clients: int) -> str:
    latencies_s = [
        r.latency_s for r in records if r.ending is not None and r.ending.answer is not None
    ]
    found = percentiles_of(latencies_s)
    stated = found.stated_s
    timing = f"; p50 {stated[50.0]:.3f} s, p99 {stated[99.0]:.3f} s" if stated else ""
    return (
        f"{who}: {found.count} of {len(records)} offered were answered, "
        f"{found.count / clients:.1f} a client{timing}"
    )
