"""From a call to its spans.

Owns what a span says: RPC semantic conventions for the call, `pointsman.*` for the rest. A route's
parts are child spans with the measured durations, laid end to end from the grant of the slot; what
is left at the end of the route is waiting between the processes. Never exports.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from router.rpc import router_pb2 as pb
from router.service import marks
from router.service.health import SERVICE
from router.service.refusals import DETAILS_KEY, Outcome
from router.service.requests import outcome_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

TRACED: Final = ("Route", "RouteStream", "CompileCatalog", "ActivateCatalog")
"""Calls that do work; looking is not traced."""

PARTS: Final = ("retrieval", "prompt", "model", "finish")
ARGUMENTS_PART: Final = "arguments"
MAX_ID_CHARS: Final = 128
_FAULTS: Final = frozenset(
    code.value[0]
    for code in (
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    )
)
"""Codes that the conventions call an error of the server."""

_CANCELLED: Final[int] = grpc.StatusCode.CANCELLED.value[0]
_UNKNOWN: Final[int] = grpc.StatusCode.UNKNOWN.value[0]


class RouteTracer(grpc.aio.ServerInterceptor):  # type: ignore[type-arg, unused-ignore]
    """Puts a span round every call that does work."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Wrap the handler of a traced call."""
        handler = await continuation(handler_call_details)
        service, _, method = handler_call_details.method.lstrip("/").partition("/")
        if handler is None or service != SERVICE or method not in TRACED:
            return handler
        parent = self._parent(handler_call_details.invocation_metadata)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(method, parent, handler.unary_unary),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.stream_stream_rpc_method_handler(
            self._stream(method, parent, handler.stream_stream),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _parent(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> Context:
        carrier = {
            key: value
            for key, value in metadata or ()
            if key in ("traceparent", "tracestate") and isinstance(value, str)
        }
        return self._propagator.extract(carrier)

    def _unary(self, method: str, parent: Context, handler: Callable[..., Awaitable[Any]]) -> Any:
        async def call(request: Any, context: Any) -> Any:
            span = CallSpan(self._tracer, method, parent)
            admitted = marks.watch()
            if isinstance(request, pb.RouteRequest):
                span.asked(request)
            code = _UNKNOWN
            try:
                response = await handler(request, context)
                code = _number(context.code())
                if isinstance(response, pb.RouteResponse):
                    span.answered(response, admitted.pop(response.request_id, None))
            except asyncio.CancelledError:
                code = _CANCELLED
                raise
            except grpc.aio.AbortError:
                code = _number(context.code())
                span.refused(_details(context))
                raise
            finally:
                span.end(code, next(iter(admitted.values()), None))
            return response

        return call

    def _stream(
        self, method: str, parent: Context, handler: Callable[..., AsyncIterator[Any]]
    ) -> Any:
        async def call(requests: Any, context: Any) -> AsyncIterator[Any]:
            stream = CallSpan(self._tracer, method, parent)
            admitted = marks.watch()
            spans = _StreamSpans(self._tracer, stream.context, admitted)
            code = _UNKNOWN
            try:
                async with contextlib.aclosing(
                    handler(spans.reading(requests), context)
                ) as results:  # type: ignore[type-var]
                    async for result in results:
                        spans.result(result)
                        yield result
                code = _number(context.code())
            except (asyncio.CancelledError, GeneratorExit):
                code = _CANCELLED
                raise
            except grpc.aio.AbortError:
                code = _number(context.code())
                stream.refused(_details(context))
                raise
            finally:
                spans.end(code)
                stream.end(code, None)

        return call


class CallSpan:
    """The span of one call, or of one request on a stream (`method` is then "")."""

    def __init__(self, tracer: Tracer, method: str, parent: Context) -> None:
        self._tracer = tracer
        # Dated by one clock, measured by another that nobody sets back.
        self._began_ns = time.time_ns()
        self._began_s = asyncio.get_running_loop().time()
        self._rpc = bool(method)
        self._split = False
        attributes: dict[str, str] = {}
        if method:
            attributes = {"rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": method}
        self._span: Span = tracer.start_span(
            f"{SERVICE}/{method}" if method else "route",
            context=parent,
            kind=SpanKind.SERVER if method else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=self._began_ns,
        )
        self.context = set_span_in_context(self._span, parent)

    def asked(self, request: pb.RouteRequest) -> None:
        """Note which request it is; nothing of its text."""
        self._span.set_attribute("pointsman.request_id", request.request_id[:MAX_ID_CHARS])

    def answered(self, response: pb.RouteResponse, admitted: float | None) -> None:
        """Note an answer; `admitted` is when it got its slot, or None for one given before."""
        span = self._span
        if not span.is_recording():
            return
        usage = response.usage
        span.set_attributes(
            {
                "pointsman.request_id": response.request_id,
                "pointsman.outcome": Outcome.ANSWERED.value,
                "pointsman.repeated": admitted is None,
                "pointsman.tool": response.tool.name,
                "pointsman.probability": response.tool.probability
                if response.HasField("tool")
                else response.none_probability,
                "pointsman.catalog_digest": response.catalog_digest,
                "pointsman.model_digest": response.model_digest,
                "pointsman.prompt_tokens": usage.prompt_tokens,
                "pointsman.scored_tokens": usage.scored_tokens,
                "pointsman.passes": usage.passes,
                "pointsman.shortlist_size": usage.shortlist_size,
                "pointsman.allowed_size": usage.allowed_size,
            }
        )
        written = response.HasField("arguments")
        if written:
            span.set_attributes(
                {
                    "pointsman.arguments.outcome": outcome_name(response.arguments.outcome),
                    "pointsman.arguments.missing": len(response.arguments.missing),
                    "pointsman.arguments.prompt_tokens": usage.argument_prompt_tokens,
                    "pointsman.arguments.tokens": usage.argument_tokens,
                }
            )
        if admitted is None:
            return  # Its parts were those of another call.
        self._split = True
        at_ns = self._at_ns(admitted)
        self._part("queue", at_ns - 1000 * response.timings.queue_micros, at_ns)
        for name in (*PARTS, *((ARGUMENTS_PART,) if written else ())):
            micros = "argument_micros" if name == ARGUMENTS_PART else f"{name}_micros"
            end_ns = at_ns + 1000 * getattr(response.timings, micros)
            self._part(name, at_ns, end_ns)
            at_ns = end_ns

    def refused(self, status: status_pb2.Status | None) -> None:
        """Note why there is no answer."""
        info = error_details_pb2.ErrorInfo()
        if status is None or not status.details or not status.details[0].Unpack(info):
            return
        self._span.set_attribute("pointsman.outcome", info.metadata["outcome"])
        self._span.set_attribute("pointsman.reason", info.reason)

    def end(self, code: int, admitted: float | None) -> None:
        """End it; `admitted` is when a request without an answer got its slot, or None."""
        if admitted is not None and not self._split:
            self._part("queue", self._began_ns, self._at_ns(admitted))
        if self._rpc:
            self._span.set_attribute("rpc.grpc.status_code", code)
        if code == _CANCELLED:
            self._span.set_attribute("pointsman.outcome", Outcome.CANCELLED.value)
        if code in _FAULTS:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end(self._at_ns(asyncio.get_running_loop().time()))

    def _part(self, name: str, start_ns: int, end_ns: int) -> None:
        part = self._tracer.start_span(
            f"pointsman.{name}", context=self.context, start_time=start_ns
        )
        part.end(end_ns)

    def _at_ns(self, loop_s: float) -> int:
        return self._began_ns + round(1e9 * (loop_s - self._began_s))


class _StreamSpans:
    """The spans of a stream's open requests, by id: as many as its window lets in."""

    def __init__(self, tracer: Tracer, parent: Context, admitted: dict[str, float]) -> None:
        self._tracer = tracer
        self._parent = parent
        self._admitted = admitted
        self._open: defaultdict[str, list[CallSpan]] = defaultdict(list)

    async def reading(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Hand requests on, each with a span that begins now."""
        async for item in requests:
            if not isinstance(item, pb.RouteStreamRequest):
                yield item  # bytes that are no message: nothing is known to tell of
                continue
            # As the service would: without an id its result could not be told.
            item.request.request_id = item.request.request_id or uuid.uuid4().hex
            span = CallSpan(self._tracer, "", self._parent)
            span.asked(item.request)
            self._open[item.request.request_id].append(span)
            yield item

    def result(self, result: pb.RouteStreamResponse) -> None:
        """End the span of a result's request."""
        spans = self._open.get(result.request_id)
        admitted = self._admitted.pop(result.request_id, None)
        if not spans:
            return
        span = spans.pop(0)
        if not spans:
            del self._open[result.request_id]
        if result.HasField("answer"):
            span.answered(result.answer, admitted)
        else:
            span.refused(result.refusal)
        span.end(result.refusal.code, admitted)

    def end(self, code: int) -> None:
        """End what is open with the stream's own code."""
        for request_id, spans in self._open.items():
            for span in spans:
                span.end(code, self._admitted.get(request_id))
        self._open.clear()


def _number(code: Any) -> int:
    """Return a status code's number, as gRPC's context tells it in more than one form."""
    if code is None:
        return 0
    return int(code.value[0]) if isinstance(code, grpc.StatusCode) else int(code)


def _details(context: Any) -> status_pb2.Status | None:
    for key, value in context.trailing_metadata() or ():
        if key == DETAILS_KEY:
            return status_pb2.Status.FromString(value)
    return None
