"""`chaos`: the engine process is killed at random moments.

Owns its sizes, and how a kill counts what it hits: the engine is stopped first, so that nothing it
holds can end; the server is asked how many requests that is; then it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import signal
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from loadtest import verdicts
from loadtest.caller import Caller
from loadtest.judges import Kill, judge_chaos
from loadtest.loops import answers, closed_loop, endless
from loadtest.records import ClientLedger
from loadtest.restarts import engine_pid, served_again
from loadtest.sampling import sampling
from loadtest.stage import Findings, Stage, at_rest, audit

if TYPE_CHECKING:
    from loadtest.launch import OwnServer
    from router.client import AsyncClient

SETTLE_S: Final = 0.05
"""Time in which the server takes in what the engine had sent before it was stopped."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        clients: how many ask without a pause.
        kills: how often the engine is killed.
        answers_between: most answers that come before a kill; how many is drawn, at least one.
        mean_wait_s: mean time from the last of them to the kill, exponential.
        timeout_s: time each request is given.

    """

    clients: int = 32
    kills: int = 12
    answers_between: int = 32
    mean_wait_s: float = 1.0
    timeout_s: float = 60.0


PLANS: Final = {
    "small": Plan(clients=24, kills=3, answers_between=12, mean_wait_s=0.3),
    "full": Plan(),
}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Load, kill again and again, and audit."""
    server = stage.own_server("chaos")
    ledger = ClientLedger()
    dice = random.Random(stage.seed)  # noqa: S311  (no secret: it must repeat)
    kills: list[Kill] = []
    over = False
    async with stage.control() as control:
        before = await at_rest(control)
        async with (
            Caller(stage.address, stage.corpus, ledger, plan.timeout_s, plan.clients) as caller,
            sampling(control, server, 0.1) as samples,
            asyncio.TaskGroup() as group,
        ):
            names = [f"client-{number}" for number in range(plan.clients)]
            clients = endless(names, len(stage.corpus.texts))
            group.create_task(closed_loop(caller, clients, lambda: not over))
            for _ in range(plan.kills):
                await answers(ledger, dice.randint(1, plan.answers_between))
                await asyncio.sleep(dice.expovariate(1 / plan.mean_wait_s))
                kills.append(await _kill(server, control))
                if math.isnan(kills[-1].serving_again_s):
                    break
            over = True
        serving = await control.is_serving()
        audited = await audit(stage, control, ledger, before)
    return Findings(
        scenario="chaos",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *audited.verdicts,
            verdicts.judge_ends(
                ledger.records,
                refusals={*verdicts.SATURATED, "ENGINE_DOWN"},
                failures=("ENGINE_DOWN",),
            ),
            *judge_chaos(
                ledger.records,
                kills,
                planned=plan.kills,
                starts=audited.stats.engine_starts - before.engine_starts,
            ),
            verdicts.Verdict(
                "SERVING again at the end", passed=serving, evidence=f"health says {serving}"
            ),
        ],
        reconciliation=audited.reconciliation,
        comparison=audited.comparison,
        samples=samples,
        marks=[(kill.at_s, "kill") for kill in kills],
    )


async def _kill(server: OwnServer, control: AsyncClient) -> Kill:
    """Stop the engine, count what it holds, kill it, and wait until the server serves again."""
    pid = engine_pid(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(SETTLE_S)
        stats = await control.stats()
    finally:
        os.kill(pid, signal.SIGKILL)
    at_s = time.monotonic()
    with contextlib.suppress(TimeoutError):
        await served_again(control, stats.engine_starts)
        return Kill(at_s, stats.alive, stats.slots, time.monotonic())
    return Kill(at_s, stats.alive, stats.slots, math.nan)
