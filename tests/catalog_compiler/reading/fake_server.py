"""A real MCP server over stdio for tests; its first argument says how it behaves."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

KIND = sys.argv[1]
PAGES = {"": ("a", "1"), "1": ("b", "2"), "2": ("c", None)}


def main() -> None:
    if KIND == "dies":
        sys.stderr.write("cannot find my configuration\n")
        sys.exit(3)
    server: Server[Any, Any] = Server("fake")

    async def list_tools(request: types.ListToolsRequest) -> types.ServerResult:
        if KIND == "sleeps":
            await asyncio.sleep(60)
        cursor = request.params.cursor if request.params and request.params.cursor else ""
        if KIND == "stuck":
            return page("a", "again")
        name, following = PAGES[cursor]
        return page(name, following)

    server.request_handlers[types.ListToolsRequest] = list_tools
    asyncio.run(serve(server))


def page(name: str, following: str | None) -> types.ServerResult:
    tool = types.Tool(name=name, description=f"Do {name}.", inputSchema={"type": "object"})
    return types.ServerResult(types.ListToolsResult(tools=[tool], nextCursor=following))


async def serve(server: Server[Any, Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


main()
