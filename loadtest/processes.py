"""Processes of the machine as Linux tells of them: children and resident memory.

Never signals one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children; none where it is gone."""
    found: list[int] = []
    for task in sorted((PROC / str(pid) / "task").glob("*/children")):
        try:
            found += [int(child) for child in task.read_text(encoding="ascii").split()]
        except OSError:
            continue
    return found


def command_line(pid: int) -> tuple[str, ...]:
    """Return a process's arguments; empty where it is gone."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(part.decode(errors="replace") for part in raw.split(b"\0")[:-1])


def resident_bytes(pid: int) -> int | None:
    """Return a process's resident memory, or None where it is gone."""
    try:
        pages = (PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * PAGE_BYTES
