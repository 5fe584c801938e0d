"""What every scenario plays on, and the audit that every scenario ends with.

Owns the order of an audit: the server at rest, the counters before, the load, the server at rest,
the counters after, then each answer's request alone, by an engine that has seen no load. Never
judges by itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from loadtest import identity, verdicts
from loadtest.caller import Caller
from loadtest.reconcile import Counters, Reconciliation, reconcile
from loadtest.records import ClientLedger
from loadtest.restarts import fresh_engine
from router.client import AsyncClient, ClientConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from loadtest.corpus import Corpus
    from loadtest.identity import Asked, Comparison
    from loadtest.launch import OwnServer
    from loadtest.records import Record
    from loadtest.sampling import Sample
    from loadtest.verdicts import Verdict
    from router.client import ServerStats

Scale = Literal["small", "full"]

REST_LIMIT_S: Final = 90.0
POLL_S: Final = 0.02
ALONE_TIMEOUT_S: Final = 60.0


class StageError(Exception):
    """A scenario can't be played here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A server and what it is asked.

    Attributes:
        address: of the server.
        server: the process, where it was started here; else None.
        corpus: the requests.
        scale: how much of everything.
        seed: of every choice.
        folder: for files of this run.

    """

    address: str
    server: OwnServer | None
    corpus: Corpus
    scale: Scale
    seed: int
    folder: Path

    def control(self) -> AsyncClient:
        """Return a client for everything but load; it tries nothing twice."""
        return AsyncClient(self.address, ClientConfig(attempts=1, timeout_s=30.0))

    def own_server(self, scenario: str) -> OwnServer:
        """Return the server's process.

        Raises:
            StageError: the server is somebody else's.

        """
        if self.server is None:
            raise StageError(
                f"{scenario} needs a server of its own, which it may signal and whose processes it "
                "sees; leave --address away"
            )
        return self.server


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a run came to.

    Attributes:
        scenario: its name.
        sizes: what was set, for the report.
        records: every request.
        verdicts: every judgement.
        reconciliation: of the ledgers.
        comparison: of the answers with those alone.
        samples: the server over time.
        marks: moments worth a line in the plots: time and words.
        notes: figures in words that no verdict depends on.

    """

    scenario: str
    sizes: Mapping[str, object]
    records: list[Record]
    verdicts: list[Verdict]
    reconciliation: Reconciliation
    comparison: Comparison
    samples: list[Sample] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every verdict did."""
        return all(verdict.passed for verdict in self.verdicts)


async def at_rest(client: AsyncClient) -> ServerStats:
    """Wait until no request is open and no slot in use; return the counters.

    Raises:
        StageError: that never came.

    """
    try:
        async with asyncio.timeout(REST_LIMIT_S):
            while True:
                stats = await client.stats()
                if not (stats.open or stats.alive or stats.queued):
                    return stats
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise StageError(
            f"the server has not come to rest within {REST_LIMIT_S:g} s; somebody else may be "
            "calling it"
        ) from None


async def answers_alone(stage: Stage, asked: Iterable[Asked]) -> dict[Asked, bytes]:
    """Ask each by itself, one after the other, with ids of their own; return the answers' bits."""
    found: dict[Asked, bytes] = {}
    async with Caller(stage.address, stage.corpus, ClientLedger(), ALONE_TIMEOUT_S) as caller:
        for case, digest in asked:
            record = await caller.ask("alone", case, catalog=digest)
            if record.ending is not None and record.ending.answer is not None:
                found[case, digest] = record.ending.answer.bits
    return found


async def warm(stage: Stage, client: AsyncClient) -> None:
    """Ask each case once, so that what follows is measured on an engine past its first growth."""
    digest = (await client.get_catalog()).catalog.digest
    await answers_alone(stage, [(case, digest) for case in range(len(stage.corpus.texts))])


async def _open_all(client: AsyncClient, digests: Iterable[str]) -> None:
    """Open catalogs that a new engine has not: it opens those alone that names stand for."""
    served = {catalog.digest for catalog in await client.list_catalogs()}
    for digest in sorted(set(digests) - served):
        await client.activate_catalog(digest, name=f"alone-{digest[:12]}")


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit of a server that is still there."""

    stats: ServerStats
    reconciliation: Reconciliation
    comparison: Comparison
    verdicts: list[Verdict]


async def audit(
    stage: Stage, client: AsyncClient, ledger: ClientLedger, before: ServerStats
) -> Audited:
    """Bring the server to rest, reconcile, ask alone, and judge what every scenario must keep."""
    after = await at_rest(client)
    reconciliation = reconcile(
        ledger.tally(), Counters.from_stats(before), Counters.from_stats(after)
    )
    wanted = identity.wanted(ledger.records)
    if stage.server is not None:
        # The engine keeps what prompts have read: were it asked again, it might read off what it
        # computed under load, and agree with itself.
        await fresh_engine(stage.server, client)
        await _open_all(client, {digest for _, digest in wanted})
    alone = await answers_alone(stage, wanted)
    comparison = identity.compare(ledger.records, alone)
    return Audited(
        after,
        reconciliation,
        comparison,
        [
            *common(ledger.records, reconciliation, comparison),
            verdicts.judge_bounded(after),
        ],
    )


def common(
    records: list[Record],
    reconciliation: Reconciliation,
    comparison: Comparison,
    excused: Collection[str] = (),
) -> list[Verdict]:
    """Judge what every scenario must keep.

    Args:
        records: the requests.
        reconciliation: of their ledger.
        comparison: of their answers.
        excused: ids of requests whose bare status another verdict speaks of.

    """
    return [
        verdicts.judge_resolved(records),
        verdicts.judge_reconciled(reconciliation),
        verdicts.judge_identical(comparison),
        verdicts.judge_in_time(records),
        verdicts.judge_typed([r for r in records if r.request_id not in excused]),
        verdicts.judge_pushback(records),
    ]
