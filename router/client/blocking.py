"""The client for ordinary code. Safe to share between threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc

from router.client.config import DEFAULT_ADDRESS, ClientConfig
from router.client.connection import call_metadata, open_channel
from router.client.errors import (
    RequestError,
    UnexpectedStatusError,
    from_rpc_error,
    from_status,
    retry_after_s,
)
from router.client.results import (
    CatalogInfo,
    CatalogPage,
    CompiledCatalog,
    RouteAnswer,
    RouteQuery,
    ServerStats,
    compile_message,
)
from router.rpc import router_pb2 as pb
from router.rpc.router_pb2_grpc import RouterServiceStub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

Reply = TypeVar("Reply")

COMPILE_TIMEOUT_S = 600.0


class Client:
    """Calls one server.

    Args:
        address: host and port, or `unix:PATH`.
        config: time limits, retries, token and TLS.

    Raises `ExposedTokenError` where a token would cross a network in the clear.

    Every method raises `RequestError` (see `router.client.errors` for its kinds) where there is no
    answer, and takes `timeout_s`, the time for the whole call with its retries.

    """

    def __init__(self, address: str = DEFAULT_ADDRESS, config: ClientConfig | None = None) -> None:
        self.address = address
        self.config = config or ClientConfig()
        self._channel = open_channel(address, self.config)
        self._metadata = call_metadata(self.config)
        self._stub = RouterServiceStub(self._channel)
        self._health: Any = health_pb2_grpc.HealthStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls under way end as cancelled."""
        self._channel.close()

    def route(
        self, query: str | RouteQuery, *, timeout_s: float | None = None, **options: Any
    ) -> RouteAnswer:
        """Route one request; `options` are the fields of `RouteQuery` where `query` is a text."""
        message = as_query(query, options).to_message()
        return RouteAnswer.from_message(self._call(self._stub.Route, message, timeout_s))

    def route_many(
        self, queries: Iterable[str | RouteQuery], *, timeout_s: float | None = None
    ) -> Iterator[tuple[RouteQuery, RouteAnswer | RequestError]]:
        """Route many requests over one stream; yields each with what became of it, as they end.

        Nothing is tried again: a refusal is handed back like an answer. `timeout_s` is the time
        for the whole stream.
        """
        asked = [as_query(query, {}) for query in queries]
        open_ids = {query.request_id: query for query in asked}
        if len(open_ids) < len(asked):
            raise ValueError("two queries have the same request_id; give each its own")
        requests = (pb.RouteStreamRequest(request=query.to_message()) for query in asked)
        limit_s = self.config.timeout_s if timeout_s is None else timeout_s
        stream = self._stub.RouteStream(requests, timeout=limit_s, metadata=self._metadata)
        try:
            for result in stream:
                query = open_ids.pop(result.request_id, None)
                if query is not None:
                    yield query, read_result(result)
            ended: RequestError = UnexpectedStatusError(
                "the stream ended without its result", grpc.StatusCode.UNKNOWN
            )
        except grpc.RpcError as error:
            ended = from_rpc_error(error)
        finally:
            stream.cancel()
        for query in open_ids.values():
            yield query, ended

    def list_catalogs(self, *, timeout_s: float | None = None) -> tuple[CatalogInfo, ...]:
        """List the catalogs that are served."""
        reply = self._call(self._stub.ListCatalogs, pb.ListCatalogsRequest(), timeout_s)
        return tuple(CatalogInfo.from_message(catalog) for catalog in reply.catalogs)

    def get_catalog(
        self,
        catalog: str = "",
        *,
        page_size: int = 0,
        page_token: str = "",
        timeout_s: float | None = None,
    ) -> CatalogPage:
        """Describe a catalog and list a page of its tools."""
        message = pb.GetCatalogRequest(catalog=catalog, page_size=page_size, page_token=page_token)
        return CatalogPage.from_message(self._call(self._stub.GetCatalog, message, timeout_s))

    def compile_catalog(
        self,
        content: bytes,
        *,
        source_format: str = "auto",
        strict: bool = False,
        timeout_s: float = COMPILE_TIMEOUT_S,
    ) -> CompiledCatalog:
        """Compile definitions on the server; `activate_catalog` puts them to use."""
        message = compile_message(content, source_format, strict=strict)
        return CompiledCatalog.from_message(
            self._call(self._stub.CompileCatalog, message, timeout_s)
        )

    def activate_catalog(
        self, digest: str, *, name: str = "", timeout_s: float | None = None
    ) -> tuple[CatalogInfo, str]:
        """Let a name ("" is the default) stand for a catalog; returns it and the digest before."""
        message = pb.ActivateCatalogRequest(name=name, digest=digest)
        reply = self._call(self._stub.ActivateCatalog, message, timeout_s)
        return CatalogInfo.from_message(reply.catalog), reply.previous_digest

    def stats(
        self, *, max_tools: int = 0, last_answers: int = 0, timeout_s: float | None = None
    ) -> ServerStats:
        """Return the server's counters.

        Args:
            max_tools: most tools by use; 0 is 100.
            last_answers: count so many latest answers by catalog too, at most 100,000.
            timeout_s: seconds the call may take; by default the client's.

        """
        message = pb.StatsRequest(max_tools=max_tools, last_answers=last_answers)
        reply = self._call(self._stub.Stats, message, timeout_s)
        return ServerStats.from_message(reply)

    def is_serving(self, service: str = "", *, timeout_s: float | None = None) -> bool:
        """Tell whether a request would be served now."""
        message = health_pb2.HealthCheckRequest(service=service)
        reply = self._call(self._health.Check, message, timeout_s)
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    def _call(self, method: Callable[..., Reply], message: Any, timeout_s: float | None) -> Reply:
        deadline = time.monotonic() + (self.config.timeout_s if timeout_s is None else timeout_s)
        attempt = 0
        while True:
            attempt += 1
            try:
                left_s = max(deadline - time.monotonic(), 0.001)
                return method(message, timeout=left_s, metadata=self._metadata)
            except grpc.RpcError as raw:
                error = from_rpc_error(raw)
            again, after_s = retry_after_s(error)
            left_s = deadline - time.monotonic()
            pause_s = self.config.pause_s(attempt, after_s, left_s) if again else None
            if pause_s is None:
                raise error from None
            time.sleep(pause_s)


def as_query(query: str | RouteQuery, options: dict[str, Any]) -> RouteQuery:
    """Make a query of a text and its options; raises TypeError for options beside a query."""
    if isinstance(query, str):
        return RouteQuery(query, **options)
    if options:
        raise TypeError(f"a RouteQuery holds its options itself; not {', '.join(options)}")
    return query


def read_result(result: pb.RouteStreamResponse) -> RouteAnswer | RequestError:
    """Read one result of a stream."""
    if result.HasField("answer"):
        return RouteAnswer.from_message(result.answer)
    try:
        return from_status(result.refusal)
    except DecodeError:
        return UnexpectedStatusError("its status details are garbled", grpc.StatusCode.UNKNOWN)
