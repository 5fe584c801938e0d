"""What one forward pass costs beside its floor: torch's products, and the memory's rate.

    python -m benchmarks.prefill [--model smollm2] [--threads 2] [--json FILE]

For each number of rows: the time of the same products by torch and nothing else, then the whole
pass. Torch multiplies integers by `_int_mm` where the CPU has instructions for them; without, that
takes seconds, and float32 `mm` of the same planes, which is as exact only up to 2**24, is the
faster one and the floor. Passes are also put as operations a second beside the best rate that torch
reached at any of these sizes, and the pass of one row as weight bytes a second beside the rate at
which all cores together read memory. Medians of interleaved rounds. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.command import add_json_option, publish
from benchmarks.models import MODELS, SMOLLM2, model_called
from decoder.kernels.base import PathIndex
from decoder.kv import KVPool, blocks_for
from decoder.transformer import PackedRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from decoder.config import ModelConfig

ROWS = (1, 8, 32, 128, 256, 400)
ROUNDS = 9


def packed(config: ModelConfig, count: int) -> tuple[PackedRows, KVPool]:
    """Return a prompt of `count` tokens of which the last row is read, and its cache."""
    rng = np.random.default_rng(count)
    place = np.arange(count, dtype=np.int32)
    rows = PackedRows(
        ids=rng.integers(0, config.vocab_size, count).astype(np.int32),
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
    return rows, KVPool(config, blocks_for(count))


def layer_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """Return (out, in) of the four products of a layer."""
    inner, hidden = config.heads * config.head_dim, config.hidden_size
    qkv = inner + 2 * config.kv_heads * config.head_dim
    width = config.intermediate_size
    return [(qkv, hidden), (hidden, inner), (2 * width, hidden), (hidden, width)]


@functools.cache
def fastest_products() -> str:
    """Return which of torch's products is the faster one here: "_int_mm" or "float32 mm"."""
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.integers(-128, 128, (128, 512), np.int8)) for _ in range(2))
    wide = a.float(), b.float()
    seconds(lambda: torch._int_mm(a, b.t()))  # noqa: SLF001
    integers = min(seconds(lambda: torch._int_mm(a, b.t())) for _ in range(5))  # noqa: SLF001
    floats = min(seconds(lambda: wide[0] @ wide[1].t()) for _ in range(5))
    return "_int_mm" if integers <= floats else "float32 mm"


def products_only(config: ModelConfig, count: int) -> Callable[[], None]:
    """Return a call that makes a pass's products of planes with torch and nothing else."""
    rng = np.random.default_rng(0)
    shapes = layer_shapes(config)
    integers = fastest_products() == "_int_mm"

    def drawn(*shape: int) -> torch.Tensor:
        values = torch.from_numpy(rng.integers(-127, 128, shape, np.int8))
        return values if integers else values.float()

    planes = {k: drawn(2 * count, k) for _, k in shapes}
    # Each layer has weights of its own, as a model has: they come from memory, not from a cache.
    weights = [drawn(*shape).t() for _ in range(config.layers) for shape in shapes]

    def run() -> None:
        for weight in weights:
            if integers:
                torch._int_mm(planes[weight.shape[0]], weight)  # noqa: SLF001
            else:
                torch.mm(planes[weight.shape[0]], weight)

    return run


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def torch_products(config: ModelConfig, count: int) -> float:
    """Return the median seconds of `products_only`."""
    run = products_only(config, count)
    run()
    return statistics.median(seconds(run) for _ in range(ROUNDS))


def read_rate(threads: int) -> float:
    """Return bytes a second that so many threads read of 512 MB together, the best of five."""
    pieces = np.array_split(np.ones(64 << 20, np.int64), threads)
    with ThreadPoolExecutor(threads) as pool:
        best = min(seconds(lambda: list(pool.map(np.sum, pieces))) for _ in range(5))
    return sum(piece.nbytes for piece in pieces) / best


def main() -> int:
    """Measure every size and print floor beside reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default=SMOLLM2)
    parser.add_argument("--threads", type=int, default=2)
    add_json_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    runner = model_called(options.model, options.threads)
    config = runner.config
    weights = config.layers * sum(n * k for n, k in layer_shapes(config))
    rate = read_rate(options.threads)
    print(f"weights {weights / 1e6:.0f} MB, memory read at {rate / 1e9:.1f} GB/s: "
          f"a read of all weights takes {weights / rate * 1e3:.1f} ms")  # fmt: skip
    found = []
    for count in ROWS:
        rows, kv = packed(config, count)
        floor = products_only(config, count)
        forward = functools.partial(runner.forward, rows, kv)
        floor()
        forward()
        pairs = [(seconds(floor), seconds(forward)) for _ in range(ROUNDS)]
        low, reached = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        found.append((count, low, reached))
    operations = {count: 2 * 2 * count * weights for count in ROWS}
    peak = max(operations[count] / low for count, low, _ in found)
    print(f"torch's {fastest_products()} reaches at best {peak / 1e9:.0f} GOPS")
    sizes = []
    for count, low, reached in found:
        share = operations[count] / reached / peak
        sizes.append({
            "rows": count, "torch_ms": round(low * 1e3, 2), "pass_ms": round(reached * 1e3, 2),
            "share_of_torch_peak": round(share, 3),
        })  # fmt: skip
        print(
            f"{count:4d} rows  torch alone {low * 1e3:8.2f} ms   "
            f"whole pass {reached * 1e3:8.2f} ms   {operations[count] / reached / 1e9:5.0f} GOPS, "
            f"{share:.0%} of that peak"
        )
    bandwidth = weights / found[0][2]
    print(
        f"one row reads weights at {bandwidth / 1e9:.1f} GB/s, {bandwidth / rate:.0%} of memory's"
    )
    publish({
        "benchmark": "prefill", "model": options.model, "threads": options.threads,
        "products": getattr(runner.kernels, "products", ""),
        "weight_bytes": weights, "read_bytes_per_s": round(rate),
        "torch_product": fastest_products(), "torch_peak_gops": round(peak / 1e9),
        "one_row_bytes_per_s": round(bandwidth),
        "sizes": sizes,
    }, options.json)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
