"""The engine process ended by force, and the wait for the next one.

Owns the kill and the wait. Never judges.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loadtest.launch import OwnServer
    from router.client import AsyncClient

POLL_S: Final = 0.02
AGAIN_LIMIT_S: Final = 120.0


class NoEngineError(Exception):
    """No engine process is found, or no new one served in time; the message says which."""


def engine_pid(server: OwnServer) -> int:
    """Return the engine's process id.

    Raises:
        NoEngineError: the server has none.

    """
    pid = server.engine_pid()
    if pid is None:
        raise NoEngineError("the server's engine process is not found among its children")
    return pid


async def served_again(control: AsyncClient, starts_before: int) -> None:
    """Wait for one more start and for SERVING: right after a kill it may not have been noticed.

    Raises:
        TimeoutError: that never came.

    """
    async with asyncio.timeout(AGAIN_LIMIT_S):
        while True:
            stats = await control.stats()
            if stats.engine_starts > starts_before and await control.is_serving():
                return
            await asyncio.sleep(POLL_S)


async def fresh_engine(server: OwnServer, control: AsyncClient) -> None:
    """Put an engine that has seen no request in place of the one there is.

    Raises:
        NoEngineError: there was none, or the next one did not serve in time.

    """
    starts_before = (await control.stats()).engine_starts
    os.kill(engine_pid(server), signal.SIGKILL)
    try:
        await served_again(control, starts_before)
    except TimeoutError:
        raise NoEngineError(
            f"no new engine has served within {AGAIN_LIMIT_S:g} s after the last one was killed"
        ) from None
