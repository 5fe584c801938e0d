"""What a route costs as the catalog grows: 50, 500, 5,000 and 50,000 tools.

    python -m benchmarks.catalog_size [--data DIR] [--jobs 24] [--json FILE]

Real tools (toucan_live), thinned out or repeated under further namespaces; the same real requests
for every size, interleaved. Measured: the whole route in process, split into retrieval, prompt and
decode; and the decoder alone over every name of the catalog, without a shortlist, on one prompt for
all. The floor is the integer products of the shortlist's prompt. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.command import add_data_option, add_json_option, data_path, publish
from benchmarks.prefill import torch_products
from benchmarks.route_decode import route
from catalog_compiler.frontend import load_toolset
from decoder.engine import Engine, EngineConfig, WalkRequest
from router.evaluation import read_queries
from router.jobs import RouteJob
from router.parts import load_parts
from router.pipeline import Pipeline

if TYPE_CHECKING:
    from router.catalogs import LoadedCatalog
    from router.parts import RoutingParts

SIZES = (50, 500, 5_000, 50_000)
TARGET = 1.1
STAGES = ("retrieval", "prompt", "decode", "finish", "route", "decode_whole")


def catalog_of(size: int, source: Path, parts: RoutingParts, scratch: Path) -> LoadedCatalog:
    """Compile a catalog of so many real tools, under as many namespaces as that takes."""
    servers: dict[str, Any] = json.loads(source.read_text())
    tools = [tool for listed in servers.values() for tool in _tools(listed)]
    names = list({tool["name"]: tool for tool in tools}.values())
    step = max(1, len(names) // size)
    thinned = names[::step][:size]
    spaces: dict[str, list[dict[str, Any]]] = {}
    left = size
    while left > 0:
        # The same tool under one name is one tool, wherever it is listed: so names differ too.
        space = f"team{len(spaces)}"
        spaces[space] = [{**tool, "name": f"{tool['name']}_{space}"} for tool in thinned[:left]]
        left -= len(thinned)
    file = scratch / f"tools{size}.json"
    file.write_text(json.dumps({name: {"tools": listed} for name, listed in spaces.items()}))
    return parts.compile([file])


def _tools(listed: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listed["tools"] if isinstance(listed, dict) else listed
    return found


def main() -> int:
    """Measure every request on every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--jobs", type=int, default=24)
    add_json_option(parser)
    options = parser.parse_args()
    source = data_path(parser, options.data, "catalogs", "toucan_live.json")
    parts = load_parts(None)
    pipeline = Pipeline(parts.embedder)
    catalogs: dict[int, LoadedCatalog] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for size in SIZES:
            start = time.perf_counter()
            catalogs[size] = catalog_of(size, source, parts, Path(scratch))
            pipeline.add_catalog(catalogs[size])
            print(f"{len(catalogs[size].tools):6d} tools compiled with their index in "
                  f"{time.perf_counter() - start:.1f} s")  # fmt: skip
    labelled = options.data / "eval" / "bfcl_union"
    known = [tool.name for tool in load_toolset([str(labelled / "catalog.json")]).tools]
    queries, _ = read_queries([labelled / "queries_dev.jsonl"], known)
    picked = np.random.default_rng(3).choice(len(queries), options.jobs + 1, replace=False)
    texts = [queries[i].text for i in picked.tolist()]
    engine = Engine(parts.model.transformer, EngineConfig(prefix_bytes=0))
    times: dict[int, dict[str, list[float]]] = {
        size: {stage: [] for stage in STAGES} for size in SIZES
    }
    tokens: dict[int, list[int]] = {size: [] for size in SIZES}
    plain = pipeline.prepare(RouteJob("", catalogs[SIZES[0]].digest, texts[0])).request.prompt
    for number, text in enumerate(texts):
        for size, catalog in catalogs.items():
            start = time.perf_counter()
            prepared = pipeline.prepare(RouteJob("", catalog.digest, text))
            ready = time.perf_counter()
            result = route(engine, prepared.request)
            walked = time.perf_counter()
            pipeline.finish(prepared, result)
            done = time.perf_counter()
            route(engine, WalkRequest(plain, catalog.trie))
            whole = time.perf_counter() - done
            if number:  # the first makes what is made once
                tokens[size].append(result.prompt_tokens + result.tree_tokens)
                for stage, took in zip(
                    STAGES,
                    (prepared.retrieval_s, prepared.prompt_s, walked - ready, done - walked,
                     done - start, whole),
                    strict=True,
                ):  # fmt: skip
                    times[size][stage].append(took)
    floor = torch_products(parts.model.config, int(statistics.median(tokens[SIZES[0]])))
    print(f"floor: torch's products of the median prompt take {floor * 1e3:.1f} ms")
    table = []
    for size in SIZES:
        median = {s: statistics.median(times[size][s]) * 1e3 for s in STAGES}
        table.append({"tools": size, "rows": statistics.median(tokens[size]),
                      **{f"{s}_ms": round(v, 3) for s, v in median.items()}})  # fmt: skip
        print(f"{size:6d} tools: " + ", ".join(f"{s} {v:.2f} ms" for s, v in median.items())
              + f"; {table[-1]['rows']:.0f} rows")  # fmt: skip
    growth = table[-1]["route_ms"] / table[0]["route_ms"]
    whole = table[-1]["decode_whole_ms"] / table[0]["decode_whole_ms"]
    print(f"50 -> 50,000 tools: route x {growth:.2f}, decoder over all names x {whole:.2f} "
          f"(target: at most {TARGET})")  # fmt: skip
    line = {
        "benchmark": "catalog_size", "jobs": options.jobs, "sizes": table,
        "growth": round(growth, 3), "growth_whole": round(whole, 3),
    }  # fmt: skip
    publish(line, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
