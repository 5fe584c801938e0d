"""How long a real catalog takes: read, compile cold, recompile after one change, open.

Run as ``python -m benchmarks.compile_catalog [FILE]``; without FILE it takes toucan_live of the
development data ($POINTSMAN_SHARED_DATA). The figures with a retrieval index are apart. The last
line of the output is one JSON object; seconds are the best of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from catalog_compiler.artifact import CompiledCatalog, open_artifact, write_artifact
from catalog_compiler.compile import compile_catalog
from catalog_compiler.frontend import load_toolset
from catalog_compiler.grammar import build_name_grammar, chat_placement
from catalog_compiler.model import ToolSet
from router.compiling import model_tokenizer, retrieval_extras

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

ROUNDS = 3
MANY_NAMES = 50_000
TARGETS = {"cold_s": 10.0, "one_tool_changed_s": 0.5, "open_s": 0.05}


def best_of(rounds: int, work: Callable[[], Result]) -> tuple[float, Result]:
    """Return the shortest time in seconds and the last result."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def default_source() -> Path:
    """Return the largest catalog of the development data."""
    folder = os.environ.get("POINTSMAN_SHARED_DATA", "")
    if not folder:
        sys.exit("set POINTSMAN_SHARED_DATA to the development data, or name a file of tools")
    return Path(folder) / "catalogs" / "toucan_live.json"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", type=Path)
    source: Path = parser.parse_args().source or default_source()

    read_s, toolset = best_of(ROUNDS, lambda: load_toolset([str(source)]))
    tokenizer_s, loaded = best_of(1, lambda: model_tokenizer(None))
    placement = chat_placement(loaded.tokenizer, loaded.end_of_turn)

    index, index_key = retrieval_extras()

    def compile_(
        tools: ToolSet, previous: CompiledCatalog | None = None, *, indexed: bool = False
    ) -> bytes:
        return compile_catalog(
            tools,
            loaded.tokenizer,
            placement,
            tokenizer_digest=loaded.digest,
            extras=index if indexed else None,
            extras_key=index_key if indexed else "",
            previous=previous,
        )

    cold_s, data = best_of(ROUNDS, lambda: compile_(toolset))
    first, *others = toolset.tools
    changed = ToolSet((replace(first, description="Changed."), *others), toolset.diagnostics)
    with tempfile.TemporaryDirectory() as folder:
        path = write_artifact(data, Path(folder) / "measured.catalog")
        open_s, previous = best_of(ROUNDS, lambda: open_artifact(path))
        warm_s, warm = best_of(ROUNDS, lambda: compile_(changed, previous))
    assert warm == compile_(changed), "a recompilation must give the bytes of a cold build"
    index_cold_s, indexed = best_of(1, lambda: compile_(toolset, indexed=True))
    before = CompiledCatalog.from_bytes(indexed)
    index_warm_s, _ = best_of(ROUNDS, lambda: compile_(changed, before, indexed=True))
    names = [f"{tool.name}_{number}" for number in range(20) for tool in toolset.tools]
    names = sorted(set(names))[:MANY_NAMES]
    many_s, grammar = best_of(1, lambda: build_name_grammar(names, loaded.tokenizer, placement))
    figures = {
        "source": source.name,
        "tools": len(previous),
        "findings": len(toolset.diagnostics),
        "bytes": len(data),
        "prompt_tokens": int(previous.token_counts.sum()),
        "read_and_check_s": round(read_s, 4),
        "load_tokenizer_s": round(tokenizer_s, 4),
        "cold_s": round(cold_s, 4),
        "one_tool_changed_s": round(warm_s, 4),
        "open_s": round(open_s, 4),
        "cold_with_index_s": round(index_cold_s, 4),
        "one_tool_changed_with_index_s": round(index_warm_s, 4),
        "names": len(grammar.kept),
        "names_trie_s": round(many_s, 4),
        "digest": previous.digest,
    }
    for name, most in TARGETS.items():
        print(f"{name}: {figures[name]} (target: below {most})")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
