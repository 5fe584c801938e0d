"""The server as the demo's process: waited for, told apart from one that ended, always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from demo import serving

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for `pointsman`: a script whose body each test writes."""
    script = tmp_path / "pointsman"
    monkeypatch.setattr(serving, "POINTSMAN", script)
    return script


def write(script: Path, body: str) -> None:
    script.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}", encoding="utf-8")
    script.chmod(0o755)


READY = """
args = sys.argv
path = args[args.index("--ready-file") + 1]
open(path + ".part", "w").write(json.dumps({"address": "host:1", "pid": os.getpid()}))
os.rename(path + ".part", path)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_of(work: Path) -> int:
    return int((work / "pid").read_text(encoding="utf-8"))


def test_address_once_ready_and_ended_after(tmp_path: Path, command: Path) -> None:
    """The address is the ready file's, a stale one does not count, and the process is ended."""
    (tmp_path / "ready.json").write_text('{"address": "stale:1"}', encoding="utf-8")
    write(
        command,
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{READY}time.sleep(60)",
    )
    with serving.serving({"a": tmp_path / "a.catalog"}, tmp_path) as address:
        assert address == "host:1"
        pid = pid_of(tmp_path)
        assert alive(pid)
    assert not alive(pid)


def test_server_that_ends_is_reported(tmp_path: Path, command: Path) -> None:
    """Its exit code and its last words are in the message."""
    write(command, "sys.exit('the address is owned')")
    with (
        pytest.raises(serving.ServingError, match=r"ended with 1:\n.*the address is owned"),
        serving.serving({}, tmp_path),
    ):
        pytest.fail("nothing is served")


def test_server_that_is_never_ready_is_ended(
    tmp_path: Path, command: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after the limit, and not left running."""
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    monkeypatch.setattr(serving, "START_LIMIT_S", 0.2)
    write(command, "time.sleep(60)")
    with pytest.raises(serving.ServingError, match="not ready"), serving.serving({}, tmp_path):
        pytest.fail("nothing is served")
    assert [process.returncode for process in started] == [-signal.SIGTERM]


def test_interrupt_ends_the_server(tmp_path: Path, command: Path) -> None:
    """Ctrl-C while requests are under way leaves no process."""
    write(
        command,
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{READY}time.sleep(60)",
    )
    with pytest.raises(KeyboardInterrupt), serving.serving({}, tmp_path):
        raise KeyboardInterrupt
    assert not alive(pid_of(tmp_path))


def test_server_that_does_not_stop_is_killed(
    tmp_path: Path, command: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ignores SIGTERM is killed after the limit."""
    monkeypatch.setattr(serving, "STOP_LIMIT_S", 0.2)
    ignore = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    write(command, f"{ignore}{note}{READY}time.sleep(60)")
    with serving.serving({}, tmp_path):
        pid = pid_of(tmp_path)
    assert not alive(pid)
