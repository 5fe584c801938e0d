"""The run itself: every row through every system in turn, each in a process of its own.

Owns the floors and the order. Never decides what is right.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.maskbench import figures, vocabulary
from benchmarks.maskbench.crew import start
from benchmarks.maskbench.systems import PEERS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.maskbench.crew import Worker
    from benchmarks.maskbench.rows import Row
    from benchmarks.maskbench.systems import Vocabulary

GIB = 1 << 30
PROGRESS_SECONDS = 60.0


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Offer what every run can be told."""
    parser.add_argument("--peers", default="", help=f"comma-separated, of {','.join(PEERS)}")
    parser.add_argument("--limit", type=int, help="only so many rows of each set")
    parser.add_argument("--set", action="append", help="only this set; may be given again")
    parser.add_argument("--tokenizer", type=Path, help="a model, or a tokenizer.json")
    parser.add_argument("--row-seconds", type=float, default=20, help="a row's time limit")
    parser.add_argument("--memory-gib", type=float, default=4, help="a process's memory limit")


def chosen_peers(parser: argparse.ArgumentParser, names: str) -> list[str]:
    """Return the peers that were asked for and are installed; say which are not."""
    wanted = [name for name in names.split(",") if name]
    for name in wanted:
        if name not in PEERS:
            parser.error(f"--peers names {name!r}; there are {', '.join(PEERS)}")
    missing = [name for name in wanted if importlib.util.find_spec(PEERS[name][0]) is None]
    for name in missing:
        print(f"{name} is left out: {PEERS[name][0]} is not installed (pip install '.[peers]')")
    return [name for name in wanted if name not in missing]


def chosen_rows(
    parser: argparse.ArgumentParser,
    rows: Sequence[Row],
    sets: Sequence[str] | None,
    limit: int | None,
) -> list[Row]:
    """Return the rows of some sets, the first few of each."""
    known = {row.set for row in rows}
    for name in sets or ():
        if name not in known:
            parser.error(f"--set is {name!r}; there are {', '.join(sorted(known))}")
    if limit is not None and limit < 1:
        parser.error(f"--limit is {limit}; give 1 or more")
    taken: dict[str, int] = {}
    kept = []
    for row in rows:
        taken[row.set] = taken.get(row.set, 0) + 1
        if (not sets or row.set in sets) and (limit is None or taken[row.set] <= limit):
            kept.append(row)
    return kept


def run(
    rows: Sequence[Row], ours: str, options: argparse.Namespace, peers: list[str]
) -> dict[str, Any]:
    """Judge every row by every system; print a table of each and return all figures.

    Args:
        rows: what is judged.
        ours: which of `worker.makers` is ours.
        options: of `add_run_options`.
        peers: names of `PEERS`.

    """
    chosen = vocabulary.choose(options.tokenizer)
    floors = floor(rows, chosen)
    print(f"{len(rows)} rows, {sum(len(row.tests) for row in rows)} instances, "
          f"{len(chosen.spellings):,} tokens\nfloor: reading a schema's text "
          f"{floors['compile_ms']:.3f} ms; copying a ready mask {floors['lookup_us']:.2f} us",
          flush=True)  # fmt: skip
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "vocabulary.json"
        vocabulary.save(chosen, file)
        workers: dict[str, Worker] = {}
        outcomes: dict[str, list[figures.Outcome]] = {}
        try:
            for name in (ours, *peers):
                memory = int(options.memory_gib * GIB)
                workers[name] = start(name, file, memory, options.row_seconds)
                outcomes[name] = []
            said = time.monotonic()
            for place, row in enumerate(rows, 1):
                for name, worker in workers.items():
                    outcomes[name].append((row, worker.judge(row)))
                if time.monotonic() - said > PROGRESS_SECONDS:
                    said = time.monotonic()
                    print(f"{place} of {len(rows)} rows", flush=True)
        finally:
            for worker in workers.values():
                worker.close()
        for name, worker in workers.items():
            found[name] = {"how": worker.how, **figures.summed(outcomes[name])}
    width = max(len(row.set) for row in rows)
    for name, one in found.items():
        figures.report(name, one["how"], one, width=width)
    return {
        "rows": len(rows), "tokens": len(chosen.spellings), "floor": floors,
        "row_seconds": options.row_seconds, "memory_gib": options.memory_gib,
        **found.pop(ours), "peers": found,
    }  # fmt: skip


def floor(rows: Sequence[Row], chosen: Vocabulary) -> dict[str, float]:
    """Return what no system can do without: reading the schema's text, handing on a mask."""
    texts = [json.dumps(row.schema) for row in rows]
    compile_s = statistics.median(_seconds(lambda text=text: json.loads(text)) for text in texts)
    ready = np.zeros((len(chosen.spellings) + 31) // 32, np.uint32)
    into = np.empty_like(ready)
    lookup_s = statistics.median(_seconds(lambda: np.copyto(into, ready)) for _ in range(1000))
    return {"compile_ms": round(compile_s * 1e3, 4), "lookup_us": round(lookup_s * 1e6, 3)}


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
