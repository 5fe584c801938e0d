"""`pointsman serve`: compile what needs it, start the engine, serve until told to stop.

Owns the command's options, its exit codes and the order of the start: the engine process is
spawned before anything here imports gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from catalog_compiler.artifact import SUFFIX
from router.assets import cache_dir
from router.cli.observing import observing, observing_options
from router.engine.compiler import COMPILER_COMMAND, CompileRunner
from router.engine.errors import CompileError, EngineStartError
from router.engine.facts import EngineConfig
from router.engine.supervisor import ENGINE_COMMAND, Supervisor
from router.service import log
from router.service.config import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    DEFAULT_QUEUE,
    DEFAULT_SLOTS,
    ServiceConfig,
)
from router.service.observing import NOTHING, MissingExtraError, Observing, ObservingConfig
from router.service.scrape import ScrapeAddressError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from router.engine.facts import EngineFacts
    from router.service.server import Server

Result = TypeVar("Result")

EXIT_DRAINED: Final = 0
EXIT_CANNOT_SERVE: Final = 1
EXIT_GRACE_EXCEEDED: Final = 3
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
EMBEDDED: Final = "embedded"
FIRST_NAME: Final = "default"
NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,62})=(.+)", re.DOTALL)
LEVELS: Final = ("debug", "info", "warning", "error")


class CannotServeError(Exception):
    """Nothing can be served; the message says why."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `serve` was asked.

    Attributes:
        catalogs: name and file of each; the first is the default.
        model: model file or folder; "" is the embedded model.
        threads: cores the engine may use.
        store: folder of compiled catalogs.
        service: limits and address.
        ready_file: written once requests are served, or None.
        engine_command: argv of the engine process.
        compiler_command: argv of the compiler process.
        observing: metrics and traces.

    """

    catalogs: tuple[tuple[str, Path], ...]
    model: str
    threads: int
    store: Path
    service: ServiceConfig
    ready_file: Path | None = None
    engine_command: Sequence[str] = ENGINE_COMMAND
    compiler_command: Sequence[str] = COMPILER_COMMAND
    observing: ObservingConfig = NOTHING


def _split_names(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, Path], ...]:
    """Split each at its name; a file whose own name holds "=" can be written as ./FILE."""
    split = []
    for value in values:
        named = NAMED.fullmatch(value)
        name, path = (named[1], Path(named[2])) if named else ("", Path(value))
        if not path.is_file():
            raise click.BadParameter(f"{str(path)!r} is no file", ctx, param)
        split.append((name, path))
    return tuple(split)


@click.command("serve")
@click.option(
    "--catalog",
    "catalogs",
    metavar="[NAME=]FILE",
    callback=_split_names,
    multiple=True,
    required=True,
    help="A tools file of any format that `catalog compile` reads, or a compiled .catalog; more "
    "than one may be served. The first is the default; its name is `default` unless given.",
)
@click.option(
    "--model",
    default=EMBEDDED,
    show_default=True,
    help="`embedded`, a GGUF file, or a folder with safetensors.",
)
@click.option("--host", default=DEFAULT_HOST, show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True)
@click.option(
    "--slots",
    type=click.IntRange(1, 4096),
    default=DEFAULT_SLOTS,
    show_default=True,
    help="Requests in the engine at once.",
)
@click.option(
    "--queue",
    type=click.IntRange(0, 65536),
    default=DEFAULT_QUEUE,
    show_default=True,
    help="Requests that may wait for a slot; further ones are refused.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    default=len(os.sched_getaffinity(0)),
    show_default="the cores there are",
    help="Cores the engine may use.",
)
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="Seconds that admitted requests are given after SIGTERM.",
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@observing_options
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of compiled catalogs.  [default: catalogs in the cache folder]",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Written, as JSON, once requests are served.",
)
def serve(
    catalogs: tuple[tuple[str, Path], ...],
    model: str,
    host: str,
    port: int,
    slots: int,
    queue: int,
    threads: int,
    grace_s: float,
    log_level: str,
    log_format: str,
    metrics_port: int | None,
    metrics_host: str,
    otlp_endpoint: str | None,
    otlp_protocol: str,
    store: Path | None,
    ready_file: Path | None,
) -> None:
    """Serve catalogs over gRPC, with health and reflection.

    Tools files are compiled first (once: the result is kept by content). Events go to standard
    error; no request's text is ever among them.

    \b
    Exit codes: 0 told to stop, and every admitted request has its answer; 1 nothing can be served,
    with the reason; 2 wrong usage; 3 told to stop, and the grace period was too short; 128 + the
    signal's number on the second signal.
    """  # noqa: D301  (click's own mark)
    log.set_up(log_level, log_format)
    if model != EMBEDDED and not Path(model).exists():
        raise click.UsageError(f"--model {model}: no such file or folder")
    options = ServeOptions(
        catalogs=_named(catalogs),
        model="" if model == EMBEDDED else model,
        threads=threads,
        store=store or cache_dir() / "catalogs",
        service=ServiceConfig(host=host, port=port, slots=slots, queue=queue, grace_s=grace_s),
        ready_file=ready_file,
        observing=observing(metrics_port, metrics_host, otlp_endpoint, otlp_protocol),
    )
    try:
        code = asyncio.run(run(options))
    except CannotServeError as error:
        click.echo(f"pointsman serve: {error}", err=True)
        code = EXIT_CANNOT_SERVE
    raise click.exceptions.Exit(code)


async def run(options: ServeOptions) -> int:
    """Serve until a signal comes; return the exit code.

    Raises:
        CannotServeError: the address is owned, a catalog is refused, or the engine does not start.

    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    engine: Supervisor | None = None

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            if engine is not None and engine.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(engine.pid, signal.SIGKILL)
            log.event("second signal", signal=number.name)
            os._exit(128 + number)
        log.event("signal", signal=number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    _check_address(options.service)
    try:
        options.observing.check()
    except (MissingExtraError, ScrapeAddressError) as error:
        raise CannotServeError(str(error)) from error
    options.store.mkdir(parents=True, exist_ok=True)
    compiler = CompileRunner(options.store, options.model, options.compiler_command)
    paths = await _unless(stop, _compiled_paths(options, compiler))
    if paths is None:
        return EXIT_DRAINED
    engine = Supervisor(
        EngineConfig(
            model=options.model,
            catalogs=tuple(paths),
            slots=options.service.slots,
            threads=options.threads,
        ),
        command=options.engine_command,
    )
    await engine.start()
    # Only now: gRPC must not be in this process when the engine is spawned.
    from router.service.server import AddressOwnedError, Server  # noqa: PLC0415

    names = tuple(name for name, _ in options.catalogs)
    watchers = Observing(options.observing)
    server = Server(options.service, engine, compiler, options.store, names, watchers.interceptors)
    try:
        await watchers.begin(server, engine)
        address = await server.bind()
        facts = await _unless(stop, server.open())
    except (AddressOwnedError, EngineStartError, ScrapeAddressError) as error:
        await server.abandon()
        await watchers.end()
        raise CannotServeError(str(error)) from error
    if facts is not None:
        _tell_ready(options, server, address, facts, watchers.facts)
        await stop.wait()
    in_time = await server.drain()
    await watchers.end()
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)
    return EXIT_DRAINED if in_time else EXIT_GRACE_EXCEEDED


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Do the work, or give it up and return None when told to stop meanwhile."""
    task = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return None


async def _compiled_paths(options: ServeOptions, compiler: CompileRunner) -> list[str]:
    """Return a compiled file for each catalog, compiling those that are none."""
    paths = []
    for name, path in options.catalogs:
        if path.suffix == SUFFIX:
            paths.append(str(path.resolve()))
            continue
        began = time.monotonic()
        log.event("compiling", catalog=name, file=str(path))
        try:
            compiled = await compiler.compile_file(path, progress=_tell_stage)
        except CompileError as error:
            raise CannotServeError(f"{path} can't be compiled: {error}") from error
        counts = {
            severity: sum(finding.severity == severity for finding in compiled.findings)
            for severity in ("error", "warning", "info")
        }
        log.event(
            "compiled",
            catalog=name,
            digest=compiled.digest,
            tools=compiled.tool_count,
            reused=compiled.reused,
            seconds=round(time.monotonic() - began, 3),
            findings=counts,
        )
        paths.append(compiled.path)
    return paths


def _tell_stage(stage: str) -> None:
    log.event("compiling", stage=stage)


def _tell_ready(
    options: ServeOptions,
    server: Server,
    address: str,
    facts: EngineFacts,
    watched: Mapping[str, str],
) -> None:
    catalogs = [
        {"name": c.name, "digest": c.digest, "tools": c.tool_count} for c in server.book.active()
    ]
    ready: dict[str, Any] = {
        "address": address,
        "model_digest": facts.model_digest,
        "catalogs": catalogs,
        "pid": os.getpid(),
        **watched,
    }
    log.event("ready", **ready)
    if options.service.host not in LOOPBACK:
        log.event(
            "reachable by others",
            level=logging.WARNING,
            advice="anyone who reaches this address may route, compile and activate catalogs; "
            "there is no authentication",
        )
    if options.ready_file is not None:
        scratch = options.ready_file.with_name(options.ready_file.name + ".part")
        scratch.write_text(json.dumps(ready) + "\n", encoding="utf-8")
        scratch.replace(options.ready_file)


def _named(catalogs: Sequence[tuple[str, Path]]) -> tuple[tuple[str, Path], ...]:
    """Name the catalogs: the first is `default`, the others are called after their file."""
    named: dict[str, Path] = {}
    for index, (given, path) in enumerate(catalogs):
        name = given or (FIRST_NAME if index == 0 else path.stem)
        if not NAMED.fullmatch(f"{name}=x"):
            raise click.UsageError(f"--catalog {path}: give it a name, as in NAME={path}")
        if name in named:
            raise click.UsageError(f"two catalogs are called {name}; give them names, NAME=FILE")
        named[name] = path
    return tuple(named.items())


def _check_address(config: ServiceConfig) -> None:
    """Find an owned address before minutes go into compiling; `bind` decides for good."""
    if not config.port:
        return
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((config.host, config.port))
    except OSError as error:
        raise CannotServeError(
            f"can't listen on {config.address}: {error.strerror or error}; "
            "choose another with --host and --port"
        ) from error
