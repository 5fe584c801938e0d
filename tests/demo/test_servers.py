"""The demo's servers: what is read, what is written for clients, and when pip is called."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo import servers
from demo.servers import Server, Servers, ServersError

WORK = Path("/a folder/work")


def test_shipped_servers_are_readable_and_pinned() -> None:
    """Each server's environment exists, and every package in it has one exact version."""
    shipped = servers.read_servers()
    assert len({server.name for server in shipped.servers}) == len(shipped.servers) >= 5
    for path in shipped.environments.values():
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
        assert lines
        assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines), lines


def test_config_leads_to_the_environment() -> None:
    """`mcp.json` has absolute commands, and the working folder in arguments that ask for it."""
    server = Server("db", "one", "db-server", ("--file", "{work}/x.db"))
    config = servers.client_config(Servers({"one": Path("one.txt")}, (server,)), WORK)
    assert config == {
        "mcpServers": {
            "db": {
                "command": "/a folder/work/one/bin/db-server",
                "args": ["--file", "/a folder/work/x.db"],
            }
        }
    }


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"environments": {}, "servers": [{"name": "a"}]}', '{"environments": 1}'],
)
def test_unreadable_list_is_named(tmp_path: Path, text: str) -> None:
    """A list that is not as it should be is named, whatever is wrong with it."""
    path = tmp_path / "servers.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ServersError, match=re.escape(str(path))):
        servers.read_servers(path)


def test_unknown_environment_is_named(tmp_path: Path) -> None:
    """A server in an environment that is not there is refused before anything is installed."""
    path = tmp_path / "servers.json"
    server = {"name": "a", "environment": "two", "command": "a", "args": []}
    document = {"environments": {"one": "one.txt"}, "servers": [server]}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ServersError, match="'two'; there are one"):
        servers.read_servers(path)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record commands in place of running them; they succeed."""
    made: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        made.append(command)
        if command[1:3] == ["-m", "venv"]:
            Path(command[-1]).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return made


def test_installs_once_and_again_after_a_change(tmp_path: Path, calls: list[list[str]]) -> None:
    """The same packages are installed once; other ones are installed anew."""
    requirements = tmp_path / "one.txt"
    requirements.write_text("a==1\n", encoding="utf-8")
    chosen = Servers({"one": requirements}, ())
    said: list[str] = []
    servers.install(chosen, tmp_path / "work", said.append)
    assert [command[0] for command in calls] == [
        sys.executable,
        str(tmp_path / "work" / "one" / "bin" / "python"),
    ]
    servers.install(chosen, tmp_path / "work", said.append)
    assert len(calls) == 2
    requirements.write_text("a==2\n", encoding="utf-8")
    servers.install(chosen, tmp_path / "work", said.append)
    assert len(calls) == 4


def test_failed_install_leaves_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip's reason is handed on, and the next run tries again."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if command[1:3] == ["-m", "venv"]:
            Path(command[-1]).mkdir(parents=True, exist_ok=True)
            return subprocess.CompletedProcess(command, 0, "", "")
        return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: no such package\n")

    monkeypatch.setattr(subprocess, "run", run)
    requirements = tmp_path / "one.txt"
    requirements.write_text("a==1\n", encoding="utf-8")
    with pytest.raises(ServersError, match=r"one can't be installed: ERROR: no such package"):
        servers.install(Servers({"one": requirements}, ()), tmp_path / "work", lambda _: None)
    assert not (tmp_path / "work" / "one" / servers.STAMP).exists()
