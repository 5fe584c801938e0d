"""The engine process from its first line to its last.

Owns the child's descriptors, signals and end: it takes its start message from standard input,
replies on what was standard output (anything that prints goes to standard error instead), ignores
the terminal's interrupt, and dies with its parent: the end of its input ends it at once. Never
imports gRPC.
"""

from __future__ import annotations

import dataclasses
import os
import queue
import signal
import sys
import threading
from typing import IO, TYPE_CHECKING, TypeAlias

from router.engine import wire
from router.engine.facts import EngineConfig
from router.engine.loop import EngineLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from router.engine.backend import Backend
    from router.engine.wire import Message

BackendFactory: TypeAlias = "Callable[[EngineConfig], Backend]"

EXIT_STOPPED = 0
EXIT_FATAL = 70
EXIT_ORPHANED = 71


def run_engine(make_backend: BackendFactory) -> int:
    """Be the engine: start the backend, prove it, serve until told to stop; return the exit code.

    `make_backend` loads the model and checks the machine; whatever it raises is reported to the
    service as the reason why nothing is served.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = claim_stdout()
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_read_inbox, args=(inbox,), daemon=True, name="inbox").start()

    def send(message: Message) -> None:
        replies.write(wire.encode(message))
        replies.flush()

    try:
        config = _config(inbox.get())
        backend = make_backend(config)
        loop = EngineLoop(backend, inbox, send)
        catalogs = [dataclasses.asdict(facts) for facts in loop.open_at_start(config.catalogs)]
        send({
            "op": "ready", "model_digest": backend.model_digest, "catalogs": catalogs,
            "slot_tokens": backend.slot_tokens, "probe_s": loop.probe_s,
        })  # fmt: skip
        loop.run()
    except BrokenPipeError:
        return EXIT_ORPHANED
    except Exception as error:  # noqa: BLE001  (the last place that can tell anyone)
        send({"op": "fatal", "message": f"{type(error).__name__}: {error}"})
        return EXIT_FATAL
    return EXIT_STOPPED


def _config(message: Message) -> EngineConfig:
    if message["op"] != "start":
        raise ValueError(f"the first message is {message['op']!r} where 'start' is due")
    raw = dict(message["config"])
    return EngineConfig(**{**raw, "catalogs": tuple(raw["catalogs"])})


def claim_stdout() -> IO[bytes]:
    """Keep standard output for messages and point everything that prints at standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "wb")


def _read_inbox(inbox: queue.SimpleQueue[Message]) -> None:
    """Move messages to the inbox; leave at once when the service is gone, whatever runs."""
    stream = os.fdopen(0, "rb", closefd=False)
    try:
        while (message := wire.read_message(stream)) is not None:
            inbox.put(message)
    finally:
        os._exit(EXIT_ORPHANED)
