"""What a model file gives: its configuration, its tensors, and the digest of its bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from decoder.config import ModelConfig
    from decoder.kernels.base import F32

CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened model.

    Attributes:
        config: its geometry.
        tensor: gives a tensor by Hugging Face name as f32, None where there is none. Q and K are
            in the half-split rotary layout.
        digest: sha256, hex, of the files that make the model.
        source: where it was read from.

    """

    config: ModelConfig
    tensor: Callable[[str], F32 | None]
    digest: str
    source: Path


def digest_files(paths: Iterable[Path]) -> str:
    """Return the sha256, hex, of the files' names and bytes, in the order given."""
    total = hashlib.sha256()
    for path in paths:
        digest = hashlib.sha256()
        with path.open("rb") as handle:
            while chunk := handle.read(CHUNK_BYTES):
                digest.update(chunk)
        total.update(path.name.encode() + b"\0" + digest.digest())
    return total.hexdigest()
