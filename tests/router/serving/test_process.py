"""The server as a process: its start, its reasons not to start, its end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from router.cli.serve import ServeOptions
from router.cli.serve import serve as serve_command
from router.client import AsyncClient, ClientConfig, PointsmanError, RefusedError, RouteQuery
from tests.router.serving.conftest import TOOLS, until, until_async
from tests.router.serving.fake_engine import MODEL_DIGEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SCRIPT = Path(__file__).resolve().parent / "serve_fake.py"
REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass
class Running:
    """A server process."""

    process: asyncio.subprocess.Process
    folder: Path

    @property
    def control(self) -> Path:
        return self.folder / "control"

    async def ready(self) -> dict[str, object]:
        """Wait for the ready file and return what it says."""
        path = self.folder / "ready.json"
        await until(lambda: path.exists() or self.process.returncode is not None)
        assert path.exists(), (await self.end())[1]
        document: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        return document

    async def end(self) -> tuple[int, str]:
        """Wait for the end; return exit code and standard error."""
        async with asyncio.timeout(30):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


@contextlib.asynccontextmanager
async def serve(
    folder: Path, *catalogs: Path, port: int = 0, grace_s: float = 20.0, **environment: str
) -> AsyncIterator[Running]:
    (folder / "control").mkdir(exist_ok=True, parents=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        *(str(port), str(folder / "control"), str(folder / "store")),
        *(str(folder / "ready.json"), str(grace_s), *map(str, catalogs)),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
    )
    try:
        yield Running(process, folder)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "tools.catalog"
    path.write_text(TOOLS, encoding="utf-8")
    return path


@pytest.mark.parametrize("environment", [{}, {"FAKE_NO_ARGUMENTS": "1"}])
async def test_engine_and_service_agree_on_arguments(
    tmp_path: Path, catalog: Path, environment: dict[str, str]
) -> None:
    """Without them the service refuses the wish, and the engine is told to hold nothing for it."""
    async with serve(tmp_path, catalog, **environment) as running:
        address = str((await running.ready())["address"])
        noted = (running.control / "arguments.log").read_text(encoding="utf-8").split()
        assert noted == [str(not environment)]
        async with AsyncClient(address, ClientConfig(attempts=1, timeout_s=30)) as client:
            query = RouteQuery("fly_kite", want_arguments=True)
            if not environment:
                assert (await client.route(query)).arguments is not None
                return
            with pytest.raises(RefusedError) as caught:
                await client.route(query)
            assert caught.value.reason == "ARGUMENTS_UNAVAILABLE"


@pytest.mark.parametrize(("options", "arguments"), [((), True), (("--no-arguments",), False)])
def test_arguments_are_an_option_of_the_command(
    monkeypatch: pytest.MonkeyPatch, catalog: Path, options: tuple[str, ...], *, arguments: bool
) -> None:
    """They are served unless it says otherwise."""
    asked: list[ServeOptions] = []

    async def run(options: ServeOptions) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr("router.cli.serve.run", run)
    done = CliRunner().invoke(serve_command, ["--catalog", str(catalog), *options])
    assert done.exit_code == 0, done.output
    assert [each.service.arguments for each in asked] == [arguments]


async def test_raw_tools_are_compiled_and_served_and_a_signal_ends_it(
    tmp_path: Path, catalog: Path
) -> None:
    """The ready file names address and catalogs; SIGTERM with requests in flight exits with 0."""
    raw = tmp_path / "tools.json"
    raw.write_text("dig_hole plant_tree", encoding="utf-8")
    async with serve(tmp_path, catalog, raw) as running:
        ready = await running.ready()
        assert [c["name"] for c in ready["catalogs"]] == ["c0", "c1"]  # type: ignore[attr-defined]
        address = str(ready["address"])
        async with AsyncClient(address, ClientConfig(attempts=1, timeout_s=30)) as client:
            assert (await client.route("dig_hole", catalog="c1")).tool == "dig_hole"
            held = [
                asyncio.create_task(client.route(RouteQuery("hold gate fly_kite")))
                for _ in range(5)
            ]
            started = running.control / "started.log"
            await until(lambda: len(started.read_text(encoding="utf-8").split()) == 3)
            await until_async(lambda: _waits(client, 3))
            running.process.send_signal(signal.SIGTERM)
            await until_async(lambda: _refuses(client))
            (running.control / "gate").touch()
            assert {answer.tool for answer in await asyncio.gather(*held)} == {"fly_kite"}
        code, errors = await running.end()
    assert code == 0
    events = [json.loads(line) for line in errors.splitlines()]
    stopped = events[-1]
    assert stopped["event"] == "stopped"
    assert (stopped["offered"], stopped["answered"]) == (6, 6)
    assert not (tmp_path / "ready.json").exists()
    assert "fly_kite" not in errors, "a request's text is in the log"


async def test_an_owned_address_is_a_reason_not_to_start(tmp_path: Path, catalog: Path) -> None:
    """The second server says which address is owned and exits with 1; the first stays."""
    async with serve(tmp_path / "one", catalog) as first:
        address = str((await first.ready())["address"])
        port = int(address.rpartition(":")[2])
        async with serve(tmp_path / "two", catalog, port=port) as second:
            code, errors = await second.end()
        assert code == 1
        assert f"127.0.0.1:{port}" in errors
        async with AsyncClient(address) as client:
            assert (await client.route("fly_kite")).tool == "fly_kite"


async def test_a_plain_socket_owns_its_address_too(tmp_path: Path, catalog: Path) -> None:
    """Whoever listens there, even with SO_REUSEPORT, is not joined silently."""
    with socket.socket() as owner:
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        async with serve(tmp_path, catalog, port=owner.getsockname()[1]) as running:
            code, _ = await running.end()
    assert code == 1


async def test_a_failed_self_check_is_a_reason_not_to_start(tmp_path: Path, catalog: Path) -> None:
    """The engine's own reason is told, and the exit code is 1."""
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "refuse-start").touch()
    async with serve(tmp_path, catalog) as running:
        code, errors = await running.end()
    assert code == 1
    assert "a product is not exact" in errors


@pytest.mark.parametrize("content", ["refused", "crash"])
async def test_a_catalog_that_is_refused_is_a_reason_not_to_start(
    tmp_path: Path, content: str
) -> None:
    """The file is named, and the exit code is 1."""
    raw = tmp_path / "tools.json"
    raw.write_text(content, encoding="utf-8")
    async with serve(tmp_path, raw) as running:
        code, errors = await running.end()
    assert code == 1
    assert str(raw) in errors


async def test_a_damaged_compiled_catalog_is_a_reason_not_to_start(tmp_path: Path) -> None:
    """The engine refuses it, and the exit code is 1."""
    damaged = tmp_path / "tools.catalog"
    damaged.write_text("broken", encoding="utf-8")
    async with serve(tmp_path, damaged) as running:
        code, errors = await running.end()
    assert code == 1
    assert "truncated" in errors


async def test_the_grace_is_kept_and_its_end_is_told(tmp_path: Path, catalog: Path) -> None:
    """A request that never ends holds the exit for the grace alone; the exit code is 3."""
    async with serve(tmp_path, catalog, grace_s=0.2) as running:
        address = str((await running.ready())["address"])
        async with AsyncClient(address, ClientConfig(attempts=1)) as client:
            held = asyncio.create_task(client.route("hold never"))
            await until((running.control / "started.log").exists)
            running.process.send_signal(signal.SIGINT)
            code, errors = await running.end()
            with pytest.raises(PointsmanError):
                await held
    assert code == 3
    assert "grace exceeded" in errors


async def test_a_second_signal_ends_it_at_once(tmp_path: Path, catalog: Path) -> None:
    """128 + SIGTERM, while a request still runs; the engine goes too."""
    async with serve(tmp_path, catalog) as running:
        address = str((await running.ready())["address"])
        async with AsyncClient(address, ClientConfig(attempts=1)) as client:
            held = asyncio.create_task(client.route("hold never"))
            await until((running.control / "started.log").exists)
            running.process.send_signal(signal.SIGTERM)
            await until_async(lambda: _refuses(client))
            running.process.send_signal(signal.SIGTERM)
            code, _ = await running.end()
            with pytest.raises(PointsmanError):
                await held
    assert code == 128 + signal.SIGTERM


async def test_a_killed_server_takes_its_engine_along(tmp_path: Path, catalog: Path) -> None:
    """Nothing is left behind: the engine ends when its input does."""
    async with serve(tmp_path, catalog) as running:
        await running.ready()
        (engine,) = _children(running.process.pid)
        running.process.kill()
        await running.end()
        await until(lambda: not _alive(engine))


async def _waits(client: AsyncClient, count: int) -> bool:
    return (await client.stats()).queued == count


async def _refuses(client: AsyncClient) -> bool:
    return not await client.is_serving()


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text(encoding="ascii").split()]


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_a_digest_that_was_demanded_is_held_to(tmp_path: Path, catalog: Path) -> None:
    """Another model or catalog than demanded: exit code 1 with both digests, nothing served."""
    digest = hashlib.sha256(TOOLS.encode()).hexdigest()
    for expected, named in (
        ({"model": "a" * 64}, f"the model has digest {MODEL_DIGEST}, and {'a' * 64} was demanded"),
        ({"catalogs": {"c0": "b" * 64}}, f"has digest {digest}, and {'b' * 64} was demanded"),
    ):
        async with serve(tmp_path, catalog, EXPECT=json.dumps(expected)) as running:
            code, errors = await running.end()
            assert code == 1
            assert named in errors
            assert not (tmp_path / "ready.json").exists()
    expected = {"model": MODEL_DIGEST, "catalogs": {"c0": digest}}
    async with serve(tmp_path, catalog, EXPECT=json.dumps(expected)) as running:
        await running.ready()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--host", "0.0.0.0"], "--tls-cert and --tls-key and --clients"),
        (["--host", "10.1.2.3"], "is reached from other machines"),
        (["--tls-cert", "C"], "--tls-cert and --tls-key belong together"),
        (["--tls-client-ca", "C"], "--tls-client-ca needs"),
        (["--host", "0.0.0.0", "--tls-cert", "C", "--tls-key", "C"], "so --clients"),
        (["--clients", "C"], "lists no client"),
        (["--model-digest", "abc"], "no digest"),
        (["--catalog-digest", f"other={'a' * 64}"], "no catalog is called other"),
        (["--unix", "S", "--tls-cert", "C", "--tls-key", "C"], "no use on a unix socket"),
    ],
)
def test_options_that_would_expose_or_contradict_are_refused(
    tmp_path: Path, catalog: Path, options: list[str], named: str
) -> None:
    """Wrong usage, exit code 2, before anything is compiled or started."""
    (tmp_path / "C").write_text("")
    given = [str(tmp_path / o) if o in ("C", "S") else o for o in options]
    done = CliRunner().invoke(serve_command, ["--catalog", str(catalog), *given])
    assert done.exit_code == 2
    assert named in " ".join(done.output.split())
