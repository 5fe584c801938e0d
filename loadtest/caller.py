"""Sends requests over asyncio and enters each end in the client's ledger.

Owns the channels. Never tries a request again: a further attempt is a request of its own, with an
id of its own. Never judges.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio

from loadtest.endings import read_answer, read_error
from router.rpc import router_pb2 as pb
from router.rpc.router_pb2_grpc import RouterServiceStub

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from loadtest.corpus import Corpus
    from loadtest.records import ClientLedger, Record
    from router.rpc.router_pb2_grpc import RouterServiceAsyncStub

CLIENT_KEY: Final = "x-pointsman-client"
MOST_CONNECTIONS: Final = 64
OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    # Else all channels of a process share one connection.
    ("grpc.use_local_subchannel_pool", 1),
    # A server that comes back is found at once.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class Caller:
    """Sends the corpus's requests to one address.

    Args:
        address: of the server.
        corpus: the requests.
        ledger: where each is entered.
        timeout_s: time each is given.
        connections: connections that the clients are spread over.

    """

    def __init__(
        self,
        address: str,
        corpus: Corpus,
        ledger: ClientLedger,
        timeout_s: float,
        connections: int = 1,
    ) -> None:
        self.corpus = corpus
        self.ledger = ledger
        self._timeout_s = timeout_s
        self._channels = [
            grpc.aio.insecure_channel(address, options=OPTIONS)
            for _ in range(min(max(connections, 1), MOST_CONNECTIONS))
        ]
        self._stubs: list[RouterServiceAsyncStub] = [RouterServiceStub(c) for c in self._channels]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for channel in self._channels:
            await channel.close()

    async def ask(
        self,
        client: str,
        case: int,
        *,
        lane: int = 0,
        intended_s: float | None = None,
        catalog: str = "",
    ) -> Record:
        """Send one request and wait for its end, whatever it is.

        Args:
            client: id of who asks, which the server may count by.
            case: index of the text.
            lane: chooses the connection.
            intended_s: when it was due, where that was earlier than now.
            catalog: name or digest; "" is the server's default.

        """
        record = self.ledger.begin(
            client,
            case,
            now_s=time.monotonic(),
            timeout_s=self._timeout_s,
            intended_s=intended_s,
        )
        message = pb.RouteRequest(
            request_id=record.request_id,
            catalog=catalog,
            text=self.corpus.texts[case],
            k=self.corpus.k,
        )
        stub = self._stubs[lane % len(self._stubs)]
        try:
            reply = await stub.Route(
                message, timeout=self._timeout_s, metadata=((CLIENT_KEY, client),)
            )
        except grpc.RpcError as error:
            ending = read_error(error)
        else:
            ending = read_answer(reply)
        self.ledger.end(record, ending, now_s=time.monotonic())
        return record
