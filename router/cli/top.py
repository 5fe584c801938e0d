"""`pointsman top`: watch a server.

Owns the terminal while it runs (its keys, its screen) and the looks at the server; gives both back
whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console, Group
from rich.live import Live

from router.cli.connect import address_options, client_config, connect, tell_error
from router.cli.rates import rates
from router.cli.stats import show
from router.cli.top_view import View, lines
from router.client import (
    AsyncClient,
    ClientConfig,
    ExposedTokenError,
    RequestError,
    ServerUnavailableError,
    UnexpectedStatusError,
)
from router.client.connection import check_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from router.client import ServerStats

KEYS_READ: Final = 64
QUITS: Final = b"qQ\x03\x04"


@click.command("top")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1, max=3600),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@address_options(timeout_s=5.0)
def top(interval_s: float, address: str, timeout_s: float, **reached: Any) -> None:
    """Watch a server: slots, queue, requests by outcome and reason, latency, tools.

    Quit with q or Ctrl-C. A server that goes away is waited for. Where standard output is no
    terminal, the counters are printed once.

    \b
    Exit codes: 0 quit, or printed; 2 wrong usage; without a terminal also 4 no server answers and
    6 out of time.
    """  # noqa: D301  (click's own mark)
    console = Console()
    if not console.is_terminal or console.is_dumb_terminal:
        _print_once(console, address, timeout_s, reached)
        return
    config = dataclasses.replace(client_config(**reached), attempts=1, timeout_s=timeout_s)
    try:
        check_token(address, config)
    except ExposedTokenError as error:
        raise click.UsageError(str(error)) from error
    asyncio.run(_run(console, View(address, interval_s), config))


def _print_once(console: Console, address: str, timeout_s: float, reached: dict[str, Any]) -> None:
    try:
        with connect(address, **reached) as client:
            found = client.stats(timeout_s=timeout_s)
    except RequestError as error:
        tell_error(error, address)
    show(console, found, ())


async def _run(console: Console, view: View, config: ClientConfig) -> None:
    """Draw a view after every look, until told to quit."""
    loop = asyncio.get_running_loop()
    quit_asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, quit_asked.set)
    shown = view
    with _keys(quit_asked.set), Live(console=console, screen=True, auto_refresh=False) as live:

        def draw() -> None:
            width, height = console.size
            plain = console.options.ascii_only
            rows = lines(shown, width, height, plain=plain)
            live.update(Group(*rows), refresh=True)

        async def keep_drawing() -> None:
            nonlocal shown
            async for seen in views(view, config):
                shown = seen
                draw()

        draw()
        loop.add_signal_handler(signal.SIGWINCH, draw)
        drawing = asyncio.create_task(keep_drawing())
        quitting = asyncio.create_task(quit_asked.wait())
        await asyncio.wait({drawing, quitting}, return_when=asyncio.FIRST_COMPLETED)
        quitting.cancel()
        if drawing.done():
            drawing.result()
        drawing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await drawing
        loop.remove_signal_handler(signal.SIGWINCH)


async def views(view: View, config: ClientConfig) -> AsyncIterator[View]:
    """Look at the server again and again; a look that fails is a view as well."""
    loop = asyncio.get_running_loop()
    before: ServerStats | None = None
    while True:
        # A connection that failed is not used again: gRPC would wait ever longer to mend it.
        async with AsyncClient(view.address, config) as client:
            failed = False
            while not failed:
                next_look = loop.time() + view.interval_s
                try:
                    found = await client.stats()
                except RequestError as error:
                    failed, before = True, None
                    problem = _problem(error, view.address)
                    view = dataclasses.replace(view, rates=None, problem=problem)
                else:
                    grown = None if before is None else rates(before, found)
                    view = dataclasses.replace(view, found=found, rates=grown, problem="")
                    before = found
                yield view
                await asyncio.sleep(max(next_look - loop.time(), 0.0))


def _problem(error: RequestError, address: str) -> str:
    if isinstance(error, ServerUnavailableError):
        return f"no server at {address}; it is looked for until you quit"
    if isinstance(error, UnexpectedStatusError):
        return f"what answers at {address} is no Pointsman server"
    return f"the server at {address} does not answer"


@contextlib.contextmanager
def _keys(quit_now: Callable[[], None]) -> Iterator[None]:
    """Take single keys from a terminal, without echo; anything else is left alone."""
    if not sys.stdin.isatty():
        yield
        return
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        pressed = os.read(descriptor, KEYS_READ)
        if not pressed:
            loop.remove_reader(descriptor)
        if set(pressed) & set(QUITS):
            quit_now()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
