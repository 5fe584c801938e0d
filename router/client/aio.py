"""The client for asyncio. Belongs to the event loop it was made in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from router.client.blocking import COMPILE_TIMEOUT_S, as_query, read_result
from router.client.config import DEFAULT_ADDRESS, ClientConfig
from router.client.connection import call_metadata, open_aio_channel
from router.client.errors import (
    RequestError,
    UnexpectedStatusError,
    from_rpc_error,
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
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from types import TracebackType
    from typing import Self

    from router.rpc.router_pb2_grpc import RouterServiceAsyncStub

Reply = TypeVar("Reply")


class AsyncClient:
    """Calls one server; arguments, results and errors as in `router.client.Client`."""

    def __init__(self, address: str = DEFAULT_ADDRESS, config: ClientConfig | None = None) -> None:
        self.address = address
        self.config = config or ClientConfig()
        self._channel = open_aio_channel(address, self.config)
        self._metadata = call_metadata(self.config)
        self._stub: RouterServiceAsyncStub = RouterServiceStub(self._channel)
        self._health: Any = health_pb2_grpc.HealthStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls under way end as cancelled."""
        await self._channel.close()

    async def route(
        self, query: str | RouteQuery, *, timeout_s: float | None = None, **options: Any
    ) -> RouteAnswer:
        """Route one request; `options` are the fields of `RouteQuery` where `query` is a text."""
        message = as_query(query, options).to_message()
        return RouteAnswer.from_message(await self._call(self._stub.Route, message, timeout_s))

    async def route_many(
        self, queries: Iterable[str | RouteQuery], *, timeout_s: float | None = None
    ) -> AsyncIterator[tuple[RouteQuery, RouteAnswer | RequestError]]:
        """Route many requests over one stream; yields each with what became of it, as they end."""
        asked = [as_query(query, {}) for query in queries]
        open_ids = {query.request_id: query for query in asked}
        if len(open_ids) < len(asked):
            raise ValueError("two queries have the same request_id; give each its own")
        requests = (pb.RouteStreamRequest(request=query.to_message()) for query in asked)
        limit_s = self.config.timeout_s if timeout_s is None else timeout_s
        stream = self._stub.RouteStream(requests, timeout=limit_s, metadata=self._metadata)
        try:
            async for result in stream:
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

    async def list_catalogs(self, *, timeout_s: float | None = None) -> tuple[CatalogInfo, ...]:
        """List the catalogs that are served."""
        reply = await self._call(self._stub.ListCatalogs, pb.ListCatalogsRequest(), timeout_s)
        return tuple(CatalogInfo.from_message(catalog) for catalog in reply.catalogs)

    async def get_catalog(
        self,
        catalog: str = "",
        *,
        page_size: int = 0,
        page_token: str = "",
        timeout_s: float | None = None,
    ) -> CatalogPage:
        """Describe a catalog and list a page of its tools."""
        message = pb.GetCatalogRequest(catalog=catalog, page_size=page_size, page_token=page_token)
        return CatalogPage.from_message(await self._call(self._stub.GetCatalog, message, timeout_s))

    async def compile_catalog(
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
            await self._call(self._stub.CompileCatalog, message, timeout_s)
        )

    async def activate_catalog(
        self, digest: str, *, name: str = "", timeout_s: float | None = None
    ) -> tuple[CatalogInfo, str]:
        """Let a name ("" is the default) stand for a catalog; returns it and the digest before."""
        message = pb.ActivateCatalogRequest(name=name, digest=digest)
        reply = await self._call(self._stub.ActivateCatalog, message, timeout_s)
        return CatalogInfo.from_message(reply.catalog), reply.previous_digest

    async def stats(
        self, *, max_tools: int = 0, last_answers: int = 0, timeout_s: float | None = None
    ) -> ServerStats:
        """Return the server's counters.

        Args:
            max_tools: most tools by use; 0 is 100.
            last_answers: count so many latest answers by catalog too, at most 100,000.
            timeout_s: seconds the call may take; by default the client's.

        """
        message = pb.StatsRequest(max_tools=max_tools, last_answers=last_answers)
        reply = await self._call(self._stub.Stats, message, timeout_s)
        return ServerStats.from_message(reply)

    async def is_serving(self, service: str = "", *, timeout_s: float | None = None) -> bool:
        """Tell whether a request would be served now."""
        message = health_pb2.HealthCheckRequest(service=service)
        reply = await self._call(self._health.Check, message, timeout_s)
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    async def _call(
        self, method: Callable[..., Awaitable[Reply]], message: Any, timeout_s: float | None
    ) -> Reply:
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self.config.timeout_s if timeout_s is None else timeout_s)
        attempt = 0
        while True:
            attempt += 1
            try:
                left_s = max(deadline - clock(), 0.001)
                return await method(message, timeout=left_s, metadata=self._metadata)
            except grpc.RpcError as raw:
                error = from_rpc_error(raw)
            again, after_s = retry_after_s(error)
            pause_s = self.config.pause_s(attempt, after_s, deadline - clock()) if again else None
            if pause_s is None:
                raise error from None
            await asyncio.sleep(pause_s)
