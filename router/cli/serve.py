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
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from catalog_compiler.artifact import SUFFIX
from router.assets import cache_dir
from router.cli.observing import observing, observing_options
from router.engine.compiler import COMPILER_COMMAND, CompileRunner
from router.engine.errors import CompileError, EngineStartError
from router.engine.facts import DEFAULT_MAX_REQUEST_TOKENS, EngineConfig
from router.engine.supervisor import ENGINE_COMMAND, Supervisor
from router.service import log
from router.service.config import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    DEFAULT_QUEUE,
    DEFAULT_SLOTS,
    ServiceConfig,
)
from router.service.listening import (
    AddressOwnedError,
    TlsFileError,
    TlsFiles,
    check_port_free,
    is_loopback,
)
from router.service.observing import NOTHING, MissingExtraError, Observing, ObservingConfig
from router.service.policies import Clients, ClientsFileError, read_clients
from router.service.scrape import ScrapeAddressError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from router.engine.facts import EngineFacts
    from router.service.server import Server

Result = TypeVar("Result")

EXIT_DRAINED: Final = 0
EXIT_CANNOT_SERVE: Final = 1
EXIT_GRACE_EXCEEDED: Final = 3
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
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
        clients: who may call, and for what.
        expected_model: digest that the model must have; "" takes any.
        expected_catalogs: digest that a name's catalog must have.
        max_request_tokens: longest text of a request.
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
    clients: Clients = field(default_factory=Clients)
    expected_model: str = ""
    expected_catalogs: Mapping[str, str] = field(default_factory=dict)
    max_request_tokens: int = DEFAULT_MAX_REQUEST_TOKENS
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
    "--unix",
    "unix_socket",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Listen on a unix socket, for this account alone, in place of host and port.",
)
@click.option("--tls-cert", type=FILE, help="The server's certificate, PEM; with --tls-key.")
@click.option("--tls-key", type=FILE, help="Its private key, PEM.")
@click.option(
    "--tls-client-ca",
    type=FILE,
    help="Roots of client certificates, PEM: every client must show one (mTLS).",
)
@click.option(
    "--clients",
    "clients_file",
    type=FILE,
    help="The clients there are, TOML: tokens, shares, quotas, what each may see "
    "(docs/security.md). Without it anyone may do anything.",
)
@click.option(
    "--insecure-public",
    is_flag=True,
    help="Listen where other machines reach it without TLS or without knowing clients.",
)
@click.option(
    "--model-digest",
    "expected_model",
    default="",
    metavar="SHA256",
    help="Serve only if the model has this digest.",
)
@click.option(
    "--catalog-digest",
    "expected_catalogs",
    multiple=True,
    metavar="[NAME=]SHA256",
    help="Serve only if the compiled catalog of that name (the default one) has this digest.",
)
@click.option(
    "--max-request-tokens",
    type=click.IntRange(1, 200_000),
    default=DEFAULT_MAX_REQUEST_TOKENS,
    show_default=True,
    help="Longest text of a request; longer ones are refused.",
)
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
@click.option(
    "--no-arguments",
    is_flag=True,
    help="Choose tools only: no tables for arguments are held, and requests that want arguments "
    "are refused as ARGUMENTS_UNAVAILABLE.",
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
    unix_socket: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    clients_file: Path | None,
    insecure_public: bool,  # noqa: FBT001  (click hands flags over so)
    expected_model: str,
    expected_catalogs: tuple[str, ...],
    max_request_tokens: int,
    no_arguments: bool,  # noqa: FBT001
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
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    if unix_socket is None and not insecure_public:
        _check_exposure(host, tls, clients_file)
    named = _named(catalogs)
    try:
        service = ServiceConfig(
            host=host, port=port, slots=slots, queue=queue, grace_s=grace_s, tls=tls,
            unix_socket=unix_socket, arguments=not no_arguments,
        )  # fmt: skip
        clients = Clients() if clients_file is None else read_clients(clients_file)
    except (ValueError, ClientsFileError) as error:
        raise click.UsageError(str(error)) from error
    options = ServeOptions(
        catalogs=named,
        model="" if model == EMBEDDED else model,
        threads=threads,
        store=store or cache_dir() / "catalogs",
        service=service,
        clients=clients,
        expected_model=_digest(expected_model, "--model-digest"),
        expected_catalogs=_expected(expected_catalogs, [name for name, _ in named]),
        max_request_tokens=max_request_tokens,
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
    try:
        if options.service.unix_socket is None:
            check_port_free(options.service.host, options.service.port)
        if options.service.tls is not None:
            options.service.tls.read()
        options.observing.check()
    except (AddressOwnedError, TlsFileError, MissingExtraError, ScrapeAddressError) as error:
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
            max_request_tokens=options.max_request_tokens,
            arguments=options.service.arguments,
        ),
        command=options.engine_command,
    )
    await engine.start()
    # Only now: gRPC must not be in this process when the engine is spawned.
    from router.service.server import Server  # noqa: PLC0415

    names = tuple(name for name, _ in options.catalogs)
    watchers = Observing(options.observing)
    try:
        server = Server(
            options.service,
            engine,
            compiler,
            options.store,
            names,
            options.clients,
            watchers.interceptors,
        )
    except AddressOwnedError as error:
        await engine.stop()
        raise CannotServeError(str(error)) from error
    try:
        await watchers.begin(server, engine)
        address = await server.bind()
        facts = await _unless(stop, _ready(options, engine))
        if facts is not None:
            await server.open()
    except (
        AddressOwnedError,
        EngineStartError,
        TlsFileError,
        ScrapeAddressError,
        CannotServeError,
    ) as error:
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


async def _ready(options: ServeOptions, engine: Supervisor) -> EngineFacts:
    """Wait for the engine, and hold what it has loaded to what was demanded.

    Raises:
        EngineStartError: it refused to start.
        CannotServeError: a digest is another.

    """
    facts = await engine.ready()
    if options.expected_model not in ("", facts.model_digest):
        raise CannotServeError(
            f"the model has digest {facts.model_digest}, and {options.expected_model} was demanded"
        )
    for (name, path), catalog in zip(options.catalogs, facts.catalogs, strict=True):
        wanted = options.expected_catalogs.get(name, catalog.digest)
        if wanted != catalog.digest:
            raise CannotServeError(
                f"catalog {name} ({path}) has digest {catalog.digest}, and {wanted} was demanded"
            )
    return facts


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
    service = options.service
    if service.unix_socket is None and not is_loopback(service.host):
        missing = [
            what
            for what, there in (
                ("TLS: anyone on the way can read and change what is sent", service.tls),
                ("known clients: anyone may route, compile and activate", options.clients.known),
            )
            if not there
        ]
        for what in missing:
            log.event("reachable by others", level=logging.WARNING, without=what)
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


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    if cert is None and key is None:
        if client_ca is not None:
            raise click.UsageError("--tls-client-ca needs --tls-cert and --tls-key")
        return None
    if cert is None or key is None:
        raise click.UsageError("--tls-cert and --tls-key belong together")
    return TlsFiles(cert, key, client_ca)


def _check_exposure(host: str, tls: TlsFiles | None, clients_file: Path | None) -> None:
    """Refuse an address that other machines reach, unless nobody can listen in or walk in."""
    if is_loopback(host):
        return
    missing = []
    if tls is None:
        missing.append("--tls-cert and --tls-key")
    if clients_file is None and (tls is None or tls.client_ca is None):
        missing.append("--clients (or --tls-client-ca)")
    if missing:
        raise click.UsageError(
            f"--host {host} is reached from other machines, so {' and '.join(missing)} must be "
            "given too; --insecure-public serves without"
        )


def _expected(given: tuple[str, ...], names: Sequence[str]) -> dict[str, str]:
    expected = {}
    for value in given:
        name, mark, digest = value.rpartition("=")
        name = name if mark else names[0]
        if name not in names:
            raise click.UsageError(f"--catalog-digest {value}: no catalog is called {name}")
        expected[name] = _digest(digest, "--catalog-digest")
    return expected


def _digest(value: str, option: str) -> str:
    if value and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise click.UsageError(f"{option} {value!r} is no digest: 64 lower-case hexadecimal digits")
    return value
