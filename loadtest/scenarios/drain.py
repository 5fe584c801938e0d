"""`drain`: SIGTERM in the middle of load.

Owns its sizes and the moment of the signal. What the requests get alone is asked before the load:
afterwards there is no server.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Final

from loadtest import identity, verdicts
from loadtest.caller import Caller
from loadtest.judges import cut_off, judge_cut_off, judge_drain
from loadtest.loops import closed_loop, endless
from loadtest.reconcile import Counters, reconcile
from loadtest.records import ClientLedger
from loadtest.sampling import sampling
from loadtest.stage import Findings, Stage, StageError, answers_alone, at_rest, common

POLL_S: Final = 0.005
AFTERWARDS_S: Final = 0.5
"""How long clients go on asking where the server was."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Attributes:
        clients: how many ask without a pause.
        ends_before: requests that have ended when the signal is sent.
        timeout_s: time each is given.

    """

    clients: int = 64
    ends_before: int = 256
    timeout_s: float = 60.0


PLANS: Final = {"small": Plan(clients=32, ends_before=48), "full": Plan()}


async def play(stage: Stage, plan: Plan) -> Findings:
    """Load, signal, wait for the exit, and audit from what the server said last."""
    server = stage.own_server("drain")
    ledger = ClientLedger()
    over = False
    async with stage.control() as control:
        digest = (await control.get_catalog()).catalog.digest
        alone = await answers_alone(stage, [(c, digest) for c in range(len(stage.corpus.texts))])
        before = await at_rest(control)
        async with (
            Caller(stage.address, stage.corpus, ledger, plan.timeout_s, plan.clients) as caller,
            sampling(control, server, 0.1) as samples,
            asyncio.TaskGroup() as group,
        ):
            names = [f"client-{number}" for number in range(plan.clients)]
            clients = endless(names, len(stage.corpus.texts))
            load = group.create_task(closed_loop(caller, clients, lambda: not over))
            while sum(r.ending is not None for r in ledger.records) < plan.ends_before:
                if load.done():
                    break
                await asyncio.sleep(POLL_S)
            signalled_s = time.monotonic()
            server.terminate()
            exit_code = await server.wait()
            exited_s = time.monotonic()
            await asyncio.sleep(AFTERWARDS_S)
            over = True
    last = server.events("stopped")
    begun = server.events("draining")
    if not last or not begun:
        raise StageError("the server's log lacks its events draining and stopped")
    last_words = Counters.from_last_words(last[-1])
    reconciliation = reconcile(ledger.tally(), Counters.from_stats(before), last_words)
    # Before the load the server had counted the requests asked alone; only what came after counts.
    since = Counters(
        answered=last_words.answered - before.answered,
        failed=last_words.failed - before.failed,
        cancelled=last_words.cancelled - before.cancelled,
        open=last_words.open,
    )
    comparison = identity.compare(ledger.records, alone)
    excused = {record.request_id for record in cut_off(ledger.records, signalled_s)}
    judged = judge_drain(
        ledger.records,
        since,
        signalled_s=signalled_s,
        exit_code=exit_code,
        open_at_signal=int(begun[-1]["open"]),
    )
    refusals = {*verdicts.SATURATED, "DRAINING", "NO_SERVER"}
    return Findings(
        scenario="drain",
        sizes=asdict(plan),
        records=ledger.records,
        verdicts=[
            *common(ledger.records, reconciliation, comparison, excused),
            verdicts.judge_ends(
                [r for r in ledger.records if r.request_id not in excused],
                refusals=refusals,
                failures=("CONNECTION_LOST",),
            ),
            *judged,
            judge_cut_off(ledger.records, signalled_s, most=plan.clients),
        ],
        reconciliation=reconciliation,
        comparison=comparison,
        samples=samples,
        marks=[(signalled_s, "SIGTERM"), (exited_s, "exit")],
        notes=[f"from signal to exit: {exited_s - signalled_s:.3f} s"],
    )
