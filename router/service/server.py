"""One server from bind to exit.

Owns the port, the order of start and shutdown, and the join of health with the engine's state.
Never routes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from router.engine.supervisor import EngineState
from router.rpc import router_pb2_grpc
from router.service import log
from router.service.admission import Admission
from router.service.book import CatalogBook
from router.service.desk import RouteDesk
from router.service.health import SERVICE, HealthService
from router.service.ledger import Ledger
from router.service.listening import AddressOwnedError, SocketClaim, TlsFileError
from router.service.parsing import LenientParsing
from router.service.policies import Clients
from router.service.servicer import RouterServicer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from router.engine.compiler import CompileRunner
    from router.engine.facts import EngineFacts
    from router.engine.supervisor import Supervisor
    from router.service.config import ServiceConfig

KEEPALIVE_MS = 60_000
STOP_S = 1.0
"""Time that calls are given to deliver their last words once every request has ended."""


class Server:
    """A service over one engine.

    Args:
        config: limits and address.
        engine: started already, so that it was spawned before gRPC was imported.
        compiler: compiles catalogs sent by clients.
        store: where compiled catalogs lie.
        names: the names of the engine's catalogs, in its order; the first is the default.
        clients: who may call, and for what; by default anyone, for anything.
        interceptors: see every call before it is served.

    Raises:
        AddressOwnedError: the unix socket is another's.

    """

    def __init__(
        self,
        config: ServiceConfig,
        engine: Supervisor,
        compiler: CompileRunner,
        store: Path,
        names: tuple[str, ...],
        clients: Clients | None = None,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> None:
        self.config = config
        self.health = HealthService()
        self.ledger = Ledger(config.recorded_answers, config.recorded_for_s)
        self.admission = Admission(config.slots, config.queue)
        self.book = CatalogBook(engine, store, config.kept_catalogs)
        self.desk = RouteDesk(
            engine, self.book, self.admission, self.ledger, arguments=config.arguments
        )
        self.book.on_change = self._tell_health
        self._engine = engine
        self._names = names
        self._ready = False
        self._servicer = RouterServicer(
            config, engine, self.desk, self.book, self.admission, self.ledger, compiler,
            clients or Clients(),
        )  # fmt: skip
        self._claim = None if config.unix_socket is None else SocketClaim(config.unix_socket)
        self._server = grpc.aio.server(
            interceptors=[*interceptors, LenientParsing(SERVICE)],
            options=[
                # Off by default it is not: two servers would share an address silently.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", config.max_message_bytes),
                ("grpc.max_send_message_length", config.max_message_bytes),
                ("grpc.max_concurrent_streams", config.max_streams),
                ("grpc.max_metadata_size", config.max_metadata_bytes),
                ("grpc.absolute_max_metadata_size", 2 * config.max_metadata_bytes),
                # A connection whose other end is gone gives its calls up after this, not never.
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", KEEPALIVE_MS // 3),
            ],
        )
        router_pb2_grpc.add_RouterServiceServicer_to_server(self._servicer, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection(
            (SERVICE, health_name, reflection.SERVICE_NAME), self._server
        )
        engine.on_change = self._engine_changed

    async def bind(self) -> str:
        """Listen, not serving yet; return the address with its port.

        Raises:
            AddressOwnedError: another process listens there, or the address is not ours.
            TlsFileError: certificate or key can't be used.

        """
        address = self.config.address if self._claim is None else self._claim.address
        credentials = self._credentials()
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise AddressOwnedError(
                f"can't listen on {address}: another process owns it, or it is no address of this "
                "machine; choose another with --host and --port"
            ) from error
        await self._server.start()
        if self._claim is not None:
            self._claim.bound()
            return address
        return f"{address.rsplit(':', 1)[0]}:{port}"

    def _credentials(self) -> grpc.ServerCredentials | None:
        tls = self.config.tls
        if tls is None:
            return None
        certificate, key, roots = tls.read()
        try:
            return grpc.ssl_server_credentials(
                [(key, certificate)], roots, require_client_auth=roots is not None
            )
        except (ValueError, RuntimeError) as error:
            raise TlsFileError(f"{tls.certificate} with {tls.key}: {error}") from error

    async def open(self) -> EngineFacts:
        """Wait for the engine and serve.

        Raises:
            EngineStartError: it refused to start.

        """
        facts = await self._engine.ready()
        self.book.begin(self._names, facts)
        self.admission.expect(facts.probe_s)
        self._ready = True
        self._tell_health()
        return facts

    async def drain(self) -> bool:
        """Refuse what is new, answer what was admitted, stop; whether that fitted the grace."""
        self.desk.draining = True
        self._tell_health()
        log.event("draining", open=self.ledger.counts.open)
        in_time = True
        try:
            await asyncio.wait_for(self.desk.at_rest(), self.config.grace_s)
        except TimeoutError:
            in_time = False
            log.event("grace exceeded", open=self.ledger.counts.open)
        self.health.close()
        self._servicer.close_streams()
        await self._server.stop(STOP_S)
        self._let_go_of_socket()
        await self._engine.stop()
        counts = self.ledger.counts
        log.event(
            "stopped",
            offered=counts.offered,
            answered=counts.answered,
            refused=counts.refused,
            cancelled=counts.cancelled,
            failed=counts.failed,
        )
        return in_time

    async def abandon(self) -> None:
        """Stop at once; for a start that failed."""
        self.health.close()
        await self._server.stop(None)
        self._let_go_of_socket()
        await self._engine.stop()

    def _let_go_of_socket(self) -> None:
        if self._claim is not None:
            self._claim.release()

    def _engine_changed(self, state: EngineState, reason: str) -> None:
        log.event("engine", state=state.value, reason=reason)
        self._tell_health()

    def _tell_health(self) -> None:
        serving = (
            self._ready and not self.desk.draining and self._engine.state is EngineState.SERVING
        )
        self.health.tell(serving=serving, catalogs=self.book.names)
