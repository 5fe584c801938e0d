"""A request's way through the service: known already, admitted, in the engine, ended once.

Owns the requests that are open and their callers. A request's work is a task of its own: several
calls with the same id wait for it together, and it is given up when the last of them has left.
Whatever happens, the ledger is told exactly once, when the task ends. Never speaks gRPC.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from router.engine.errors import EngineDownError, EngineJobError, JobCancelledError, JobFault
from router.rpc import router_pb2 as pb
from router.service import log
from router.service.marks import note_admitted
from router.service.rate import RateLimits
from router.service.refusals import NoAnswerError, Outcome, Reason
from router.service.requests import (
    check_arguments_served,
    check_request_id,
    check_size,
    fingerprint,
    make_job,
    make_response,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from router.engine.facts import Answer
    from router.engine.supervisor import Supervisor
    from router.service.admission import Admission, Slot
    from router.service.book import CatalogBook
    from router.service.clients import Caller
    from router.service.ledger import Ledger, RequestKey

UNKNOWN_CLIENT: Final = "unknown"
"""Who offers what nobody known has sent."""

_FAULT_REASONS: Final[dict[JobFault, Reason]] = {
    JobFault.INVALID: pb.REFUSAL_REASON_INVALID,
    JobFault.UNKNOWN_CATALOG: pb.REFUSAL_REASON_UNKNOWN_CATALOG,
    JobFault.EMPTY_TOOLSET: pb.REFUSAL_REASON_EMPTY_TOOLSET,
    JobFault.FORBIDDEN_TOOLSET: pb.REFUSAL_REASON_FORBIDDEN_TOOLSET,
    JobFault.TOO_LONG: pb.REFUSAL_REASON_TOO_LONG,
    JobFault.BAD_CATALOG: pb.REFUSAL_REASON_BAD_CATALOG,
    JobFault.FAULT: pb.REFUSAL_REASON_ENGINE_FAULT,
}


@dataclass(eq=False, slots=True)
class _Work:
    """An open request.

    Attributes:
        key: whose it is, and its id.
        callers: calls waiting for it.
        deadline: the latest of theirs.
        started: whether the engine has been given the job.
        expired: whether it was given up because its last caller's deadline passed.

    """

    key: RequestKey
    fingerprint: bytes
    arrived: float
    deadline: float
    callers: int = 0
    started: bool = False
    expired: bool = False
    task: asyncio.Task[pb.RouteResponse] | None = None


class RouteDesk:
    """Takes requests and sees each to its one end."""

    def __init__(
        self,
        engine: Supervisor,
        book: CatalogBook,
        admission: Admission,
        ledger: Ledger,
        *,
        arguments: bool,
    ) -> None:
        self.draining = False
        self._arguments = arguments
        self._engine = engine
        self._book = book
        self._admission = admission
        self._ledger = ledger
        self._rates = RateLimits()
        self._open: dict[RequestKey, _Work] = {}
        self._tasks: set[asyncio.Task[pb.RouteResponse]] = set()
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    async def at_rest(self) -> None:
        """Wait until no request is open and the engine holds none."""
        while self._tasks or not self._admission.idle:
            self._at_rest.clear()
            await self._at_rest.wait()

    def refuse(self, error: NoAnswerError, client: str = UNKNOWN_CLIENT) -> NoAnswerError:
        """Count a request that can't even be read, or whose caller is not known; return `error`."""
        self._ledger.offer(client)
        self._ledger.end_without(client, error.outcome, error.reason)
        self._log_end("", error.outcome, error.reason, 0.0)
        return error

    async def route(
        self, request: pb.RouteRequest, deadline: float, caller: Caller
    ) -> pb.RouteResponse:
        """Answer a request by `deadline`, a time of the event loop's clock.

        Raises:
            NoAnswerError: it ends without an answer; its outcome is what the ledger counts.

        """
        work = self._join(request, deadline, caller)
        if isinstance(work, pb.RouteResponse):
            return work
        assert work.task is not None
        loop = asyncio.get_running_loop()
        work.callers += 1
        work.deadline = max(work.deadline, deadline)
        try:
            done, _ = await asyncio.wait({work.task}, timeout=max(deadline - loop.time(), 0.0))
        except asyncio.CancelledError:
            self._leave(work, expired=loop.time() >= deadline)
            raise
        self._leave(work, expired=True)
        if done:
            return work.task.result()
        raise self._expiry(work)

    def _leave(self, work: _Work, *, expired: bool) -> None:
        """Count a caller out; the last one gives the request up where it is still open."""
        work.callers -= 1
        assert work.task is not None
        if work.callers or work.task.done():
            return
        work.expired = expired
        work.task.cancel()
        if self._open.get(work.key) is work:
            del self._open[work.key]  # Nobody may join what is being given up.

    def _join(
        self, request: pb.RouteRequest, deadline: float, caller: Caller
    ) -> _Work | pb.RouteResponse:
        """Return the recorded answer, the open request with this id, or a new one."""
        try:
            check_size(request)
        except NoAnswerError as error:
            return self._begin_refused((caller.id, ""), deadline, error)
        mark = fingerprint(request)
        key = (caller.id, request.request_id)
        if request.request_id:
            work = self._open.get(key)
            if work is not None and work.fingerprint == mark:
                self._ledger.repeat()
                return work
            recorded = self._ledger.recorded(key)
            if recorded is not None and recorded.fingerprint == mark:
                self._ledger.repeat()
                return recorded.response
            if work is not None or recorded is not None:
                return self._begin_refused(
                    key,
                    deadline,
                    NoAnswerError(
                        pb.REFUSAL_REASON_INVALID,
                        "this request_id belongs to a request with another content; use a new one",
                    ),
                )
        else:
            key = (caller.id, uuid.uuid4().hex)
        work = _Work(key, mark, asyncio.get_running_loop().time(), deadline)
        self._open[key] = work
        self._start(work, self._run(work, request, caller))
        return work

    def _begin_refused(self, key: RequestKey, deadline: float, error: NoAnswerError) -> _Work:
        """Open and end a request that must not be found under its id."""

        async def refused() -> pb.RouteResponse:
            raise error

        work = _Work(key, b"", asyncio.get_running_loop().time(), deadline)
        self._start(work, refused())
        return work

    def _start(self, work: _Work, what: Coroutine[Any, Any, pb.RouteResponse]) -> None:
        self._ledger.offer(work.key[0])
        work.task = asyncio.create_task(what)
        self._tasks.add(work.task)
        work.task.add_done_callback(lambda task: self._close(work, task))

    async def _run(self, work: _Work, request: pb.RouteRequest, caller: Caller) -> pb.RouteResponse:
        if self.draining:
            raise NoAnswerError(
                pb.REFUSAL_REASON_DRAINING,
                "this server is shutting down; go to another or come back",
            )
        check_request_id(work.key[1])
        check_arguments_served(request, served=self._arguments)
        digest = self._book.resolve(request.catalog)
        caller.check_catalog(request.catalog or self._book.default, digest)
        job = make_job(request, work.key[1], digest, caller.policy.visible)
        self._check_rate(caller)
        self._book.hold(job.catalog_digest)
        try:
            slot = await self._admission.enter(lambda: work.deadline, caller.share)
            entered = asyncio.get_running_loop().time()
            self._ledger.enter(entered - work.arrived)
            note_admitted(work.key[1], entered)
            try:
                call = self._engine.submit(job)
            except EngineDownError as error:
                slot.release()
                raise _engine_down(error, Outcome.REFUSED) from error
            work.started = True
            facts = self._engine.facts
            assert facts is not None
            tokens = facts.slot_tokens
            self._ledger.reserve(tokens)
            call.ended.add_done_callback(lambda done: self._free(slot, tokens, done))
            try:
                answer = await asyncio.shield(call.ended)
            except asyncio.CancelledError:
                call.cancel()
                raise
            except (EngineDownError, EngineJobError, JobCancelledError) as error:
                raise _engine_end(error) from error
            return self._respond(work, answer, facts.model_digest, entered)
        finally:
            self._book.let_go(job.catalog_digest)

    def _check_rate(self, caller: Caller) -> None:
        per_minute = caller.policy.requests_per_minute
        if not per_minute:
            return
        now = asyncio.get_running_loop().time()
        pause_s = self._rates.pause_s(caller.id, per_minute, now)
        if pause_s is not None:
            raise NoAnswerError(
                pb.REFUSAL_REASON_OVER_QUOTA,
                f"this client may offer {per_minute} requests a minute",
                retry_after_s=pause_s,
            )

    def _free(self, slot: Slot, tokens: int, ended: asyncio.Future[Answer]) -> None:
        """Give a slot back once the engine holds nothing of its job."""
        answered = not ended.cancelled() and ended.exception() is None
        slot.release(answered=answered)
        used = ended.result().ranked.usage.most_held_tokens if answered else 0
        self._ledger.settle(tokens, used)
        self._note_rest()

    def _respond(
        self, work: _Work, answer: Answer, model_digest: str, entered: float
    ) -> pb.RouteResponse:
        now = asyncio.get_running_loop().time()
        return make_response(
            answer, model_digest, queue_s=entered - work.arrived, total_s=now - work.arrived
        )

    def _expiry(self, work: _Work) -> NoAnswerError:
        """Return what a caller is told whose deadline has passed."""
        if work.callers:
            outcome = Outcome.PENDING  # Others still wait for it: it has not ended.
        else:
            outcome = Outcome.CANCELLED if work.started else Outcome.REFUSED
        state = "while it ran" if work.started else "before it could start"
        return NoAnswerError(
            pb.REFUSAL_REASON_EXPIRED, f"its deadline passed {state}", outcome=outcome
        )

    def _close(self, work: _Work, task: asyncio.Task[pb.RouteResponse]) -> None:
        """Tell the ledger, once, how a request ended."""
        self._tasks.discard(task)
        if self._open.get(work.key) is work:
            del self._open[work.key]
        took_s = asyncio.get_running_loop().time() - work.arrived
        reason: Reason | None = None
        if task.cancelled():
            refused = work.expired and not work.started
            outcome = Outcome.REFUSED if refused else Outcome.CANCELLED
            reason = pb.REFUSAL_REASON_EXPIRED if work.expired else None
        else:
            error = task.exception()
            if error is None:
                outcome = Outcome.ANSWERED
            elif isinstance(error, NoAnswerError):
                outcome, reason = error.outcome, error.reason
            else:
                outcome, reason = Outcome.FAILED, pb.REFUSAL_REASON_INTERNAL
                log.fault("fault", error, request_id=work.key[1])
        if outcome is Outcome.ANSWERED:
            self._ledger.answer(work.key, work.fingerprint, task.result(), took_s)
        else:
            self._ledger.end_without(work.key[0], outcome, reason)
        self._log_end(work.key[1], outcome, reason, took_s)
        self._note_rest()

    def _log_end(
        self, request_id: str, outcome: Outcome, reason: Reason | None, took_s: float
    ) -> None:
        log.event(
            "request",
            level=logging.DEBUG if outcome is Outcome.ANSWERED else logging.INFO,
            request_id=request_id[:128],
            outcome=outcome.value,
            reason=None if reason is None else pb.RefusalReason.Name(reason),
            millis=round(1000 * took_s, 3),
        )

    def _note_rest(self) -> None:
        if not self._tasks and self._admission.idle:
            self._at_rest.set()


def _engine_down(error: EngineDownError, outcome: Outcome) -> NoAnswerError:
    return NoAnswerError(
        pb.REFUSAL_REASON_ENGINE_DOWN,
        str(error),
        outcome=outcome,
        retry_after_s=error.retry_after_s,
    )


def _engine_end(error: EngineDownError | EngineJobError | JobCancelledError) -> NoAnswerError:
    """Say why the engine has no answer to a job that it was given."""
    if isinstance(error, EngineDownError):
        return _engine_down(error, Outcome.FAILED)
    if isinstance(error, JobCancelledError):
        return NoAnswerError(pb.REFUSAL_REASON_INTERNAL, str(error), outcome=Outcome.FAILED)
    reason = _FAULT_REASONS[error.fault]
    failed = error.fault is JobFault.FAULT
    return NoAnswerError(reason, str(error), outcome=Outcome.FAILED if failed else Outcome.REFUSED)
