"""A server of the load test's own: started, watched from outside, and always ended.

Owns the process, its log and what the log says. The server is the command itself, nothing of it
imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from loadtest.processes import children, command_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

START_LIMIT_S: Final = 300.0
STOP_LIMIT_S: Final = 60.0
POLL_S: Final = 0.02
LOG_LINES: Final = 12
ENGINE_MODULE: Final = "router.engine"


class LaunchError(Exception):
    """The server did not start, or did not end; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started.

    Attributes:
        command: argv for a scratch folder; the server must write `ready.json` into it.
        engine_mark: an argument that the engine process has and no other child.

    """

    command: Callable[[Path], tuple[str, ...]]
    engine_mark: str = ENGINE_MODULE


def serve_command(
    catalog: Path, *, slots: int, queue: int, threads: int | None = None
) -> Callable[[Path], tuple[str, ...]]:
    """Return how `pointsman serve` is called on a catalog."""

    def command(folder: Path) -> tuple[str, ...]:
        return (
            *(sys.executable, "-m", "router.cli.main", "serve", "--port", "0"),
            *("--catalog", f"default={catalog.resolve()}"),
            *("--slots", str(slots), "--queue", str(queue)),
            *("--ready-file", str(folder / "ready.json")),
            *(() if threads is None else ("--threads", str(threads))),
        )

    return command


class OwnServer:
    """A server process that was started here."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, mark: str) -> None:
        self.address = ""
        self._process = process
        self._folder = folder
        self._mark = mark

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.returncode

    def engine_pid(self) -> int | None:
        """Return the process id of the engine, or None while there is none."""
        for child in children(self.pid):
            if self._mark in command_line(child):
                return child
        return None

    def terminate(self) -> None:
        """Tell it to stop, as an operator would."""
        self._process.send_signal(signal.SIGTERM)

    async def wait(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Wait for its end; return the exit code.

        Raises:
            LaunchError: it has not ended in time.

        """
        try:
            return await asyncio.wait_for(self._process.wait(), limit_s)
        except TimeoutError:
            raise LaunchError(
                f"the server has not ended after {limit_s:g} s:\n{self._tail()}"
            ) from None

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log's events of a name, in order."""
        found = []
        for line in self._log().splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and event.get("event") == name:
                    found.append(event)
        return found

    async def started(self) -> None:
        """Wait until it serves.

        Raises:
            LaunchError: it ended, or was not ready in time.

        """
        ready = self._folder / "ready.json"
        try:
            async with asyncio.timeout(START_LIMIT_S):
                while not ready.is_file():
                    if self.exit_code is not None:
                        raise LaunchError(
                            f"the server ended with {self.exit_code}:\n{self._tail()}"
                        )
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise LaunchError(
                f"the server is not ready after {START_LIMIT_S:g} s:\n{self._tail()}"
            ) from None
        self.address = str(json.loads(ready.read_text(encoding="utf-8"))["address"])

    def _log(self) -> str:
        return (self._folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def _tail(self) -> str:
        return "\n".join(self._log().splitlines()[-LOG_LINES:])


def _clear(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ready.json").unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def own_server(launch: Launch, folder: Path) -> AsyncIterator[OwnServer]:
    """Run a server; yields it once requests are served, and ends it whatever happens.

    Raises:
        LaunchError: it did not start.

    """
    await asyncio.to_thread(_clear, folder)
    with (folder / "server.log").open("wb") as log:
        # A group of its own: Ctrl-C reaches the load test, which then ends the server in order.
        process = await asyncio.create_subprocess_exec(
            *launch.command(folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=dict(os.environ),
        )
    server = OwnServer(process, folder, launch.engine_mark)
    try:
        await server.started()
        yield server
    finally:
        if server.exit_code is None:
            server.terminate()
            try:
                await server.wait()
            except LaunchError:
                process.kill()
                await process.wait()
                raise
