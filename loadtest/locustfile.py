"""Locust users of the router: `locust -f loadtest/locustfile.py --host 127.0.0.1:50551`.

Owns the user class and what Locust's statistics are told: an answer is `Route`, a refusal is
`Route refused: REASON` and no failure, anything else is a failure of its own name. Imported by
Locust alone, whose gevent must be in gRPC before its first channel.

Environment (optional): POINTSMAN_LOAD_TASK is a JSON file with `texts`, `cases`, `k`, `timeout_s`
and `ledger`; the users then ask exactly these cases between them, write every record to the ledger
file, and end the run. Without it they ask the corpus for ever.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gevent
import grpc
import grpc.experimental.gevent as grpc_gevent
from locust import User, events, task
from locust.exception import StopUser

from loadtest.caller import CLIENT_KEY, OPTIONS
from loadtest.corpus import read_corpus
from loadtest.endings import read_answer, read_error
from loadtest.loops import pause_s
from loadtest.records import ClientLedger, Ending, Outcome, Record
from loadtest.transfer import to_line
from router.client import DEFAULT_ADDRESS
from router.rpc import router_pb2 as pb
from router.rpc.router_pb2_grpc import RouterServiceStub

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS_AT_ONCE = 4096
"""Each call under way holds one of gevent's threads; of the ten there are by default, an eleventh
call would wait for one, unsent, and the server would be blamed for the time."""

gevent.get_hub().threadpool.maxsize = CALLS_AT_ONCE
grpc_gevent.init_gevent()

TASK_VARIABLE = "POINTSMAN_LOAD_TASK"
CORPUS_SIZE = 64


class _Task:
    """What all users of this process ask between them."""

    def __init__(self) -> None:
        self.ledger = ClientLedger()
        self.file: Path | None = None
        self.timeout_s = 60.0
        self.cases: Iterator[int]
        named = os.environ.get(TASK_VARIABLE, "")
        if not named:
            corpus = read_corpus(None, CORPUS_SIZE, seed=0)
            self.texts, self.k = corpus.texts, corpus.k
            self.cases = itertools.cycle(range(len(self.texts)))
            return
        document: dict[str, Any] = json.loads(Path(named).read_text(encoding="utf-8"))
        self.texts, self.k = tuple(document["texts"]), document["k"]
        self.timeout_s = document["timeout_s"]
        self.cases = iter(document["cases"])
        self.file = Path(document["ledger"])


TASK = _Task()


class RouterUser(User):
    """A client that asks, waits for the end, and heeds what the server says about coming back."""

    host = DEFAULT_ADDRESS
    numbers: ClassVar[Iterator[int]] = itertools.count()
    open_users: ClassVar[int] = 0

    def on_start(self) -> None:
        """Connect, each user by itself."""
        address = (self.host or DEFAULT_ADDRESS).removeprefix("http://")
        self.client_id = f"locust-{next(self.numbers)}"
        self._channel = grpc.insecure_channel(address, options=OPTIONS)
        self._stub = RouterServiceStub(self._channel)
        RouterUser.open_users += 1

    def on_stop(self) -> None:
        """Disconnect; the last one of a counted task ends the run."""
        self._channel.close()
        RouterUser.open_users -= 1
        if TASK.file is not None and not RouterUser.open_users:
            # From outside: a user can't wait for the end of all users.
            gevent.spawn_later(0, self.environment.runner.quit)

    @task
    def route(self) -> None:
        """Ask the next case."""
        case = next(TASK.cases, None)
        if case is None:
            raise StopUser
        record = TASK.ledger.begin(
            self.client_id, case, now_s=time.monotonic(), timeout_s=TASK.timeout_s
        )
        message = pb.RouteRequest(request_id=record.request_id, text=TASK.texts[case], k=TASK.k)
        try:
            reply = self._stub.Route(
                message, timeout=TASK.timeout_s, metadata=((CLIENT_KEY, self.client_id),)
            )
        except grpc.RpcError as error:
            ending = read_error(error)
        else:
            ending = read_answer(reply)
        TASK.ledger.end(record, ending, now_s=time.monotonic())
        self._tell(record, ending)
        if ending.answer is None:
            gevent.sleep(pause_s(ending))

    def _tell(self, record: Record, ending: Ending) -> None:
        name, failure = "Route", None
        if ending.outcome is Outcome.REFUSED:
            name = f"Route refused: {ending.reason}"
        elif ending.outcome is not Outcome.ANSWERED:
            name = f"Route {ending.outcome}: {ending.reason}"
            failure = RuntimeError(ending.message or ending.reason)
        self.environment.events.request.fire(
            request_type="grpc",
            name=name,
            response_time=1000 * record.latency_s,
            response_length=len(ending.answer.bits) if ending.answer is not None else 0,
            exception=failure,
            context={},
        )


def _hand_over(**_: object) -> None:
    """Write the ledger; a request without an end is written as such."""
    if TASK.file is not None:
        lines = [to_line(record) + "\n" for record in TASK.ledger.records]
        TASK.file.write_text("".join(lines), encoding="utf-8")


_quitting: Any = events.quitting  # Locust does not say its type.
_quitting.add_listener(_hand_over)
