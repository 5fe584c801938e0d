"""Constrained against unconstrained decoding of as many tokens, same model, same prompts.

    python -m benchmarks.constrained [--data DIR] [--jobs 12] [--rounds 3] [--json FILE]

Constrained: the engine walks the names of bfcl_union's 1,246 tools, unmasked, for the one best.
Unconstrained: a plain loop over the same forward pass, one token a step, the whole head scored
each time, for as many tokens as the constrained answer has. Both read the same prompt first, which
is measured apart and taken off. Each prompt is measured in several rounds, in another order each
time, and the median of them taken. The floor of a step is one read of the weights. Ends with a line
of JSON.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.command import add_data_option, add_json_option, data_path, publish
from benchmarks.peers.jobs import leaf_tokens, make_work
from benchmarks.prefill import layer_shapes, read_rate, seconds
from benchmarks.route_decode import route
from decoder.engine import Engine, EngineConfig, WalkRequest
from decoder.kernels.base import PathIndex
from decoder.kv import KVPool, blocks_for
from decoder.model import load_model
from decoder.transformer import PackedRows, Transformer
from decoder.trie import Trie
from router.assets import smollm2_gguf

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

THREADS = 2
TARGET = 0.7


class Line:
    """One sequence, decoded without any grammar."""

    def __init__(self, runner: Transformer, longest: int) -> None:
        self._runner = runner
        self._kv = KVPool(runner.config, blocks_for(longest))
        self._table = np.arange(blocks_for(longest), dtype=np.int32)

    def read(self, tokens: NDArray[np.int32], start: int) -> int:
        """Read tokens from position `start` on; return the most probable next one."""
        n = len(tokens)
        place = np.arange(start, start + n, dtype=np.int32)
        hidden = self._runner.forward(
            PackedRows(
                ids=tokens,
                position=place,
                slot=place.astype(np.int64),
                path=PathIndex(
                    table=self._table,
                    table_offsets=np.zeros(n, np.int64),
                    prefix=place + 1,
                    tail=np.empty(0, np.int32),
                    tail_offsets=np.zeros(n + 1, np.int64),
                ),
                wanted=np.array([n - 1], np.int64),
            ),
            self._kv,
        )
        head, kernels = self._runner.weights.head, self._runner.kernels
        logits = kernels.dequantise(
            kernels.product(hidden.planes, head), hidden.scale, head.scale, None, None
        )
        return int(logits[0].argmax())


def main() -> int:
    """Measure every prompt both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    folder = data_path(parser, options.data, "eval", "bfcl_union")
    work = make_work(folder, options.jobs)
    runner = load_model(smollm2_gguf(), threads=THREADS).transformer
    trie = Trie(**{name: np.array(value, np.int32) for name, value in work.trie.items()})
    answers = leaf_tokens(trie)
    engine = Engine(runner, EngineConfig(prefix_bytes=0))
    config = runner.config
    weights = config.layers * sum(n * k for n, k in layer_shapes(config))
    rate = read_rate(THREADS)
    head = runner.weights.head.values.nbytes
    print(f"floor of a step: {weights / rate * 1e3:.1f} ms to read the layers' weights once, "
          f"{head / rate * 1e3:.1f} ms more for the whole head")  # fmt: skip
    rows = []
    for job in [*work.jobs[:1], *work.jobs]:  # the first twice: what is made once is made
        prompt = np.array(job.prompt, np.int32)
        request = WalkRequest(prompt, trie)
        count = len(answers[int(route(engine, request).leaves[0])])

        def read(prompt: NDArray[np.int32] = prompt, count: int = count) -> None:
            Line(runner, len(prompt) + count).read(prompt, 0)

        def free(prompt: NDArray[np.int32] = prompt, count: int = count) -> None:
            line = Line(runner, len(prompt) + count)
            token = line.read(prompt, 0)
            for step in range(1, count):
                token = line.read(np.array([token], np.int32), len(prompt) + step - 1)

        calls: list[Callable[[], object]] = [read, functools.partial(route, engine, request), free]
        times: list[list[float]] = [[], [], []]
        for turn in range(options.rounds):
            for which in np.roll(np.arange(3), turn).tolist():
                times[which].append(seconds(calls[which]))
        rows.append((count, *(statistics.median(taken) for taken in times)))
    rows = rows[1:]
    tokens, prefill, constrained, unconstrained = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    ratio = statistics.median(c / f for _, _, c, f in rows)
    decode = statistics.median((c - p) / (f - p) for n, p, c, f in rows if n > 1)
    print(f"answers of median {tokens:.0f} tokens, prompts read in {prefill * 1e3:.1f} ms")
    print(f"constrained {constrained * 1e3:.1f} ms, unconstrained "
          f"{unconstrained * 1e3:.1f} ms in all: {ratio:.2f} of the time")  # fmt: skip
    print(f"decode alone: {decode:.2f} of the time (target: at most {TARGET})")
    publish({
        "benchmark": "constrained", "jobs": len(rows), "answer_tokens": tokens,
        "prefill_ms": round(prefill * 1e3, 2), "constrained_ms": round(constrained * 1e3, 2),
        "unconstrained_ms": round(unconstrained * 1e3, 2), "ratio": round(ratio, 3),
        "decode_ratio": round(decode, 3),
    }, options.json)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
