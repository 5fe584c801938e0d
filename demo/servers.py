"""The demo's MCP servers: installed from the package index, and written down in an `mcp.json`.

Owns the environments they run in and the configuration that leads to them. Never starts one: the
catalog compiler does, as it would any other.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HERE: Final = Path(__file__).resolve().parent
STAMP: Final = ".installed"


class ServersError(Exception):
    """The servers can't be installed or read; the message says which and the mend."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server: the environment it is installed in, and its command there.

    `{work}` in an argument stands for the demo's working folder.
    """

    name: str
    environment: str
    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers, and the file of pinned packages for each environment."""

    environments: dict[str, Path]
    servers: tuple[Server, ...]


def read_servers(path: Path = HERE / "servers.json") -> Servers:
    """Read which servers there are.

    Raises:
        ServersError: the file is not as it should be.

    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        environments = {
            name: path.parent / "environments" / file
            for name, file in document["environments"].items()
        }
        servers = tuple(
            Server(s["name"], s["environment"], s["command"], tuple(s["args"]))
            for s in document["servers"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServersError(f"{path} can't be read: {error!r}") from error
    for server in servers:
        if server.environment not in environments:
            raise ServersError(
                f"{path}: {server.name} names the environment {server.environment!r}; "
                f"there are {', '.join(environments)}"
            )
    return Servers(environments, servers)


def install(servers: Servers, work: Path, tell: Callable[[str], None]) -> None:
    """Make each environment below `work`, unless it holds these very packages already.

    Raises:
        ServersError: an environment can't be made, or pip fails; the message ends with its reason.

    """
    for name, requirements in servers.environments.items():
        folder = work / name
        stamp = folder / STAMP
        wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
        if stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == wanted:
            tell(f"{name}: installed already")
            continue
        tell(f"{name}: installing the packages of {requirements.name}")
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], name)
        _run([str(folder / "bin" / "python"), *_PIP, str(requirements)], name)
        stamp.write_text(wanted + "\n", encoding="utf-8")


_PIP: Final = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r")


def _run(command: list[str], environment: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = " ".join(reasons) or (done.stderr or done.stdout).strip()[-500:]
        raise ServersError(
            f"the environment {environment} can't be installed: {reason}; "
            "check that pip reaches a package index"
        )


def client_config(servers: Servers, work: Path) -> dict[str, Any]:
    """Return the servers as an MCP client is told them."""
    return {
        "mcpServers": {
            server.name: {
                "command": str(work / server.environment / "bin" / server.command),
                "args": [arg.replace("{work}", str(work)) for arg in server.args],
            }
            for server in servers.servers
        }
    }


def write_client_config(servers: Servers, work: Path, path: Path) -> None:
    """Write `mcp.json`."""
    path.write_text(json.dumps(client_config(servers, work), indent=2) + "\n", encoding="utf-8")
