"""The standard health service, told the truth.

Owns what is said about the server ("" and the service's name) and about each catalog, and the open
Watches, which are closed on shutdown so that they don't hold it up. Never finds out by itself:
whoever knows calls `tell`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from router.rpc import router_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from grpc.aio import ServicerContext

SERVICE: Final[str] = pb.DESCRIPTOR.services_by_name["RouterService"].full_name
MAX_WATCHES: Final = 1024


def catalog_service(name: str) -> str:
    """Return the health service's name for a catalog."""
    return f"{SERVICE}/{name}"


class HealthService(health_pb2_grpc.HealthServicer):
    """Answers Check and Watch from what it was told last."""

    def __init__(self) -> None:
        self._serving = False
        self._catalogs: frozenset[str] = frozenset()
        self._changed = asyncio.Condition()
        self._closed = False
        self._watches = 0
        self._notifier: set[asyncio.Task[None]] = set()

    def tell(self, *, serving: bool, catalogs: Iterable[str]) -> None:
        """Say whether a request would be served now, and over which catalogs."""
        self._serving = serving
        self._catalogs = frozenset(catalog_service(name) for name in catalogs)
        self._notify()

    def close(self) -> None:
        """End every Watch."""
        self._closed = True
        self._notify()

    def status(self, service: str) -> Any:
        """Return the ServingStatus of a service now, or None for one that is not known."""
        if service in ("", SERVICE) or service in self._catalogs:
            serving = health_pb2.HealthCheckResponse.SERVING
            return serving if self._serving else health_pb2.HealthCheckResponse.NOT_SERVING
        return None

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        """Answer at once."""
        status = self.status(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service is served here")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: ServicerContext[Any, Any]
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Send the status now and whenever it changes, until the client or the server goes."""
        if self._watches >= MAX_WATCHES:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_WATCHES} watches are open already"
            )
        self._watches += 1
        sent = None
        try:
            while True:
                status = self.status(request.service)
                if status is None:
                    status = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
                if status != sent:
                    sent = status
                    yield health_pb2.HealthCheckResponse(status=status)
                    continue  # It may have changed while it was sent.
                if self._closed:
                    return
                async with self._changed:
                    if self.status(request.service) == sent and not self._closed:
                        await self._changed.wait()
        finally:
            self._watches -= 1

    def _notify(self) -> None:
        task = asyncio.get_running_loop().create_task(self._wake())
        self._notifier.add(task)
        task.add_done_callback(self._notifier.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
