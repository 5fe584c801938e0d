"""The demo from end to end: install, list, compile, serve, ask. Run by `make demo`.

Owns the order of the steps and what is said about them. Nothing in it knows an answer: catalogs
come from live servers and from a package, tools and probabilities from the server.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from demo import asking, bfcl, servers, serving
from router import assets
from router.client import Client, PointsmanError

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS: Final = 5
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130
WIDTH: Final = 120
"""Columns where the output is no terminal, so that tables in a log can be read."""


class DemoError(Exception):
    """A step failed; the message says what."""


class Steps:
    """Says which step is under way and how long each took."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._number = 0

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Announce a step, and say afterwards how long it took."""
        self._number += 1
        self._console.print(f"[bold][{self._number}/{STEPS}][/bold] {title}", highlight=False)
        began = time.monotonic()
        yield
        self._console.print(f"      [dim]{time.monotonic() - began:.1f} s[/dim]")

    def tell(self, text: str) -> None:
        """Say something about the step under way."""
        self._console.print(f"      {text}", markup=False, highlight=False)


def compile_catalog(source: Path, target: Path) -> None:
    """Compile with the installed command, its messages shown as they come.

    Raises:
        DemoError: it failed.

    """
    command = [str(serving.POINTSMAN), "catalog", "compile", str(source), "-o", str(target)]
    code = subprocess.run(command, check=False).returncode  # noqa: S603
    if code != 0:
        raise DemoError(f"`pointsman catalog compile {source}` ended with {code}")


def run(work: Path, console: Console) -> None:
    """Take every step in `work`.

    Raises:
        DemoError, ServersError, BfclError, ServingError, AssetError, PointsmanError: one failed.

    """
    began = time.monotonic()
    work.mkdir(parents=True, exist_ok=True)
    steps = Steps(console)
    chosen = servers.read_servers()
    requests = asking.read_requests()
    mcp_json, functions = work / "mcp.json", work / "bfcl.json"
    catalogs = {"mcp": work / "mcp.catalog", "bfcl": work / "bfcl.catalog"}

    with steps.step(f"Install {len(chosen.servers)} MCP servers from the package index"):
        servers.install(chosen, work, steps.tell)
        servers.write_client_config(chosen, work, mcp_json)
        steps.tell(f"{mcp_json}: {', '.join(server.name for server in chosen.servers)}")
    with steps.step("Start each of them, list its tools, compile them into one catalog"):
        compile_catalog(mcp_json, catalogs["mcp"])
    with steps.step("Take the functions of the BFCL v4 benchmark out of its package, compile them"):
        count = bfcl.write_catalog(assets.bfcl_dir(), functions)
        steps.tell(f"{functions}: {count:,} functions of different names")
        compile_catalog(functions, catalogs["bfcl"])
    with contextlib.ExitStack() as stack:
        with steps.step("Serve both catalogs"):
            address = stack.enter_context(serving.serving(catalogs, work))
            client = stack.enter_context(Client(address))
            for info in client.list_catalogs():
                steps.tell(
                    f"{info.name}: {info.tool_count:,} tools, {info.definition_tokens:,} tokens in "
                    f"a prompt, digest {info.digest[:12]}"
                )
            steps.tell(f"gRPC on {address}; log in {work / 'serve.log'}")
        with steps.step(f"Route {sum(map(len, requests.values()))} requests"):
            for catalog, of_catalog in requests.items():
                console.print(asking.as_table(catalog, asking.ask(client, catalog, of_catalog)))
    console.print(f"Server stopped. The whole demo took {time.monotonic() - began:.1f} s.")


def main(argv: list[str] | None = None) -> int:
    """Run the demo; exit 0 when every step was taken, 1 with the reason, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.run", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(".demo"), help="folder for its files")
    options = parser.parse_args(argv)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    # A closed terminal or `kill` ends the server like Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        run(options.work.resolve(), console)
    except KeyboardInterrupt:
        console.print("\nStopped.")
        return EXIT_INTERRUPTED
    except (
        *(DemoError, servers.ServersError, bfcl.BfclError, serving.ServingError),
        *(assets.AssetError, PointsmanError, OSError),
    ) as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
