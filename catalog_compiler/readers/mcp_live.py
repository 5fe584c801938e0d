"""Live MCP servers, asked for their tools through the official SDK.

Owns connecting, paging, time-outs and the end of every child process. Servers are asked side by
side; one that fails becomes a finding and the others go on.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict

from catalog_compiler import findings
from catalog_compiler.readers.raw import Reading
from catalog_compiler.readers.tool_list import read_entries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from catalog_compiler.limits import Limits
    from catalog_compiler.readers.mcp_config import ServerConfig

# What a foreign server says out of turn is in its finding; the SDK would print it, with tracebacks.
for _name in ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.sse"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False

PARALLEL_SERVERS = 8
STDERR_SHOWN = 600
"""Characters of a failed server's own last words that its finding repeats."""


class _RawPage(types.Result):
    """A page of `tools/list` whose entries are not judged: one bad tool must not hide the rest."""

    model_config = ConfigDict(extra="allow")
    tools: list[Any] = []  # noqa: RUF012 - pydantic copies it
    nextCursor: str | None = None  # noqa: N815 - the protocol's name


class _StuckCursorError(Exception):
    """A page named a cursor that was already followed."""


def read_servers(
    servers: Sequence[ServerConfig],
    limits: Limits,
    timeout_s: float,
    progress: Callable[[str], None] | None = None,
) -> Reading:
    """Ask every server for its tools.

    Args:
        servers: whom to ask; the name becomes the namespace and the source.
        limits: bounds.
        timeout_s: seconds for one server, from start to last page.
        progress: told of each server that is done.

    """
    readings: dict[str, Reading] = {}

    async def one(server: ServerConfig, gate: anyio.CapacityLimiter) -> None:
        async with gate:
            readings[server.name] = await _read_server(server, limits, timeout_s)
            if progress:
                progress(f"{server.name}: {len(readings[server.name].tools)} tools")

    async def everyone() -> None:
        gate = anyio.CapacityLimiter(PARALLEL_SERVERS)
        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(one, server, gate)

    anyio.run(everyone)
    joined = Reading()
    for server in servers:  # in the order of the configuration, whoever answered first
        joined.absorb(readings[server.name])
    return joined


async def _read_server(server: ServerConfig, limits: Limits, timeout_s: float) -> Reading:
    failed = Reading()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        try:
            with anyio.fail_after(timeout_s):
                entries = await _list_tools(server, limits, stderr, timeout_s)
        except _StuckCursorError as error:
            failed.diagnostics.append(findings.CURSOR_STUCK.at(server.name, "", str(error)))
            return failed
        except TimeoutError:
            problem = f"it did not list its tools within {timeout_s:g} s"
        except BaseExceptionGroup as group:
            causes = _leaves(group)
            if any(isinstance(cause, (KeyboardInterrupt, SystemExit)) for cause in causes):
                raise
            stuck = next((c for c in causes if isinstance(c, _StuckCursorError)), None)
            if stuck is not None:
                failed.diagnostics.append(findings.CURSOR_STUCK.at(server.name, "", str(stuck)))
                return failed
            problem = "; ".join(dict.fromkeys(_words(c) for c in causes))
        except Exception as error:  # noqa: BLE001 - whatever a foreign server provokes
            problem = _words(error)
        else:
            return read_entries(entries, server.name, "/tools", server.name, "mcp", limits)
        stderr.seek(0)
        last_words = " ".join(stderr.read()[-STDERR_SHOWN:].split())
    said = f"; it said: {last_words}" if last_words else ""
    failed.diagnostics.append(
        findings.SERVER_UNREACHABLE.at(server.name, "", f"{problem[:400]}{said}")
    )
    return failed


async def _list_tools(
    server: ServerConfig, limits: Limits, stderr: Any, timeout_s: float
) -> list[Any]:
    """Follow every page. Raises _StuckCursorError, TimeoutError or what the transport raises."""
    entries: list[Any] = []
    followed: set[str] = set()
    cursor: str | None = None
    size = 0
    patience = dt.timedelta(seconds=timeout_s)
    async with _connected(server, stderr, timeout_s) as streams:  # noqa: SIM117 (streams is used)
        async with ClientSession(*streams, read_timeout_seconds=patience) as session:
            await session.initialize()
            for _ in range(limits.pages):
                parameters = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                page = await session.send_request(
                    types.ClientRequest(types.ListToolsRequest(params=parameters)), _RawPage
                )
                entries += page.tools
                size += len(json.dumps(page.tools, default=str))
                if size > limits.file_bytes or len(entries) > limits.tools:
                    raise ValueError(
                        f"it lists more than {limits.tools} tools or {limits.file_bytes} bytes"
                    )
                cursor = page.nextCursor
                if not cursor:
                    return entries
                if cursor in followed:
                    raise _StuckCursorError(f"the cursor {cursor[:80]!r} came back a second time")
                followed.add(cursor)
    raise _StuckCursorError(f"the list goes on past {limits.pages} pages")


@contextlib.asynccontextmanager
async def _connected(
    server: ServerConfig, stderr: Any, timeout_s: float
) -> AsyncIterator[tuple[Any, Any]]:
    """Open the server's transport; closing it ends the child process."""
    if server.transport == "stdio":
        parameters = StdioServerParameters(
            command=server.command,
            args=list(server.args),
            env={**get_default_environment(), **dict(server.env)},
            cwd=server.cwd or os.getcwd(),  # noqa: PTH109 - the SDK takes text
        )
        async with stdio_client(parameters, errlog=stderr) as (read, write):
            yield read, write
    elif server.transport == "sse":
        async with sse_client(
            server.url, headers=dict(server.headers), timeout=timeout_s, sse_read_timeout=timeout_s
        ) as (read, write):
            yield read, write
    else:
        async with (
            httpx.AsyncClient(
                headers=dict(server.headers), timeout=timeout_s, follow_redirects=True
            ) as client,
            streamable_http_client(server.url, http_client=client) as (read, write, _),
        ):
            yield read, write


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


def _words(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
