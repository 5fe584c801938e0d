"""A system's process as the run sees it: it may be slow, grow or die, and the run goes on.

Owns the time limit and starting anew. A row that is lost so is a failure of that row.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.maskbench.judge import Verdict
    from benchmarks.maskbench.rows import Row

START_SECONDS = 120.0


class Worker:
    """One system's process, started anew after each row that cost it its life."""

    def __init__(self, command: Sequence[str], row_seconds: float) -> None:
        """Start it.

        Args:
            command: what is run; it says `ready`, then answers a line with a line.
            row_seconds: what a row may take, compiling and instances together.

        Raises:
            RuntimeError: it does not start.

        """
        self._command, self._row_seconds = list(command), row_seconds
        self._late = False
        self._start()

    def judge(self, row: Row) -> Verdict:
        """Return what became of a row; a process that is killed or dies is the row's failure."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"schema": row.schema, "tests": row.tests}) + "\n")
        self._process.stdin.flush()
        reply = self._read(self._row_seconds)
        if reply is not None:
            return reply
        self._log.seek(0)
        last = self._log.read()[-300:]
        code = "timeout" if self._late else "crash"
        message = f"more than {self._row_seconds:g} s" if self._late else last
        self.close()
        self._start()
        return {"outcome": "failed", "code": code, "message": message}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            text=True,
        )  # fmt: skip
        ready = self._read(START_SECONDS)
        if ready is None:
            self._log.seek(0)
            message = f"{' '.join(self._command)} does not start: {self._log.read()[-2000:]}"
            self.close()
            raise RuntimeError(message)
        self.how: str = ready["ready"]

    def _read(self, seconds: float) -> dict[str, Any] | None:
        """Return the next answer, or None where the process ended or had to be ended."""
        assert self._process.stdout is not None
        self._late = False
        timer = threading.Timer(seconds, self._kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
            timer.join()
        if not line.endswith("\n"):
            return None
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _kill(self) -> None:
        self._late = True
        self._process.kill()


def start(system: str, vocabulary: Path, memory_bytes: int, row_seconds: float) -> Worker:
    """Start a system of `worker.makers`."""
    module = "benchmarks.maskbench.worker"
    command = [sys.executable, "-m", module, system, str(vocabulary), str(memory_bytes)]
    return Worker(command, row_seconds)
