"""What one whole route costs the decoder beside its floor: prompt, walk and all.

    python -m benchmarks.route_decode [--threads 2] [--prompt 400] [--names 16] [--json FILE]

A route is a prompt and a walk over a shortlist's trie. The floor is the same number of rows of
integer products, in one pass. Then the route is forced into waves of fewer trie tokens a pass,
which must not change a bit and shows what one pass for all is worth. The names and the prompt are
random tokens: cost depends on shapes alone. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys

import numpy as np

from benchmarks.command import add_json_option, publish
from benchmarks.prefill import products_only, seconds
from decoder.engine import Engine, EngineConfig, WalkRequest, WalkResult
from decoder.model import load_model
from decoder.trie import Trie
from router.assets import smollm2_gguf

TREE_TOKENS = (64, 4, 1)
ROUNDS = 7


def two_level_trie(names: int, rng: np.random.Generator, vocab_size: int) -> Trie:
    """Return a trie of `names` leaves, four below each branch under the root (the last may differ).

    Each name is a first token, one token that is shared by its group, and a token of its own.
    """
    sizes = [min(4, names - start) for start in range(0, names, 4)]
    if sizes[-1] == 1 and len(sizes) > 1:
        sizes[-2:] = [sizes[-2] + 1]
    first = np.sort(rng.choice(vocab_size, len(sizes), replace=False))
    offsets, tokens, targets, runs, spans = [0, len(sizes)], list(first), [], [], [(0, names)]
    leaf, below, below_targets = 0, [], []
    for size in sizes:
        targets.append(len(spans))
        spans.append((leaf, leaf + size))
        runs.append(1)
        below.append(sorted(rng.choice(vocab_size, size, replace=False)))
        offsets.append(offsets[-1] + size)
        for _ in range(size):
            below_targets.append(len(spans))
            spans.append((leaf, leaf + 1))
            offsets.append(offsets[-1])
            leaf += 1
    edges = [*tokens, *(token for group in below for token in group)]
    lengths = [*runs, *([0] * names)]
    lows, highs = zip(*spans, strict=True)

    def ints(values: object) -> np.ndarray:
        return np.array(values, np.int32)

    return Trie(
        root_run=ints([]), edge_offsets=ints(offsets), edge_tokens=ints(edges),
        edge_nodes=ints([*targets, *below_targets]),
        run_offsets=ints([0, *np.cumsum(lengths)]),
        run_tokens=ints(rng.integers(0, vocab_size, len(sizes))),
        leaf_lo=ints(lows), leaf_hi=ints(highs),
    )  # fmt: skip


def route(engine: Engine, request: WalkRequest) -> WalkResult:
    """Run one request alone to its end."""
    engine.submit(request)
    while True:
        for one in engine.step():
            if one.result is None:
                raise RuntimeError(f"the route failed: {one.error}")
            return one.result


def main() -> int:
    """Measure and print floor beside reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=400, help="tokens of the prompt")
    parser.add_argument("--names", type=int, default=16, help="names of the shortlist, 2 or more")
    add_json_option(parser)
    options = parser.parse_args()
    if options.names < 2 or options.prompt < 1:
        parser.error("give at least 2 names and 1 token of prompt")
    model = load_model(smollm2_gguf(), threads=options.threads)
    rng = np.random.default_rng(options.prompt)
    vocab = model.config.vocab_size
    trie = two_level_trie(options.names, rng, vocab)
    prompt = rng.integers(0, vocab, options.prompt).astype(np.int32)
    request = WalkRequest(prompt, trie, top_k=options.names)
    engines = {
        n: Engine(model.transformer, EngineConfig(tree_tokens=n, prefix_bytes=0))
        for n in TREE_TOKENS
    }
    results = {n: route(engine, request) for n, engine in engines.items()}
    whole = results[TREE_TOKENS[0]]
    rows = whole.prompt_tokens + whole.tree_tokens
    floor = products_only(model.config, rows)
    floor()
    runs = {n: functools.partial(route, engine, request) for n, engine in engines.items()}
    times = [(seconds(floor), *(seconds(run) for run in runs.values())) for _ in range(ROUNDS)]
    low, *reached = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"floor: the products of {rows} rows take {low * 1e3:.1f} ms")
    lines = []
    for (tree, result), took in zip(results.items(), reached, strict=True):
        same = result.logprobs.tobytes() == whole.logprobs.tobytes()
        lines.append({
            "tree_tokens": tree, "passes": result.passes, "route_ms": round(took * 1e3, 2),
            "share_of_floor": round(low / took, 3), "same_bits": same,
        })  # fmt: skip
        print(
            f"up to {tree:3d} trie tokens a pass: {took * 1e3:7.1f} ms in {result.passes} passes, "
            f"{low / took:.0%} of it products, bits {'the same' if same else 'DIFFER'}"
        )
    publish({
        "benchmark": "route_decode", "model": model.digest, "threads": options.threads,
        "prompt": options.prompt, "names": options.names, "rows": rows,
        "products_ms": round(low * 1e3, 2), "routes": lines,
    }, options.json)  # fmt: skip
    return 0 if all(one["same_bits"] for one in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
