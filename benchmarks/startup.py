"""How long a start takes, by stage and whole, and what memory it comes to.

    python -m benchmarks.startup [--rounds 3] [--json FILE]

Stages in a fresh process each time, with the memory after each: imports, kernels (compiled or
found), the model's configuration, its weights (quantised, or mapped and their digest checked),
rotary tables, weights put in the order of products, tokenizer, self-check, encoder. Cold has no
cache but the fetched weights; warm has everything. Then the whole server, from its
command to SERVING over four tools, and its processes' memory (proportional set size, so that shared
pages count once) at rest and after 200 routes. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.command import add_json_option, publish
from decoder.cache import cache_dir

STAGES = r"""
import json, time
def pss():
    return int(open("/proc/self/smaps_rollup").read().split("Pss:")[1].split()[0]) / 1024
found, last = {}, time.perf_counter()
def mark(name):
    global last
    found[name], found[name + "_mb"] = time.perf_counter() - last, pss()
    last = time.perf_counter()
import router, decoder.engine, decoder.model, decoder.encoder, decoder.self_check, router.assets
from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.loading import read_checkpoint
from decoder.model import LoadedModel, offered
from decoder.packed import packed_weights
from decoder.rotary import rotary_tables
from decoder.tokenizer import load_tokenizer
path = router.assets.smollm2_gguf(); mark("imports")
kernels = make_kernels("native", threads=2); mark("kernels")
checkpoint = read_checkpoint(path); config = offered(checkpoint.config); mark("configuration")
packed = packed_weights(checkpoint); mark("weights")
rotary = rotary_tables(config.context_length, config.head_dim, config.rope_theta,
    config.rope_scaling); mark("rotary")
runner = make_transformer(config, packed.weights, kernels, rotary)
packed.give_pages_back(); mark("order")
model = LoadedModel(config, runner, load_tokenizer(path), checkpoint.digest, path)
mark("tokenizer")
decoder.self_check.self_check(model); mark("self_check")
decoder.encoder.load_encoder(router.assets.minilm_dir(), threads=2); mark("encoder")
print(json.dumps(found))
"""
TOOLS = (
    ("list_files", "List the files of a folder."), ("read_file", "Return a file's text."),
    ("send_mail", "Send a letter to an address."), ("weather_today", "Today's weather in a town."),
)  # fmt: skip


def stages(cache: Path) -> dict[str, float]:
    """Run the stages in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", STAGES], env={**os.environ, "POINTSMAN_CACHE": str(cache)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def cold_cache(root: Path) -> Path:
    """Return a cache that holds the fetched weights and nothing made from them."""
    root.mkdir()
    (root / "assets").symlink_to(cache_dir("assets").resolve())
    return root


def pss_mb(pid: int) -> float:
    """Return the proportional set size of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0]) / 1024


def children(pid: int) -> list[int]:
    """Return the processes that a process started."""
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def server(scratch: Path, cache: Path, routes: int) -> dict[str, Any]:
    """Start a server, wait until it serves, route, and stop it."""
    from router.client import Client  # noqa: PLC0415

    tools = scratch / "tools.json"
    tools.write_text(json.dumps({"tools": [
        {"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in TOOLS
    ]}))  # fmt: skip
    ready = scratch / f"ready{time.monotonic_ns()}.json"
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "router.cli.main", "serve", "--catalog", str(tools), "--port", "0",
         "--ready-file", str(ready)],
        env={**os.environ, "POINTSMAN_CACHE": str(cache)},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not ready.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            time.sleep(0.005)
        serving = time.perf_counter() - start
        address = json.loads(ready.read_text())["address"]
        engines = children(process.pid)
        memory = {"at_rest": [pss_mb(process.pid), sum(map(pss_mb, engines))]}
        with Client(address) as client:
            for number in range(routes):
                client.route(f"Show me what file number {number} says.")
        memory["after_routes"] = [pss_mb(process.pid), sum(map(pss_mb, engines))]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return {"serving_s": serving, "server_engine_pss_mb": memory}


def main() -> int:
    """Measure starts, cold and warm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        colds = [stages(cold_cache(scratch / f"cold{i}")) for i in range(options.rounds)]
        warm = scratch / "cold0"
        warms = [stages(warm) for _ in range(options.rounds)]
        for name, runs in (("cold", colds), ("warm", warms)):
            median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            results[name] = {key: round(value, 3) for key, value in median.items()}
            print(f"engine, {name}: " + ", ".join(
                f"{stage} {median[stage]:.2f} s ({median[stage + '_mb']:.0f} MB)"
                for stage in median if not stage.endswith("_mb")
            ))  # fmt: skip
        # The floor: bytes that must be read and hashed once.
        packed = sum(f.stat().st_size for f in (warm / "models").iterdir())
        print(f"floor: {packed / 1e6:.0f} MB of packed weights are read and their digest checked")
        results["server_cold"] = server(scratch, cold_cache(scratch / "coldserver"), 0)
        runs = [server(scratch, warm, 200) for _ in range(options.rounds)]
        runs.sort(key=lambda run: float(run["serving_s"]))
        results["server_warm"] = runs[len(runs) // 2]
    for name in ("server_cold", "server_warm"):
        print(f"{name}: SERVING after {results[name]['serving_s']:.2f} s; memory of server and "
              f"engine: {results[name]['server_engine_pss_mb']}")  # fmt: skip
    publish({"benchmark": "startup", "packed_bytes": packed, **results}, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
