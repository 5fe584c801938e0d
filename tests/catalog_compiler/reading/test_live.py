"""Live MCP servers: paged, stuck, slow, dead and badly configured ones, side by side."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from catalog_compiler.errors import SourceError
from catalog_compiler.frontend import load_toolset

SERVER = str(Path(__file__).with_name("fake_server.py"))


def config(tmp_path: Path, **servers: Any) -> str:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def stdio(kind: str, **extra: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, kind], **extra}


def children() -> set[str]:
    """Process ids of what this process has started and not yet ended."""
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        found |= set((task / "children").read_text().split())
    return found


@pytest.mark.slow
def test_servers_are_asked_side_by_side_and_one_that_fails_costs_itself(tmp_path: Path) -> None:
    """Every page of the good one; each of the others is a finding that says why."""
    source = config(
        tmp_path,
        paged=stdio("paged"),
        stuck=stdio("stuck"),
        slow=stdio("sleeps"),
        dead=stdio("dies"),
        missing={"command": "/no/such/program"},
        unset=stdio("paged", env={"KEY": "${NOT_SET_ANYWHERE}"}),
        off=stdio("paged", disabled=True),
        nowhere={"url": "http://127.0.0.1:9/mcp"},
    )
    before = children()
    toolset = load_toolset([source], live_timeout_s=8.0)
    assert children() <= before, "a server was left running"
    assert [(t.name, t.namespace, t.source) for t in toolset.tools] == [
        ("a", "paged", "paged"), ("b", "paged", "paged"), ("c", "paged", "paged"),
    ]  # fmt: skip
    found = {d.source if d.source != "mcp.json" else d.pointer: (d.code, d.message)
             for d in toolset.diagnostics}  # fmt: skip
    assert found["stuck"][0] == "cursor-stuck"
    assert "'again'" in found["stuck"][1]
    assert found["slow"] == ("server-unreachable", "it did not list its tools within 8 s")
    assert "cannot find my configuration" in found["dead"][1]
    assert "no/such/program" in found["missing"][1]
    assert found["/mcpServers/off"][0] == "server-disabled"
    assert "NOT_SET_ANYWHERE is not set" in found["/mcpServers/unset"][1]
    assert found["nowhere"][0] == "server-unreachable"


def test_no_server_at_all_is_an_error(tmp_path: Path) -> None:
    """With nothing read there is no catalog."""
    with pytest.raises(SourceError, match="no tool could be read"):
        load_toolset([config(tmp_path, gone={"command": "/no/such/program"})])


def test_a_server_over_http_is_read_by_its_url(tmp_path: Path) -> None:
    """Streamable HTTP, given as a bare URL and in a configuration."""
    import socket  # noqa: PLC0415
    import subprocess  # noqa: PLC0415
    import time  # noqa: PLC0415

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        "from mcp.server.fastmcp import FastMCP\n"
        f"app = FastMCP('web', host='127.0.0.1', port={port}, log_level='ERROR')\n"
        "@app.tool()\n"
        "def bake(loaves: int) -> str:\n"
        "    'Bake bread.'\n"
        "    return 'ok'\n"
        "app.run(transport='streamable-http')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as server:
        try:
            for _ in range(200):
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port}/mcp"
            (tool,) = load_toolset([url]).tools
            assert (tool.name, tool.description) == ("bake", "Bake bread.")
            source = config(tmp_path, web={"type": "http", "url": url})
            assert load_toolset([source]).tools[0].namespace == "web"
        finally:
            server.terminate()
