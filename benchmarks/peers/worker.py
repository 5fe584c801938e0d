"""One system in a process of its own, so that no two share threads: it answers jobs as it is told.

    python -m benchmarks.peers.worker SYSTEM MODEL WORK

Reads a line of JSON for each command, {"op": "one", "job": 3} or {"op": "many", "jobs": [...]}, and
answers with one: seconds of routing, seconds of making the request's grammar, and the names.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.peers.jobs import Work
from benchmarks.peers.systems import SYSTEMS


def main() -> int:
    """Serve commands until the input ends."""
    system, model, work_file = sys.argv[1:4]
    # Libraries print at will: the answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = Work.load(Path(work_file))
    runner = SYSTEMS[system](model, work)
    answers.write(json.dumps({"ready": runner.how}) + "\n")
    answers.flush()
    for line in sys.stdin:
        command = json.loads(line)
        if command["op"] == "one":
            reply = runner.one(work.jobs[command["job"]])
        elif command["op"] == "whole":
            reply = runner.whole(work.jobs[command["job"]])
        else:
            reply = runner.many([work.jobs[i] for i in command["jobs"]])
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
