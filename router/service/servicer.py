"""The RPCs of `pointsman.v1.RouterService`.

Owns the border to gRPC: deadlines from the call, errors to statuses with details, streams. Never
decides about a request: that is the desk's.
"""

from __future__ import annotations

import asyncio
import functools
import math
import uuid
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from router.engine.errors import CompileError, EngineDownError, EngineJobError
from router.engine.supervisor import EngineState
from router.rpc import router_pb2 as pb
from router.rpc import router_pb2_grpc
from router.service import log
from router.service.clients import identify
from router.service.ledger import TOOLS_COUNTED
from router.service.parsing import Garbled, parsed
from router.service.recent import ANSWERS_KEPT
from router.service.refusals import NoAnswerError, Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from google.protobuf.message import Message
    from grpc.aio import ServicerContext

    from router.engine.compiler import Compiled, CompileRunner, Finding
    from router.engine.supervisor import Supervisor
    from router.service.admission import Admission
    from router.service.book import CatalogBook
    from router.service.clients import Caller
    from router.service.config import ServiceConfig
    from router.service.desk import RouteDesk
    from router.service.ledger import Ledger
    from router.service.policies import Clients

Reply = TypeVar("Reply")

MARGIN_S: Final = 0.025
"""A deadline is met this much early, so that the reply arrives before the client gives up."""

MARGIN_SHARE: Final = 0.1
"""Most of the time left that the margin may take."""

STREAM_WINDOW: Final = 256
"""Requests of one stream that may be open or undelivered before more are read from it."""

STREAM_PAUSE_S: Final = 1.0
"""Pause told to a stream that is one too many; how long streams last is up to their callers."""

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000
DIAGNOSTICS_MAX: Final = 1000
TOOLS_DEFAULT: Final = 100
CLIENTS_MAX: Final = 100

_FORMATS: Final[dict[pb.SourceFormat.ValueType, str]] = {
    pb.SOURCE_FORMAT_UNSPECIFIED: "auto",
    pb.SOURCE_FORMAT_MCP: "mcp",
    pb.SOURCE_FORMAT_OPENAI: "openai",
    pb.SOURCE_FORMAT_ANTHROPIC: "anthropic",
    pb.SOURCE_FORMAT_OPENAPI: "openapi",
}
_SEVERITIES: Final = {
    "error": pb.SEVERITY_ERROR,
    "warning": pb.SEVERITY_WARNING,
    "info": pb.SEVERITY_INFO,
}


class RouterServicer(router_pb2_grpc.RouterServiceServicer):
    """Answers the RPCs."""

    def __init__(
        self,
        config: ServiceConfig,
        engine: Supervisor,
        desk: RouteDesk,
        book: CatalogBook,
        admission: Admission,
        ledger: Ledger,
        compiler: CompileRunner,
        clients: Clients,
    ) -> None:
        self._config = config
        self._engine = engine
        self._desk = desk
        self._book = book
        self._admission = admission
        self._ledger = ledger
        self._compiler = compiler
        self._clients = clients
        self._started = asyncio.get_running_loop().time()
        self._streams: set[asyncio.Queue[pb.RouteStreamResponse | None]] = set()
        self._errands: set[asyncio.Task[Any]] = set()

    def close_streams(self) -> None:
        """End the streams that are still open, and the compilations; for the end of a drain."""
        for results in self._streams:
            results.put_nowait(None)
        for errand in self._errands:
            errand.cancel()

    async def Route(  # noqa: N802
        self, request: pb.RouteRequest, context: ServicerContext[Any, Any]
    ) -> pb.RouteResponse:
        """Route one request."""
        return await _reply(context, self._route(request, context))

    async def _route(
        self, request: pb.RouteRequest, context: ServicerContext[Any, Any]
    ) -> pb.RouteResponse:
        try:
            caller = self._caller(context)
            parsed(request)
        except NoAnswerError as error:
            raise self._desk.refuse(error) from None
        return await self._desk.route(request, self._deadline(context), caller)

    async def RouteStream(  # noqa: N802
        self,
        request_iterator: AsyncIterator[pb.RouteStreamRequest],
        context: ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.RouteStreamResponse]:
        """Route the requests of a stream, each by itself."""
        results: asyncio.Queue[pb.RouteStreamResponse | None] = asyncio.Queue()
        window = asyncio.Semaphore(STREAM_WINDOW)
        remaining = context.time_remaining()
        limit = math.inf if remaining is None else self._deadline(context)
        try:
            caller = self._caller(context)
            self._check_streams()
        except NoAnswerError as refused:
            await _abort(context, refused)
        reader = asyncio.create_task(
            self._read_stream(request_iterator, limit, results, window, caller)
        )
        self._streams.add(results)
        try:
            while (result := await results.get()) is not None:
                yield result
                window.release()
            if not reader.done():
                await _abort(context, _draining())
            if (error := reader.exception()) is not None:
                log.fault("fault", error)
                await _abort(context, _internal())
        finally:
            self._streams.discard(results)
            reader.cancel()

    async def _read_stream(
        self,
        requests: AsyncIterator[pb.RouteStreamRequest],
        limit: float,
        results: asyncio.Queue[pb.RouteStreamResponse | None],
        window: asyncio.Semaphore,
        caller: Caller,
    ) -> None:
        """Start each request as it comes; end once all have their result."""

        async def answer(item: pb.RouteStreamRequest) -> None:
            results.put_nowait(await self._stream_result(item, limit, caller))

        try:
            async with asyncio.TaskGroup() as group:
                await window.acquire()
                async for item in requests:
                    group.create_task(answer(item))
                    await window.acquire()
        finally:
            results.put_nowait(None)

    async def _stream_result(
        self, item: pb.RouteStreamRequest | Garbled, limit: float, caller: Caller
    ) -> pb.RouteStreamResponse:
        """Route one request of a stream by `limit`; whatever becomes of it is a result."""
        try:
            read = parsed(item)
        except NoAnswerError as error:
            refusal = self._desk.refuse(error, caller.id).status()
            return pb.RouteStreamResponse(refusal=refusal)
        request = read.request
        request.request_id = request.request_id or uuid.uuid4().hex
        left_s = self._config.default_timeout_s if math.isinf(limit) else math.inf
        if read.HasField("timeout"):
            left_s = read.timeout.seconds + 1e-9 * read.timeout.nanos
        deadline = min(limit, asyncio.get_running_loop().time() + left_s)
        try:
            response = await self._desk.route(request, deadline, caller)
        except NoAnswerError as error:
            return pb.RouteStreamResponse(request_id=request.request_id, refusal=error.status())
        except Exception as error:  # noqa: BLE001  (one bad request never ends the stream)
            log.fault("fault", error, request_id=request.request_id)
            refusal = _internal().status()
            return pb.RouteStreamResponse(request_id=request.request_id, refusal=refusal)
        return pb.RouteStreamResponse(request_id=request.request_id, answer=response)

    async def ListCatalogs(  # noqa: N802
        self, request: pb.ListCatalogsRequest, context: ServicerContext[Any, Any]
    ) -> pb.ListCatalogsResponse:
        """List the catalogs that the caller may route over."""
        return await _reply(context, self._list_catalogs(request, context))

    async def GetCatalog(  # noqa: N802
        self, request: pb.GetCatalogRequest, context: ServicerContext[Any, Any]
    ) -> pb.GetCatalogResponse:
        """Describe a catalog."""
        return await _reply(context, self._get_catalog(request, context))

    async def CompileCatalog(  # noqa: N802
        self, request: pb.CompileCatalogRequest, context: ServicerContext[Any, Any]
    ) -> pb.CompileCatalogResponse:
        """Compile definitions in a process of its own."""
        remaining = context.time_remaining()
        limit_s = self._config.compile_timeout_s
        if remaining is not None:
            limit_s = min(limit_s, _with_margin(remaining))
        work = functools.partial(self._compile, request, limit_s)
        return await _reply(context, self._errand("compile catalogs", request, context, work))

    async def ActivateCatalog(  # noqa: N802
        self, request: pb.ActivateCatalogRequest, context: ServicerContext[Any, Any]
    ) -> pb.ActivateCatalogResponse:
        """Let a name stand for another catalog."""
        work = functools.partial(self._activate, request)
        return await _reply(context, self._errand("activate catalogs", request, context, work))

    async def Stats(  # noqa: N802
        self, request: pb.StatsRequest, context: ServicerContext[Any, Any]
    ) -> pb.StatsResponse:
        """Report the counters."""
        return await _reply(context, self._report(request, context))

    def _caller(self, context: ServicerContext[Any, Any]) -> Caller:
        """Return who calls; raises NoAnswerError."""
        metadata = [(key, value) for key, value in context.invocation_metadata() or ()]
        identity = context.auth_context()
        names = [
            name.decode(errors="replace")
            for kind in ("x509_common_name", "x509_subject_alternative_name")
            for name in identity.get(kind, ())
        ]
        return identify(self._clients, metadata, names, context.peer())

    def _check_streams(self) -> None:
        if len(self._streams) >= self._config.max_streams:
            raise NoAnswerError(
                pb.REFUSAL_REASON_QUEUE_FULL,
                f"{len(self._streams)} streams are open already; use one for many requests",
                retry_after_s=STREAM_PAUSE_S,
            )

    def _deadline(self, context: ServicerContext[Any, Any]) -> float:
        remaining = context.time_remaining()
        left = self._config.default_timeout_s if remaining is None else _with_margin(remaining)
        return asyncio.get_running_loop().time() + left

    async def _errand(
        self,
        what: str,
        request: Message,
        context: ServicerContext[Any, Any],
        work: Callable[[], Coroutine[Any, Any, Reply]],
    ) -> Reply:
        """Do administrative work, for those who may, that a drain may cut short."""
        self._caller(context).check_admin(what)
        parsed(request)
        if self._desk.draining:
            raise _draining()
        errand = asyncio.create_task(work())
        self._errands.add(errand)
        try:
            return await errand
        except asyncio.CancelledError:
            errand.cancel()
            if self._desk.draining:
                raise _draining() from None
            raise
        finally:
            self._errands.discard(errand)

    async def _list_catalogs(
        self, request: pb.ListCatalogsRequest, context: ServicerContext[Any, Any]
    ) -> pb.ListCatalogsResponse:
        caller = self._caller(context)
        parsed(request)
        mine = [c for c in self._book.active() if caller.may_use(c.name, c.digest)]
        return pb.ListCatalogsResponse(catalogs=mine)

    async def _report(
        self, request: pb.StatsRequest, context: ServicerContext[Any, Any]
    ) -> pb.StatsResponse:
        self._caller(context)
        known = parsed(request)
        if known.last_answers > ANSWERS_KEPT:
            raise NoAnswerError(
                pb.REFUSAL_REASON_INVALID,
                f"last_answers is {known.last_answers}; the latest {ANSWERS_KEPT} are kept",
            )
        found = self._stats(min(known.max_tools or TOOLS_DEFAULT, TOOLS_COUNTED))
        if known.last_answers:
            found.recent.CopyFrom(self._recent(known.last_answers))
        return found

    async def _get_catalog(
        self, request: pb.GetCatalogRequest, context: ServicerContext[Any, Any]
    ) -> pb.GetCatalogResponse:
        caller = self._caller(context)
        parsed(request)
        catalog = self._book.describe(request.catalog)
        caller.check_catalog(catalog.name or request.catalog, catalog.digest)
        size = request.page_size or PAGE_DEFAULT
        token = request.page_token or "0"
        if size > PAGE_MAX:
            raise NoAnswerError(
                pb.REFUSAL_REASON_INVALID, f"page_size is {size}; at most {PAGE_MAX} are given"
            )
        if not (token.isascii() and token.isdecimal() and len(token) < 10):
            raise NoAnswerError(
                pb.REFUSAL_REASON_INVALID, "page_token is none that this server gave"
            )
        start = int(token)
        try:
            tools = await self._engine.tools(catalog.digest, start, size, caller.policy.visible)
        except EngineDownError as error:
            raise NoAnswerError(
                pb.REFUSAL_REASON_ENGINE_DOWN, str(error), retry_after_s=error.retry_after_s
            ) from error
        except EngineJobError as error:
            raise NoAnswerError(pb.REFUSAL_REASON_UNKNOWN_CATALOG, str(error)) from error
        end = start + len(tools)
        return pb.GetCatalogResponse(
            catalog=catalog,
            tools=[
                pb.ToolSummary(
                    name=tool.name,
                    namespace=tool.namespace,
                    description=tool.description,
                    tags=tool.tags,
                )
                for tool in tools
            ],
            next_page_token=str(end) if len(tools) == size and end < catalog.tool_count else "",
        )

    async def _compile(
        self, request: pb.CompileCatalogRequest, limit_s: float
    ) -> pb.CompileCatalogResponse:
        if not request.content:
            raise NoAnswerError(pb.REFUSAL_REASON_INVALID, "content is empty; send definitions")
        if request.format not in _FORMATS:
            raise NoAnswerError(
                pb.REFUSAL_REASON_INVALID, f"format {request.format} is none of SourceFormat"
            )
        if self._compiler.crowded:
            raise NoAnswerError(
                pb.REFUSAL_REASON_QUEUE_FULL,
                "other catalogs are being compiled; try again later",
                retry_after_s=self._compiler.typical_s,
            )
        try:
            compiled = await self._compiler.compile_content(
                request.content,
                form=_FORMATS[request.format],
                strict=request.strict,
                timeout_s=limit_s,
            )
        except TimeoutError as error:
            raise NoAnswerError(
                pb.REFUSAL_REASON_EXPIRED,
                f"the compilation was ended after {limit_s:.1f} s",
                outcome=Outcome.CANCELLED,
            ) from error
        except CompileError as error:
            raise NoAnswerError(pb.REFUSAL_REASON_BAD_CATALOG, str(error)) from error
        return _compiled(compiled)

    async def _activate(self, request: pb.ActivateCatalogRequest) -> pb.ActivateCatalogResponse:
        catalog, before = await self._book.activate(request.name, request.digest)
        log.event("activated", catalog=catalog.name, digest=catalog.digest, before=before)
        return pb.ActivateCatalogResponse(catalog=catalog, previous_digest=before)

    def _recent(self, last: int) -> pb.RecentAnswers:
        counts = self._ledger.recent.count(last)
        catalogs = [
            pb.RecentCatalog(
                digest=digest,
                answers=tools.total(),
                tools=[pb.ToolCount(name=name, count=n) for name, n in tools.most_common()],
            )
            for digest, tools in counts.items()
        ]
        catalogs.sort(key=lambda each: (-each.answers, each.digest))
        return pb.RecentAnswers(answers=sum(each.answers for each in catalogs), catalogs=catalogs)

    def _stats(self, max_tools: int) -> pb.StatsResponse:
        counts, admission, engine = self._ledger.counts, self._admission, self._engine
        samples, p50_s, p90_s, p99_s = self._ledger.latency_s()
        reasons = sorted(counts.reasons.items())
        return pb.StatsResponse(
            ledger=pb.Ledger(
                offered=counts.offered,
                answered=counts.answered,
                refused=counts.refused,
                cancelled=counts.cancelled,
                failed=counts.failed,
                repeated=counts.repeated,
                reasons=[pb.ReasonCount(reason=reason, count=count) for reason, count in reasons],
                open=counts.open,
            ),
            load=pb.Load(
                slots=admission.slots,
                queue=admission.queue,
                alive=admission.alive,
                queued=admission.queued,
                alive_peak=admission.alive_peak,
                queued_peak=admission.queued_peak,
            ),
            latency=pb.Latency(
                samples=samples,
                p50_micros=round(1e6 * p50_s),
                p90_micros=round(1e6 * p90_s),
                p99_micros=round(1e6 * p99_s),
            ),
            tools=[
                pb.ToolCount(name=name, count=count)
                for name, count in self._ledger.tools.most_common(max_tools)
            ],
            engine=pb.EngineState(
                serving=engine.state is EngineState.SERVING,
                model_digest=engine.facts.model_digest if engine.facts is not None else "",
                starts=engine.starts,
                state=engine.state.value,
            ),
            uptime_seconds=asyncio.get_running_loop().time() - self._started,
            accounts=pb.Accounts(
                slots_granted=admission.granted,
                slots_returned=admission.returned,
                tokens_reserved=self._ledger.tokens.reserved,
                tokens_used=self._ledger.tokens.used,
                tokens_unused=self._ledger.tokens.unused,
            ),
            clients=[
                pb.ClientCount(
                    client=name, offered=c.offered, answered=c.answered, refused=c.refused
                )
                for name, c in self._ledger.busiest(CLIENTS_MAX)
            ],
            tools_counted=len(self._ledger.tools),
            arguments=[
                pb.ArgumentCount(outcome=outcome, count=count)
                for outcome, count in sorted(self._ledger.arguments.items())
            ],
        )


async def _reply(context: ServicerContext[Any, Any], work: Awaitable[Reply]) -> Reply:
    """Await the work; end the call with a typed status where there is no answer."""
    try:
        return await work
    except NoAnswerError as error:
        refusal = error
    except Exception as error:  # noqa: BLE001  (no bare status ever reaches a client)
        log.fault("fault", error)
        refusal = _internal()
    return await _abort(context, refusal)


async def _abort(context: ServicerContext[Any, Any], error: NoAnswerError) -> NoReturn:
    await context.abort(error.code, error.message, error.trailing_metadata())
    raise AssertionError("abort returned")


def _with_margin(remaining_s: float) -> float:
    return remaining_s - min(MARGIN_S, MARGIN_SHARE * remaining_s)


def _draining() -> NoAnswerError:
    return NoAnswerError(
        pb.REFUSAL_REASON_DRAINING, "this server is shutting down; go to another or come back"
    )


def _internal() -> NoAnswerError:
    return NoAnswerError(
        pb.REFUSAL_REASON_INTERNAL,
        "a fault of the server; its log has the details",
        outcome=Outcome.FAILED,
    )


def _compiled(compiled: Compiled) -> pb.CompileCatalogResponse:
    order = ("error", "warning", "info")
    findings = sorted(compiled.findings, key=lambda finding: order.index(finding.severity))
    return pb.CompileCatalogResponse(
        catalog=pb.Catalog(
            digest=compiled.digest,
            tool_count=compiled.tool_count,
            definition_tokens=compiled.definition_tokens,
        ),
        diagnostics=[_diagnostic(finding) for finding in findings[:DIAGNOSTICS_MAX]],
        diagnostic_count=len(findings),
    )


def _diagnostic(finding: Finding) -> pb.Diagnostic:
    return pb.Diagnostic(
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        message=finding.message,
        mend=finding.mend,
        pointer=finding.pointer,
        tool=finding.tool,
        related=finding.related,
    )
