"""The official JSON Schema test suite through our own grammar of arguments.

    python -m benchmarks.json_schema_suite FILE [--json FILE] [--set additionalProperties]

FILE has the suite of one draft, `{file name: [groups]}`. Rules and figures are those of
`benchmarks.maskbench`; a set is a file, a row a group of tests; formats are annotations, as the
suite has them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import add_json_option, publish
from benchmarks.maskbench.rows import read_suite
from benchmarks.maskbench.run import add_run_options, chosen_peers, chosen_rows, run
from benchmarks.maskbench.worker import OURS_ANNOTATED


def main() -> int:
    """Judge the suite."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", type=Path, help="a JSON file with the whole suite of a draft")
    add_run_options(parser)
    add_json_option(parser)
    options = parser.parse_args()
    try:
        rows = read_suite(options.suite)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = chosen_rows(parser, rows, options.set, options.limit)
    peers = chosen_peers(parser, options.peers)
    found = run(rows, OURS_ANNOTATED, options, peers)
    publish({"benchmark": "json_schema_suite", **found}, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
