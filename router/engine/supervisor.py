"""Keeps one engine process alive and speaks with it.

Owns the child: its spawning, its heartbeat, its death and its restart with growing pauses; and the
table of what it has been asked. Every call ends: with a reply, or with EngineDownError when the
engine goes away under it. Never imports gRPC, and never computes: it lives on the service's event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import itertools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from router.engine import wire
from router.engine.errors import (
    EngineDownError,
    EngineJobError,
    EngineStartError,
    JobCancelledError,
    JobFault,
    WireError,
)
from router.engine.facts import EngineFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from router.engine.facts import Answer, CatalogFacts, EngineConfig, ToolFacts
    from router.engine.wire import Message
    from router.jobs import AllowRule, RouteJob

    Reply = TypeVar("Reply")

ENGINE_COMMAND = (sys.executable, "-m", "router.engine")


@dataclass(frozen=True, slots=True)
class SupervisorConfig:
    """How patient the supervisor is; seconds.

    Attributes:
        heartbeat_s: pause between two pings.
        quiet_after_s: an engine that has not answered a ping for so long takes no new request, and
            serves again with its next answer.
        unresponsive_after_s: an engine that has not answered a ping for so long is ended.
        start_timeout_s: an engine that is not ready after so long is ended.
        first_pause_s: pause before the first restart; doubled for each that fails.
        longest_pause_s: longest pause between restarts.
        stop_timeout_s: an engine told to stop is ended after so long.

    """

    heartbeat_s: float = 1.0
    quiet_after_s: float = 5.0
    unresponsive_after_s: float = 60.0
    start_timeout_s: float = 900.0
    first_pause_s: float = 0.2
    longest_pause_s: float = 10.0
    stop_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what is not positive."""
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"SupervisorConfig.{field.name} must be above 0")


class EngineState(enum.Enum):
    """Where the engine stands."""

    STARTING = "starting"
    SERVING = "serving"
    SILENT = "silent"
    DOWN = "down"
    STOPPED = "stopped"


class EngineCall:
    """A job in the engine.

    Attributes:
        ended: done exactly when the engine holds nothing of the job any more: with its Answer, or
            EngineJobError, JobCancelledError or EngineDownError.

    """

    def __init__(
        self, supervisor: Supervisor, message_id: int, ended: asyncio.Future[Answer]
    ) -> None:
        self.ended = ended
        self._supervisor = supervisor
        self._message_id = message_id

    def cancel(self) -> None:
        """Ask the engine to give the job up; `ended` tells when it has."""
        self._supervisor.cancel(self._message_id)


class Supervisor:
    """One engine process at a time.

    Args:
        config: how the engine is started; `catalogs` is kept up to date by `serve_catalogs`.
        command: argv of the engine process.
        patience: time limits.
        on_change: called on the event loop whenever `state` changes.

    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        command: Iterable[str] = ENGINE_COMMAND,
        patience: SupervisorConfig | None = None,
        on_change: Callable[[EngineState, str], None] | None = None,
    ) -> None:
        self.config = config
        self.state = EngineState.DOWN
        self.starts = 0
        self.facts: EngineFacts | None = None
        self.on_change = on_change
        self._command = tuple(command)
        self._patience = patience or SupervisorConfig()
        self._process: asyncio.subprocess.Process | None = None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)
        self._keeper: asyncio.Task[None] | None = None
        self._first: asyncio.Future[EngineFacts] | None = None
        self._last_pong = 0.0
        self._start_s = 0.0
        self._next_start_at = 0.0

    @property
    def pid(self) -> int | None:
        """Process id of the engine, or None without one."""
        return self._process.pid if self._process is not None else None

    @property
    def retry_after_s(self) -> float:
        """Seconds until an engine is expected to answer: the pause that is left and a start."""
        now = asyncio.get_running_loop().time()
        return max(self._next_start_at - now, 0.0) + max(self._start_s, 0.1)

    async def start(self) -> None:
        """Spawn the first engine; returns once the process exists. `ready` waits for it."""
        self._first = asyncio.get_running_loop().create_future()
        process = await self._spawn()
        self._keeper = asyncio.create_task(self._keep(process), name="engine keeper")

    async def ready(self) -> EngineFacts:
        """Wait for the first engine.

        Raises:
            EngineStartError: it refused to start; no further one is tried.

        """
        if self._first is None:
            raise EngineStartError("the engine was never started")
        return await asyncio.shield(self._first)

    def submit(self, job: RouteJob) -> EngineCall:
        """Hand a job over.

        Raises:
            EngineDownError: there is no engine now.

        """
        message_id, future = self._ask({"op": "route", "job": wire.job_to_wire(job)})
        return EngineCall(self, message_id, future)

    def cancel(self, message_id: int) -> None:
        """Ask for a job to be given up; one that has ended is no error."""
        if message_id in self._pending:
            self._write({"op": "cancel", "id": message_id})

    async def open_catalog(self, path: str) -> CatalogFacts:
        """Open a compiled catalog and have it answer a probe.

        Raises:
            EngineJobError: it can't be opened.
            EngineDownError: there is no engine.

        """
        facts: CatalogFacts = await self._ask({"op": "open", "path": path})[1]
        return facts

    def close_catalog(self, digest: str) -> None:
        """Let the engine forget a catalog."""
        if self.state in (EngineState.SERVING, EngineState.SILENT):
            self._write({"op": "close", "digest": digest})

    async def tools(
        self, digest: str, start: int, limit: int, visible: AllowRule | None = None
    ) -> list[ToolFacts]:
        """Return a page of a catalog's visible tools; raises as `open_catalog`."""
        message = {
            "op": "tools", "digest": digest, "start": start, "limit": limit,
            "visible": wire.rule_to_wire(visible),
        }  # fmt: skip
        page: list[ToolFacts] = await self._ask(message)[1]
        return page

    def serve_catalogs(self, paths: Iterable[str]) -> None:
        """Say which catalogs the next engine opens at its start."""
        self.config = dataclasses.replace(self.config, catalogs=tuple(paths))

    async def stop(self) -> None:
        """End the engine and wait for it; whatever it still held ends as EngineDownError."""
        serving = self.state is EngineState.SERVING
        self._change(EngineState.STOPPED, "the service stops")
        keeper, self._keeper = self._keeper, None
        if self._process is not None and serving:
            self._write({"op": "stop"})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), self._patience.stop_timeout_s)
        if keeper is not None:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
        await self._reap()
        if self._first is not None and not self._first.done():
            self._first.set_exception(EngineStartError("the engine was stopped as it started"))
        if self._first is not None and not self._first.cancelled():
            self._first.exception()  # Whoever cares has asked by now.

    # -- the child's life --------------------------------------------------------------------

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        """Serve one engine after another until stopped, or until the first refuses."""
        pause = self._patience.first_pause_s
        while True:
            reason = await self._live(process)
            served = self.state in (EngineState.SERVING, EngineState.SILENT)
            if self.state is EngineState.STOPPED:
                return
            pause = self._patience.first_pause_s if served else pause
            self._next_start_at = asyncio.get_running_loop().time() + pause
            self._lose(reason)
            await self._reap()
            if self._first is not None and not self._first.done():
                self._first.set_exception(EngineStartError(reason))
                return
            while True:
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._patience.longest_pause_s)
                try:
                    process = await self._spawn()
                    break
                except OSError as error:
                    self._next_start_at = asyncio.get_running_loop().time() + pause
                    self._change(EngineState.DOWN, f"the engine can't be spawned: {error}")

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # The terminal's interrupt is the service's to answer.
        )
        self.starts += 1
        self._write({"op": "start", "config": dataclasses.asdict(self.config)})
        self._change(EngineState.STARTING, f"engine process {self._process.pid}")
        return self._process

    async def _live(self, process: asyncio.subprocess.Process) -> str:
        """Read the engine's messages until it ends; return why it did."""
        clock = asyncio.get_running_loop().time
        born = clock()
        assert process.stdout is not None
        beat: asyncio.Task[str] | None = None
        try:
            async with asyncio.timeout(self._patience.start_timeout_s) as starting:
                while True:
                    message = await wire.receive(process.stdout)
                    if message["op"] == "fatal":
                        return str(message["message"])
                    if message["op"] == "ready":
                        starting.reschedule(None)
                        self._start_s = clock() - born
                        self._last_pong = clock()
                        self._become_ready(message)
                        beat = asyncio.create_task(self._beat(process), name="engine heartbeat")
                        continue
                    self._dispatch(message)
        except TimeoutError:
            return f"the engine was not ready after {self._patience.start_timeout_s:g} s"
        except asyncio.IncompleteReadError:
            if beat is not None and beat.done() and not beat.cancelled():
                return beat.result()
            return f"the engine ended ({await _exit_of(process)})"
        except (WireError, KeyError, TypeError, ValueError) as error:
            return f"the engine sent what is no message: {error}"
        finally:
            if beat is not None:
                beat.cancel()

    async def _beat(self, process: asyncio.subprocess.Process) -> str:
        """Ping until the engine is too long silent; then end it and say so."""
        clock = asyncio.get_running_loop().time
        limit = self._patience.unresponsive_after_s
        while (silence := clock() - self._last_pong) <= limit:
            if silence > self._patience.quiet_after_s and self.state is EngineState.SERVING:
                self._change(EngineState.SILENT, f"no answer to a ping for {silence:.1f} s")
            self._write({"op": "ping", "id": 0})
            await asyncio.sleep(self._patience.heartbeat_s)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return f"the engine was silent for {limit:g} s and was ended"

    def _become_ready(self, message: Message) -> None:
        catalogs = tuple(wire.catalog_from_wire(raw) for raw in message["catalogs"])
        self.facts = EngineFacts(
            message["model_digest"], catalogs, message["slot_tokens"], message["probe_s"]
        )
        if self._first is not None and not self._first.done():
            self._first.set_result(self.facts)
        if self.state is not EngineState.STOPPED:
            self._change(EngineState.SERVING, f"model {self.facts.model_digest}")

    def _lose(self, reason: str) -> None:
        """Tell everyone at once that the engine is gone."""
        self._change(EngineState.DOWN, reason)
        self._fail_pending(reason)

    def _fail_pending(self, reason: str) -> None:
        pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(EngineDownError(reason, self.retry_after_s))

    async def _reap(self) -> None:
        """Make sure that the child is gone and its descriptors are closed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await process.stdin.wait_closed()
        await process.wait()
        self._fail_pending("the engine was stopped")

    def _change(self, state: EngineState, reason: str) -> None:
        if self.state is EngineState.STOPPED:
            return
        self.state = state
        if self.on_change is not None:
            self.on_change(state, reason)

    # -- messages ----------------------------------------------------------------------------

    def _ask(self, message: Message) -> tuple[int, asyncio.Future[Any]]:
        if self.state is not EngineState.SERVING:
            raise EngineDownError(f"the engine is {self.state.value}", self.retry_after_s)
        message_id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Whoever gave up waiting must not leave "exception was never retrieved" behind.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending[message_id] = future
        self._write({**message, "id": message_id})
        return message_id, future

    def _write(self, message: Message) -> None:
        # A pipe whose reader is gone raises nothing here; the end of its replies tells.
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(wire.encode(message))

    def _dispatch(self, message: Message) -> None:
        if message["op"] == "pong":
            self._last_pong = asyncio.get_running_loop().time()
            if self.state is EngineState.SILENT:
                self._change(EngineState.SERVING, "it answers pings again")
            return
        future = self._pending.pop(message["id"], None)
        if future is None or future.done():
            return
        match message["op"]:
            case "answer":
                future.set_result(wire.answer_from_wire(message["answer"]))
            case "opened":
                future.set_result(wire.catalog_from_wire(message["catalog"]))
            case "tools":
                future.set_result([wire.tool_from_wire(raw) for raw in message["tools"]])
            case "cancelled":
                future.set_exception(JobCancelledError("the job was given up"))
            case "error":
                fault = JobFault(message["fault"])
                future.set_exception(EngineJobError(fault, str(message["message"])))
            case unknown:
                raise WireError(f"its op is {unknown!r}")


async def _exit_of(process: asyncio.subprocess.Process) -> str:
    """Say how a process ended whose output is closed; one that lingers is ended."""
    try:
        code = await asyncio.wait_for(process.wait(), 1.0)
    except TimeoutError:
        return "it closed its output and stayed"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
