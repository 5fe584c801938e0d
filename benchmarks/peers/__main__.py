"""Routes of the decoder beside llama-cpp-python, outlines and xgrammar: one run, interleaved.

    make bench-peers
    python -m benchmarks.peers [--data DIR] [--jobs 16] [--model both] [--json FILE]

Every system answers the same prompts (the product's own, over bfcl_union's 1,246 tools) with one of
the same names, greedily, in a process of its own, one system at a time. The floor is what torch's
integer products of the same number of rows take. A system that isn't installed is left out and said
to be. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from benchmarks.command import add_data_option, add_json_option, data_path, publish
from benchmarks.models import MODELS, RANDOM
from benchmarks.peers.jobs import Work, make_work, write_random_gguf
from benchmarks.peers.systems import PLAIN_PRODUCTS, RANDOM_GGUF

NEEDS = {
    "ours": (), "llama-cpp-python": ("llama_cpp",),
    "outlines": ("outlines", "transformers", "accelerate"),
    "xgrammar": ("xgrammar", "transformers", "accelerate"),
}  # fmt: skip
CLIENTS = 8
WARM = 6


class Peer:
    """A worker process of one system."""

    def __init__(self, name: str, model: str, work: Path, env: dict[str, str]) -> None:
        self.name = name
        command = [sys.executable, "-m", "benchmarks.peers.worker", name, model, str(work)]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=env,
        )  # fmt: skip
        self.how = self._read()["ready"]

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        to: IO[str] | None = self._process.stdin
        assert to is not None
        to.write(json.dumps(command) + "\n")
        to.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"{self.name} broke off: {self._log.read()[-2000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def start(name: str, model: str, work: Path, env: dict[str, str]) -> Peer:
    """Start a system and have it answer once, so that what is made at first use is made.

    llama.cpp breaks off on tile registers where its compiler dropped their configuration (see
    tile_config.h). It then runs with its other products, which are several times slower: its
    figures say so, and are no measure of what it can do.
    """
    peer = Peer(name, model, work, env)
    try:
        warm(peer)
    except RuntimeError as error:
        if name != "llama-cpp-python":
            raise
        print(f"{error}: again without tile registers, SEVERAL TIMES SLOWER than llama.cpp can be")
        peer = Peer(name, model, work, {**env, PLAIN_PRODUCTS: "1"})
        warm(peer)
    return peer


def warm(peer: Peer) -> None:
    """Ask two jobs of every kind; they are asked of nobody again."""
    for job in range(2):
        peer.ask(op="one", job=job)
        peer.ask(op="whole", job=job + 2)
    peer.ask(op="many", jobs=[4, 5])


def floor_seconds(model: str, work: Work) -> float:
    """Return what torch's products of planes alone take for the median prompt."""
    import torch  # noqa: PLC0415

    from benchmarks.prefill import torch_products  # noqa: PLC0415
    from decoder.loading.random_model import QWEN3_0_6B  # noqa: PLC0415
    from decoder.model import load_model  # noqa: PLC0415
    from router.assets import smollm2_gguf  # noqa: PLC0415

    torch.set_num_threads(2)
    config = QWEN3_0_6B if model == RANDOM else load_model(smollm2_gguf()).config
    rows = int(statistics.median(len(job.prompt) for job in work.jobs))
    return torch_products(config, rows)


def asked(peer: Peer, op: str, jobs: list[int], work: Work) -> dict[str, Any]:
    """Have jobs answered; break off at a name that may not be given, for then its time is void."""
    reply = peer.ask(op=op, jobs=jobs) if op == "many" else peer.ask(op=op, job=jobs[0])
    for job, name in zip(jobs, reply["names"], strict=True):
        if name not in (work.all_names if op == "whole" else work.jobs[job].names):
            raise RuntimeError(
                f"{peer.name} answered {name!r} to job {job}, not a name it may give"
            )
    return reply


def measure(model: str, peers: list[Peer], work: Work) -> list[dict[str, Any]]:
    """Run every job through every system in turn, alone, over all names, and eight at once."""
    replies: dict[str, dict[str, list[dict[str, Any]]]] = {
        peer.name: {"one": [], "whole": [], "many": []} for peer in peers
    }
    # A prompt is asked once of each system: who keeps what it read gains from common heads alone.
    third = (len(work.jobs) - WARM) // 3
    for job in range(WARM, WARM + third):
        for peer in peers:
            replies[peer.name]["one"].append(asked(peer, "one", [job], work))
        for peer in peers:
            replies[peer.name]["whole"].append(asked(peer, "whole", [job + third], work))
    for start in range(WARM + 2 * third, WARM + 3 * third, CLIENTS):
        jobs = list(range(start, start + CLIENTS))
        for peer in peers:
            replies[peer.name]["many"].append(asked(peer, "many", jobs, work))
    results = []
    for peer in peers:
        mine = replies[peer.name]

        def median(op: str, key: str, of: dict[str, list[dict[str, Any]]] = mine) -> float:
            return float(statistics.median(reply[key] for reply in of[op]))

        many = statistics.median(r["s"] + r["grammar_s"] for r in mine["many"])
        results.append({
            "system": peer.name, "model": model, "how": peer.how,
            "one_ms": 1e3 * median("one", "s"), "grammar_ms": 1e3 * median("one", "grammar_s"),
            "whole_catalog_ms": 1e3 * median("whole", "s"),
            "requests_per_s_8": CLIENTS / many,
            "requests_per_s_8_without_grammar": CLIENTS / median("many", "s"),
            "same_answer_as": {
                other.name: share_alike(mine["one"], replies[other.name]["one"])
                for other in peers if other is not peer
            },
        })  # fmt: skip
    return results


def share_alike(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> float:
    """Return the share of jobs that two systems answered alike."""
    same = sum(bool(a["names"] == b["names"]) for a, b in zip(some, others, strict=True))
    return same / len(some)


def report(results: list[dict[str, Any]]) -> None:
    """Print figures and ratios to ours."""
    ours = results[0]
    for one in results:
        total = one["one_ms"] + one["grammar_ms"]
        print(
            f"{one['system']:17s} {one['one_ms']:8.1f} ms + grammar {one['grammar_ms']:7.1f} ms "
            f"= {total / (ours['one_ms'] + ours['grammar_ms']):5.1f} x ours; whole catalog "
            f"{one['whole_catalog_ms']:8.1f} ms = "
            f"{one['whole_catalog_ms'] / ours['whole_catalog_ms']:5.1f} x; 8 clients "
            f"{one['requests_per_s_8']:6.2f}/s = ours x "
            f"1/{ours['requests_per_s_8'] / one['requests_per_s_8']:.1f} (without grammars "
            f"{one['requests_per_s_8_without_grammar']:.2f}/s)   {one['how']}"
        )
    print("same answer, one client:")
    for one in results:
        shares = (f"{name} {share:.0%}" for name, share in one["same_answer_as"].items())
        print(f"  {one['system']:17s} {', '.join(shares)}")
    print("  (the others' grammars are of characters and let a name be spelt in any tokens, and "
          "they take the likeliest token each time; ours walks the tokenizer's own spelling to the "
          "likeliest name)")  # fmt: skip


def main() -> int:
    """Measure what is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--jobs", type=int, default=16, help="of each kind, a multiple of 8")
    parser.add_argument("--model", choices=[*MODELS, "both"], default="both")
    add_json_option(parser)
    options = parser.parse_args()
    if options.jobs < CLIENTS or options.jobs % CLIENTS:
        parser.error(f"--jobs is {options.jobs}; give a multiple of {CLIENTS}")
    folder = data_path(parser, options.data, "eval", "bfcl_union")
    present = []
    for name, modules in NEEDS.items():
        missing = [m for m in modules if importlib.util.find_spec(m) is None]
        if missing:
            print(f"{name} is left out: {', '.join(missing)} not installed (make bench-peers)")
        else:
            present.append(name)
    results: list[dict[str, Any]] = []
    floors = {}
    with tempfile.TemporaryDirectory() as scratch:
        work = make_work(folder, WARM + 3 * options.jobs)
        work_file = Path(scratch) / "work.json"
        work.save(work_file)
        tokens = statistics.median(len(job.prompt) for job in work.jobs)
        names = statistics.median(len(job.names) for job in work.jobs)
        print(f"{options.jobs} requests of each kind, median {tokens:.0f} prompt tokens, "
              f"{names:.0f} names of {len(work.all_names)}")  # fmt: skip
        for model in MODELS if options.model == "both" else [options.model]:
            env = dict(os.environ)
            if model == RANDOM and "llama-cpp-python" in present:
                gguf = Path(scratch) / "random.gguf"
                write_random_gguf(gguf)
                env[RANDOM_GGUF] = str(gguf)
            floors[model] = floor_seconds(model, work) * 1e3
            print(f"\n{model}: floor, torch's products of planes alone: {floors[model]:.1f} ms")
            peers: list[Peer] = []
            try:
                for name in present:
                    peers.append(start(name, model, work_file, env))  # noqa: PERF401
                found = measure(model, peers, work)
            finally:
                for peer in peers:
                    peer.close()
            report(found)
            results += found
    publish({"benchmark": "peers", "jobs": options.jobs, "floor_ms": floors,
                       "prompt_tokens": tokens, "results": results}, options.json)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
