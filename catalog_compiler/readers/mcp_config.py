"""`mcp.json` as clients write it: which servers there are and how each is reached.

Owns the configuration's shape: `mcpServers` (most clients) or `servers` (VS Code), stdio commands
and URLs, `${VAR}` and `${env:VAR}` taken from the environment. Never starts a server.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_compiler import findings, pointers

if TYPE_CHECKING:
    from catalog_compiler.model import Diagnostic, Json

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
TRANSPORTS = ("stdio", "http", "sse")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server. `transport` is one of `TRANSPORTS`; the others are used as it needs them."""

    name: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def is_config(value: Json) -> bool:
    """Tell whether a document is a client's server configuration."""
    if not isinstance(value, dict):
        return False
    servers = value.get("mcpServers", value.get("servers"))
    # One entry that can be reached makes it a configuration; the others are then findings.
    return isinstance(servers, dict) and any(_is_reachable(s) for s in servers.values())


def _is_reachable(entry: Json) -> bool:
    return isinstance(entry, dict) and ("command" in entry or "url" in entry)


def parse_config(
    value: dict[str, Json], source: str
) -> tuple[list[ServerConfig], list[Diagnostic]]:
    """Read the servers; one that can't be understood becomes a finding."""
    key = "mcpServers" if "mcpServers" in value else "servers"
    servers: list[ServerConfig] = []
    found: list[Diagnostic] = []
    for name, entry in value[key].items():
        place = pointers.join("", key, name)
        if not _is_reachable(entry):
            problem = f"{name} has neither a command nor a url"
            found.append(findings.SERVER_UNREACHABLE.at(source, place, problem))
            continue
        if entry.get("disabled") is True:
            found.append(findings.SERVER_DISABLED.at(source, place, f"{name} is disabled"))
            continue
        try:
            servers.append(_server(name, entry))
        except ValueError as error:
            found.append(findings.SERVER_UNREACHABLE.at(source, place, f"{name}: {error}"))
    return servers, found


def _server(name: str, entry: dict[str, Json]) -> ServerConfig:
    if "command" in entry:
        args = entry.get("args", [])
        if not isinstance(entry["command"], str) or not isinstance(args, list):
            raise ValueError("command must be text and args a list")
        return ServerConfig(
            name=name,
            transport="stdio",
            command=_expand(entry["command"]),
            args=tuple(_expand(str(a)) for a in args),
            env=_pairs(entry.get("env")),
            cwd=_expand(entry["cwd"]) if isinstance(entry.get("cwd"), str) else None,
        )
    kind = str(entry.get("type", entry.get("transport", "http"))).lower()
    if kind not in ("http", "streamable-http", "streamable_http", "streamablehttp", "sse"):
        raise ValueError(f"transport {kind!r} is unknown; known: stdio, http, sse")
    if not isinstance(entry["url"], str):
        raise ValueError("url must be text")  # noqa: TRY004 (one kind of failure)
    return ServerConfig(
        name=name,
        transport="sse" if kind == "sse" else "http",
        url=_expand(entry["url"]),
        headers=_pairs(entry.get("headers")),
    )


def _pairs(value: Json) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise ValueError("env and headers must be objects")  # noqa: TRY004 (one kind of failure)
    return tuple((str(k), _expand(str(v))) for k, v in value.items())


def _expand(text: str) -> str:
    def variable(match: re.Match[str]) -> str:
        value = os.environ.get(match[1], match[2])
        if value is None:
            raise ValueError(f"the environment variable {match[1]} is not set")
        return value

    return _VARIABLE.sub(variable, text)
