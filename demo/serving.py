"""`pointsman serve` as a process of the demo's: started, waited for, and always ended.

Owns the process and its log. The server is the installed command itself, nothing of it imported.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

POINTSMAN: Final = Path(sys.executable).with_name("pointsman")
START_LIMIT_S: Final = 180.0
STOP_LIMIT_S: Final = 30.0
POLL_S: Final = 0.05
LOG_LINES: Final = 12


class ServingError(Exception):
    """The server did not start; the message ends with what it said."""


@contextlib.contextmanager
def serving(catalogs: dict[str, Path], work: Path) -> Iterator[str]:
    """Serve compiled catalogs on a free port; yields the address once requests are served.

    Raises:
        ServingError: the server ended, or was not ready in time.

    """
    ready = work / "ready.json"
    ready.unlink(missing_ok=True)
    log = work / "serve.log"
    command = [str(POINTSMAN), "serve", "--port", "0", "--ready-file", str(ready)]
    for name, path in catalogs.items():
        command += ["--catalog", f"{name}={path}"]
    with log.open("wb") as errors:
        # A group of its own: Ctrl-C reaches the demo, which then ends the server in order.
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
        )
    try:
        yield _address(process, ready, log)
    finally:
        _end(process)


def _address(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while not ready.is_file():
        if process.poll() is not None:
            raise ServingError(f"the server ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise ServingError(
                f"the server is not ready after {START_LIMIT_S:.0f} s:\n{_tail(log)}"
            )
        time.sleep(POLL_S)
    return str(json.loads(ready.read_text(encoding="utf-8"))["address"])


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
