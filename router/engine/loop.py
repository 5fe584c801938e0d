"""The engine's loop: messages in, one pass, replies out.

Owns the order of work in the engine process: every message that has come is taken before the next
forward pass, so a cancelled job is gone within one pass. A job that fails fails alone. Never knows
what a tool is and never touches a descriptor: an inbox and a `send` are handed in.
"""

from __future__ import annotations

import dataclasses
import queue
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from router.engine import wire
from router.engine.backend import CatalogRefusedError
from router.engine.errors import JobFault
from router.jobs import (
    JobError,
    NothingAllowedError,
    NothingVisibleError,
    RouteJob,
    TooLongError,
    UnknownCatalogError,
)

if TYPE_CHECKING:
    from router.engine.backend import Backend, Ended
    from router.engine.facts import CatalogFacts
    from router.engine.wire import Message

PROBE_TEXT: Final = "What time is it in Lisbon right now?"
"""The request every catalog must answer before it is called ready."""


class Send(Protocol):
    """Hands a message to the service."""

    def __call__(self, message: Message) -> None:
        """Send it; blocks while the pipe is full."""
        ...


class ProbeFailedError(Exception):
    """A catalog did not answer the probe, so it is not served."""


class EngineLoop:
    """Feeds a backend from an inbox.

    Args:
        backend: what computes.
        inbox: messages from the service; `stop` ends the loop.
        send: takes the replies.

    """

    def __init__(self, backend: Backend, inbox: queue.SimpleQueue[Message], send: Send) -> None:
        self._backend = backend
        self._inbox = inbox
        self._send = send
        self._running: dict[int, int] = {}  # handle -> message id
        self._handles: dict[int, int] = {}  # message id -> handle
        self._probing: dict[int, tuple[int, CatalogFacts]] = {}  # handle -> (message id, facts)
        self._stopping = False
        self.probe_s = 0.0
        """Seconds that the latest probe at the start took, alone."""

    def open_at_start(self, paths: tuple[str, ...]) -> list[CatalogFacts]:
        """Open catalogs and route the probe over each, alone.

        Raises:
            CatalogRefusedError: one can't be opened.
            ProbeFailedError: one does not answer.

        """
        opened = []
        for path in paths:
            facts = self._backend.open_catalog(Path(path))
            began = time.perf_counter()
            handle = self._backend.submit(_probe(facts))
            ended: list[Ended] = []
            while not ended:
                ended = self._backend.step()
            self.probe_s = time.perf_counter() - began
            _check_probe(facts, handle, ended[0])
            opened.append(facts)
        return opened

    def run(self) -> None:
        """Serve until `stop` comes and every job has ended."""
        while not (self._stopping and not self._running and not self._probing):
            busy = bool(self._running or self._probing)
            self._take_messages(wait=not busy)
            if self._running or self._probing:
                for ended in self._backend.step():
                    self._reply(ended)

    def _take_messages(self, *, wait: bool) -> None:
        while True:
            try:
                message = self._inbox.get(block=wait)
            except queue.Empty:
                return
            wait = False
            self._handle(message)

    def _handle(self, message: Message) -> None:
        match message["op"]:
            case "route":
                self._route(message)
            case "cancel":
                self._cancel(message["id"])
            case "open":
                self._open(message)
            case "close":
                self._backend.close_catalog(message["digest"])
            case "tools":
                self._tools(message)
            case "ping":
                self._send({"op": "pong", "id": message["id"]})
            case "stop":
                self._stopping = True
            case unknown:
                raise ValueError(f"the service sent {unknown!r}, which this engine does not know")

    def _route(self, message: Message) -> None:
        try:
            handle = self._backend.submit(wire.job_from_wire(message["job"]))
        except Exception as error:  # noqa: BLE001  (a job's fault is reported, never fatal)
            self._fail(message["id"], error)
            return
        self._running[handle] = message["id"]
        self._handles[message["id"]] = handle

    def _cancel(self, message_id: int) -> None:
        handle = self._handles.pop(message_id, None)
        if handle is None:
            return  # It has ended; its reply is on the way.
        del self._running[handle]
        self._backend.cancel(handle)
        self._send({"op": "cancelled", "id": message_id})

    def _open(self, message: Message) -> None:
        try:
            facts = self._backend.open_catalog(Path(message["path"]))
            handle = self._backend.submit(_probe(facts))
        except Exception as error:  # noqa: BLE001  (what was open before still is)
            self._fail(message["id"], error)
            return
        self._probing[handle] = (message["id"], facts)

    def _tools(self, message: Message) -> None:
        try:
            tools = self._backend.tools(
                message["digest"],
                message["start"],
                message["limit"],
                wire.rule_from_wire(message["visible"]),
            )
        except Exception as error:  # noqa: BLE001
            self._fail(message["id"], error)
            return
        raw = [dataclasses.asdict(tool) for tool in tools]
        self._send({"op": "tools", "id": message["id"], "tools": raw})

    def _reply(self, ended: Ended) -> None:
        if ended.handle in self._probing:
            message_id, facts = self._probing.pop(ended.handle)
            try:
                _check_probe(facts, ended.handle, ended)
            except ProbeFailedError as error:
                self._backend.close_catalog(facts.digest)
                self._fail(message_id, error)
                return
            catalog = dataclasses.asdict(facts)
            self._send({"op": "opened", "id": message_id, "catalog": catalog})
            return
        message_id = self._running.pop(ended.handle)
        del self._handles[message_id]
        if ended.answer is None:
            self._fail(message_id, ended.error or RuntimeError("it ended without a result"))
            return
        answer = wire.answer_to_wire(ended.answer)
        self._send({"op": "answer", "id": message_id, "answer": answer})

    def _fail(self, message_id: int, error: Exception) -> None:
        text = str(error) or type(error).__name__
        self._send({"op": "error", "id": message_id, "fault": _fault(error), "message": text})


def _fault(error: Exception) -> JobFault:
    if isinstance(error, UnknownCatalogError):
        return JobFault.UNKNOWN_CATALOG
    if isinstance(error, NothingAllowedError):
        return JobFault.EMPTY_TOOLSET
    if isinstance(error, NothingVisibleError):
        return JobFault.FORBIDDEN_TOOLSET
    if isinstance(error, TooLongError):
        return JobFault.TOO_LONG
    if isinstance(error, JobError):
        return JobFault.INVALID
    if isinstance(error, (CatalogRefusedError, ProbeFailedError)):
        return JobFault.BAD_CATALOG
    return JobFault.FAULT


def _probe(facts: CatalogFacts) -> RouteJob:
    return RouteJob(request_id="probe", catalog_digest=facts.digest, text=PROBE_TEXT)


def _check_probe(facts: CatalogFacts, handle: int, ended: Ended) -> None:
    if ended.handle != handle or ended.answer is None:
        reason = ended.error or "another job ended in its place"
        raise ProbeFailedError(f"catalog {facts.path} does not answer a request: {reason}")
    if not ended.answer.ranked.candidates:
        raise ProbeFailedError(f"catalog {facts.path} answers a request with nothing")
