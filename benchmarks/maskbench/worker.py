"""One system in a process of its own, under a memory limit: it judges rows as they come.

    python -m benchmarks.maskbench.worker SYSTEM VOCABULARY MEMORY_BYTES

VOCABULARY is the file that `vocabulary.save` wrote. Reads a row a line, answers with its verdict.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from benchmarks.maskbench import vocabulary as vocabularies
from benchmarks.maskbench.judge import judge
from benchmarks.maskbench.systems import PEERS, Ours

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.maskbench.systems import System, Vocabulary

OURS = "ours"
OURS_ANNOTATED = "ours-annotated"
"""Ours with formats as annotations, as the official suite has them."""


def makers() -> dict[str, Callable[[Vocabulary], System]]:
    """Return what makes each system."""
    ours: dict[str, Callable[[Vocabulary], System]] = {
        OURS: Ours,
        OURS_ANNOTATED: functools.partial(Ours, assert_formats=False),
    }
    return ours | {name: make for name, (_, make) in PEERS.items()}


def limit_memory(more: int) -> None:
    """Let this process's address space grow by so many bytes and no further."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> int:
    """Judge rows until the input ends."""
    name, file, memory = sys.argv[1:4]
    # Libraries print at will: the answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    vocabulary = vocabularies.load(Path(file))
    tokenizer = Tokenizer.from_str(vocabulary.tokenizer)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    system = makers()[name](vocabulary)
    answers.write(json.dumps({"ready": system.how}) + "\n")
    answers.flush()
    limit_memory(int(memory))
    for line in sys.stdin:
        row = json.loads(line)
        answers.write(json.dumps(judge(system, row["schema"], row["tests"], encode)) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
