"""`swap`: another catalog is compiled and activated under load, and the first one again.

Owns its sizes and the times of the activations.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from dataclasses import asdict, dataclass
from typing import Final

from loadtest import verdicts
from loadtest.caller import Caller
from loadtest.judges import Activation, judge_swap
from loadtest.loops import answers, closed_loop, endless
from loadtest.records import ClientLedger
from loadtest.sampling import sampling
from loadtest.stage import Findings, Stage, at_rest, audit


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        clients: how many ask without a pause.
        swaps: activations.
        ends_between: requests that must end between two activations.
        timeout_s: time each is given.

    """

    clients: int = 32
    swaps: int = 10
    ends_between: int = 64
    timeout_s: float = 60.0


PLANS: Final = {"small": Plan(clients=16, swaps=4, ends_between=16), "full": Plan()}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Load, swap, and audit."""
    ledger = ClientLedger()
    over = False
    content = await asyncio.to_thread(stage.corpus.other.read_bytes)
    async with stage.control() as control:
        first = (await control.get_catalog()).catalog
        activations = [Activation(first.digest, -math.inf, -math.inf)]
        before = await at_rest(control)
        async with (
            Caller(stage.address, stage.corpus, ledger, plan.timeout_s, plan.clients) as caller,
            sampling(control, stage.server, 0.1) as samples,
            asyncio.TaskGroup() as group,
        ):
            names = [f"client-{number}" for number in range(plan.clients)]
            clients = endless(names, len(stage.corpus.texts))
            group.create_task(closed_loop(caller, clients, lambda: not over))
            await answers(ledger, plan.ends_between)
            other = await control.compile_catalog(content)
            for digest in itertools.islice(
                itertools.cycle((other.digest, first.digest)), plan.swaps
            ):
                asked_s = time.monotonic()
                await control.activate_catalog(digest)
                activations.append(Activation(digest, asked_s, time.monotonic()))
                await answers(ledger, plan.ends_between)
            over = True
        if activations[-1].digest != first.digest:
            await control.activate_catalog(first.digest)
        audited = await audit(stage, control, ledger, before)
    longest = max(a.confirmed_s - a.asked_s for a in activations[1:])
    return Findings(
        scenario="swap",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *audited.verdicts,
            verdicts.judge_ends(ledger.records, refusals=verdicts.SATURATED),
            *judge_swap(ledger.records, activations),
        ],
        reconciliation=audited.reconciliation,
        comparison=audited.comparison,
        samples=samples,
        marks=[(a.confirmed_s, a.digest[:6]) for a in activations[1:]],
        notes=[f"longest activation: {longest:.3f} s"],
    )
