"""The load of `contract` offered by Locust, in a process of its own.

Owns that process: gevent replaces half of the standard library where it runs, which nothing else
here should meet. Its ledger is audited like any other.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadtest.records import ClientLedger
from loadtest.stage import StageError
from loadtest.transfer import from_line

if TYPE_CHECKING:
    from loadtest.stage import Stage

LOCUSTFILE: Final = Path(__file__).with_name("locustfile.py")
TASK_VARIABLE: Final = "POINTSMAN_LOAD_TASK"
LIMIT_S: Final = 900.0


async def run_locust(
    stage: Stage, *, clients: int, cases: list[int], timeout_s: float
) -> ClientLedger:
    """Let Locust's users ask the cases between them; return their ledger.

    Raises:
        StageError: Locust is not installed, or its run did not end in order.

    """
    if importlib.util.find_spec("locust") is None:
        raise StageError("Locust is not installed; pip install 'pointsman[loadtest]'")
    folder = stage.folder / "locust"
    folder.mkdir(parents=True, exist_ok=True)
    task, ledger, log = folder / "task.json", folder / "ledger.jsonl", folder / "locust.log"
    ledger.unlink(missing_ok=True)
    document = {
        "texts": stage.corpus.texts,
        "cases": cases,
        "k": stage.corpus.k,
        "timeout_s": timeout_s,
        "ledger": str(ledger.resolve()),
    }
    task.write_text(json.dumps(document), encoding="utf-8")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "locust", "--locustfile", str(LOCUSTFILE), "--headless"),
            *("--host", stage.address, "--users", str(clients), "--spawn-rate", str(clients)),
            *("--json-file", str(folder / "stats"), "--exit-code-on-error", "0"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, TASK_VARIABLE: str(task.resolve())},
        )
    try:
        code = await asyncio.wait_for(process.wait(), LIMIT_S)
    except TimeoutError:
        raise StageError(f"Locust has not ended after {LIMIT_S:g} s; see {log}") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code != 0 or not ledger.is_file():
        raise StageError(f"Locust ended with {code}; see {log}")
    lines = ledger.read_text(encoding="utf-8").splitlines()
    return ClientLedger(from_line(line) for line in lines)
