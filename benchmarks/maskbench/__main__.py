"""Real JSON schemas with valid and invalid instances: is what is accepted right, and how fast.

    python -m benchmarks.maskbench ROWS.jsonl [--json FILE] [--limit N] [--set NAME]
        [--peers llguidance,xgrammar,xgrammar-strict,outlines-core] [--tokenizer FILE]

A row of ROWS is a schema with instances (`id`, `set`, `schema`, `tests` of `valid` and `data`).
Each is compiled, and every instance walked token by token as the tokenizer cuts its text: a valid
one has to be accepted in some order of its members, an invalid one refused in all that are tried.
Counts are after the validation that follows where the grammar can't say all (in brackets: without
it). Compile time ends where a first mask can be asked for; a look-up is a mask and one token taken.
Every system has the same tokenizer, separators ``, `` and ``: ``, time and memory limits, and runs
in a process of its own. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import add_json_option, publish
from benchmarks.maskbench.rows import read_rows
from benchmarks.maskbench.run import add_run_options, chosen_peers, chosen_rows, run
from benchmarks.maskbench.worker import OURS


def main() -> int:
    """Judge the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path, help="a JSON file with a row a line")
    add_run_options(parser)
    add_json_option(parser)
    options = parser.parse_args()
    try:
        rows = read_rows(options.rows)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = chosen_rows(parser, rows, options.set, options.limit)
    peers = chosen_peers(parser, options.peers)
    publish({"benchmark": "maskbench", **run(rows, OURS, options, peers)}, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
