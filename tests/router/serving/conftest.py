"""A whole service in the test's event loop over a fake engine process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import grpc.aio
import pytest

from router.client import AsyncClient, ClientConfig
from router.engine.compiler import CompileRunner
from router.engine.facts import EngineConfig
from router.engine.supervisor import Supervisor, SupervisorConfig
from router.rpc import router_pb2_grpc
from router.service import log
from router.service.config import ServiceConfig
from router.service.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from router.service.policies import Clients

HERE = Path(__file__).resolve().parent
FAKE_ENGINE = (sys.executable, str(HERE / "fake_engine.py"))
FAKE_COMPILER = (sys.executable, str(HERE / "fake_compiler.py"))
TOOLS = "ring_bell fly_kite boil_tea"
PATIENCE = SupervisorConfig(heartbeat_s=0.02, first_pause_s=0.01, longest_pause_s=0.05)


async def until_async(condition: Callable[[], Awaitable[bool]], limit_s: float = 20.0) -> None:
    """Ask again and again for something that must come; fails where it does not."""
    async with asyncio.timeout(limit_s):
        while not await condition():  # noqa: ASYNC110  (another process makes it come)
            await asyncio.sleep(0.002)


async def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait for something that must come; fails where it does not."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


@dataclass
class Service:
    """A running service and the folder that steers its engine."""

    server: Server
    engine: Supervisor
    address: str
    control: Path
    store: Path
    digest: str
    client: AsyncClient
    stub: router_pb2_grpc.RouterServiceAsyncStub

    def let(self, name: str) -> None:
        """Let the requests go on that hold for NAME."""
        (self.control / name).touch()

    def noted(self, what: str) -> list[str]:
        """Return what the engine has noted under a name."""
        path = self.control / f"{what}.log"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    async def running(self, count: int) -> None:
        """Wait until the engine has started so many requests."""
        await until(lambda: len(self.noted("started")) >= count)

    def catalog_file(self, tools: str) -> str:
        """Put a compiled catalog in the store; return its digest."""
        digest = hashlib.sha256(tools.encode()).hexdigest()
        (self.store / f"{digest}.catalog").write_text(tools, encoding="utf-8")
        return digest


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    config: ServiceConfig,
    patience: SupervisorConfig = PATIENCE,
    clients: Clients | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
) -> AsyncIterator[Service]:
    """Run a service; whatever a test leaves open is let go at the end."""
    control, store = folder / "control", folder / "store"
    control.mkdir(exist_ok=True)
    store.mkdir(exist_ok=True)
    digest = hashlib.sha256(TOOLS.encode()).hexdigest()
    catalog = store / f"{digest}.catalog"
    catalog.write_text(TOOLS, encoding="utf-8")
    engine_config = EngineConfig(str(control), (str(catalog),), config.slots, 1)
    engine = Supervisor(engine_config, command=FAKE_ENGINE, patience=patience)
    await engine.start()
    compiler = CompileRunner(store, "", FAKE_COMPILER)
    server = Server(
        replace(config, port=0), engine, compiler, store, ("default",), clients, interceptors
    )
    try:
        address = await server.bind()
        await server.open()
        channel = grpc.aio.insecure_channel(address, options=(("grpc.enable_retries", 0),))
        config = ClientConfig(attempts=1, timeout_s=20.0)
        async with AsyncClient(address, config) as client, channel:
            stub = router_pb2_grpc.RouterServiceStub(channel)
            yield Service(server, engine, address, control, store, digest, client, stub)
    finally:
        await server.abandon()


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Undo what a command under test has set up for the service's log."""
    logger = log.LOGGER
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service with two slots and a queue of three."""
    async with serving(tmp_path, ServiceConfig(slots=2, queue=3)) as running:
        yield running
