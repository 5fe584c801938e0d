"""What the server says of itself, and what the machine says of its processes, over time.

Owns the sampler. A sample that can't be taken is kept as one that says so. Never judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadtest.processes import resident_bytes
from router.client import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loadtest.launch import OwnServer
    from router.client import AsyncClient


@dataclass(frozen=True, slots=True)
class Sample:
    """The server at one moment; None is what could not be had.

    Attributes:
        at_s: when, by the monotonic clock.
        alive, queued: slots in use and requests waiting.
        serving: whether the engine answers.
        engine_pid: the engine process.
        server_bytes, engine_bytes: resident memory.

    """

    at_s: float
    alive: int | None = None
    queued: int | None = None
    serving: bool | None = None
    engine_pid: int | None = None
    server_bytes: int | None = None
    engine_bytes: int | None = None


async def take_sample(client: AsyncClient, server: OwnServer | None) -> Sample:
    """Look once."""
    at_s = time.monotonic()
    engine_pid = server.engine_pid() if server is not None else None
    server_bytes = resident_bytes(server.pid) if server is not None else None
    engine_bytes = resident_bytes(engine_pid) if engine_pid is not None else None
    try:
        stats = await client.stats(timeout_s=2.0)
    except RequestError:
        return Sample(at_s, None, None, None, engine_pid, server_bytes, engine_bytes)
    return Sample(
        at_s, stats.alive, stats.queued, stats.serving, engine_pid, server_bytes, engine_bytes
    )


@contextlib.asynccontextmanager
async def sampling(
    client: AsyncClient, server: OwnServer | None, every_s: float
) -> AsyncIterator[list[Sample]]:
    """Look again and again while the body runs; yields the list that grows."""
    samples: list[Sample] = []

    async def look() -> None:
        while True:
            samples.append(await take_sample(client, server))
            await asyncio.sleep(every_s)

    task = asyncio.create_task(look())
    try:
        yield samples
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
