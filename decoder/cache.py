"""The folder for what can be worked out again: compiled kernels, packed weights, tokenizers.

Owns where it is (`$POINTSMAN_CACHE`, else `~/.cache/pointsman`) and how a file gets there: whole or
not at all. Nothing in it is trusted by name alone; readers verify what they take.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any


def cache_dir(kind: str) -> Path:
    """Return the folder for one kind of file (not created here)."""
    configured = os.environ.get("POINTSMAN_CACHE", "")
    root = Path(configured) if configured else Path.home() / ".cache" / "pointsman"
    return root / kind


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that no reader ever sees a part of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file and, beside it, the digest of its own bytes. Raises OSError."""
    write_whole(path, content)
    write_whole(_seal(path), hashlib.sha256(content).hexdigest().encode())


def read_sealed(path: Path) -> bytes | None:
    """Return what `write_sealed` wrote, or None where it is missing or no longer that."""
    try:
        content = path.read_bytes()
        sound = hashlib.sha256(content).hexdigest() == _seal(path).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return content if sound else None


def map_sealed(path: Path) -> mmap.mmap | None:
    """Return what `write_sealed` wrote as read-only memory that the kernel may take back.

    A later `write_sealed` puts a new file in its place and leaves the mapped one as it is. None
    where it is missing, empty, or no longer what was written.
    """
    try:
        with path.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        sound = hashlib.sha256(mapped).hexdigest() == _seal(path).read_text()
    except (OSError, ValueError, UnicodeDecodeError):
        return None
    return mapped if sound else None


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Seal a JSON object. Raises OSError."""
    write_sealed(path, json.dumps(record).encode())


def read_record(path: Path) -> dict[str, Any] | None:
    """Return what `write_record` wrote, or None where it is missing or no longer that."""
    content = read_sealed(path)
    if content is None:
        return None
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _seal(path: Path) -> Path:
    return path.with_suffix(".sha256")
