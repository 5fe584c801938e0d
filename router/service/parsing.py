"""Bytes that are no message, refused in our own words.

Owns an interceptor that keeps the library from answering for us: a message that can't be parsed
reaches the handler as `Garbled`, and the handler refuses it with reason and details. Never parses
anything else, and leaves other services alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from router.rpc import router_pb2 as pb
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")


@dataclass(frozen=True, slots=True)
class Garbled:
    """What came in place of a message: so many bytes that are none."""

    size: int


class LenientParsing(grpc.aio.ServerInterceptor):
    """Hands `Garbled` to the handlers of one service where the library would end the call."""

    def __init__(self, service: str) -> None:
        self._prefix = f"/{service}/"

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler with a parser that never fails."""
        handler: Any = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._prefix):
            return handler  # type: ignore[no-any-return]
        parse = _lenient(handler.request_deserializer)
        if handler.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(
                handler.stream_stream, parse, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            handler.unary_unary, parse, handler.response_serializer
        )


def parsed(message: M | Garbled) -> M:
    """Return a message that was parsed.

    Raises:
        NoAnswerError: INVALID; it is `Garbled`.

    """
    if isinstance(message, Garbled):
        raise NoAnswerError(
            pb.REFUSAL_REASON_INVALID,
            f"the {message.size} bytes sent are no message of this call; compare the versions of "
            "the .proto on both sides",
        )
    return message


def _lenient(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return Garbled(len(data))

    return read
