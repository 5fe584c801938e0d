"""What one forward pass costs beside its floor, the integer products alone.

    python -m benchmarks.prefill [--threads 2] [--json FILE]

For each number of rows: the floor (the same `torch._int_mm` products and nothing else; for few rows
also the time to read the weights once at the measured copy rate), then the pass. Medians of
interleaved rounds. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from decoder.kernels.base import PathIndex
from decoder.kv import KVPool, blocks_for
from decoder.model import LoadedModel, load_model
from decoder.transformer import PackedRows
from router.assets import smollm2_gguf

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = (1, 8, 32, 128, 256, 400)
ROUNDS = 9


def packed(model: LoadedModel, count: int) -> tuple[PackedRows, KVPool]:
    """Return a prompt of `count` tokens of which the last row is read, and its cache."""
    rng = np.random.default_rng(count)
    place = np.arange(count, dtype=np.int32)
    rows = PackedRows(
        ids=rng.integers(0, model.config.vocab_size, count).astype(np.int32),
        position=place,
        slot=place.astype(np.int64),
        path=PathIndex(
            table=np.arange(blocks_for(count), dtype=np.int32),
            table_offsets=np.zeros(count, np.int64),
            prefix=place + 1,
            tail=np.empty(0, np.int32),
            tail_offsets=np.zeros(count + 1, np.int64),
        ),
        wanted=np.array([count - 1], np.int64),
    )
    return rows, KVPool(model.config, blocks_for(count))


def products_only(model: LoadedModel, count: int) -> Callable[[], None]:
    """Return a call that makes the pass's integer products and nothing else."""
    kernels, config = model.transformer.kernels, model.config
    rng = np.random.default_rng(0)
    widths = (config.hidden_size, config.heads * config.head_dim, config.intermediate_size)
    planes = {w: rng.integers(-128, 128, (2 * count, w), dtype=np.int8) for w in widths}

    def run() -> None:
        for layer in model.transformer.weights.layers:
            for weight in (layer.qkv, layer.output, layer.gate_up, layer.down):
                kernels.product(planes[weight.values.shape[1]], weight)

    return run


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def copy_rate() -> float:
    """Return bytes a second that one copy of 256 MB reads, the best of five."""
    source = np.ones(256 << 20, np.int8)
    target = np.empty_like(source)
    return len(source) / min(seconds(lambda: np.copyto(target, source)) for _ in range(5))


def main() -> int:
    """Measure every size and print floor beside reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the JSON line here")
    options = parser.parse_args()
    model = load_model(smollm2_gguf(), threads=options.threads)
    weights = sum(
        w.values.nbytes
        for layer in model.transformer.weights.layers
        for w in (layer.qkv, layer.output, layer.gate_up, layer.down)
    )
    rate = copy_rate()
    print(f"weights {weights / 1e6:.0f} MB, copy {rate / 1e9:.1f} GB/s: "
          f"a read of all weights takes {weights / rate * 1e3:.1f} ms")  # fmt: skip
    sizes = []
    for count in ROWS:
        rows, kv = packed(model, count)
        floor = products_only(model, count)
        forward = functools.partial(model.transformer.forward, rows, kv)
        floor()
        forward()
        pairs = [(seconds(floor), seconds(forward)) for _ in range(ROUNDS)]
        low, reached = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        gops = 2 * 2 * count * weights / low / 1e9
        sizes.append({
            "rows": count, "products_ms": round(low * 1e3, 2), "pass_ms": round(reached * 1e3, 2),
            "share_of_floor": round(low / reached, 3), "products_gops": round(gops),
        })  # fmt: skip
        print(
            f"{count:4d} rows  products {low * 1e3:7.2f} ms ({gops:5.0f} GOPS)   pass "
            f"{reached * 1e3:7.2f} ms   {low / reached:.0%} of the pass is products"
        )
    line = json.dumps({
        "benchmark": "prefill", "model": model.digest, "threads": options.threads,
        "weight_bytes": weights, "copy_bytes_per_s": round(rate), "sizes": sizes,
    })  # fmt: skip
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(line + "\n")
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
