"""How the end of a gRPC call is read, independently of the client library.

Owns the reading of answers and statuses into `Ending`. It reads the status details itself: an audit
that shared the client's reading would share its mistakes. Never sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from loadtest.records import Answer, Ending, Outcome, Told
from router.rpc import router_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

DOMAIN: Final = "pointsman.dev"
DETAILS_KEY: Final = "grpc-status-details-bin"
NO_SERVER: Final = "NO_SERVER"
CONNECTION_LOST: Final = "CONNECTION_LOST"
OWN_DEADLINE: Final = "OWN_DEADLINE"
_NEVER_CONNECTED: Final = ("failed to connect to all addresses", "connection refused")


def compared_bits(message: pb.RouteResponse) -> bytes:
    """Return an answer as bytes, without what may differ between two times.

    That is the id, the timings, and `usage.passes`: how many forward passes a request took part in
    depends on how many rows its neighbours left free. Doubles keep all 64 bits.
    """
    kept = pb.RouteResponse()
    kept.CopyFrom(message)
    for name in ("request_id", "timings"):
        kept.ClearField(name)
    kept.usage.ClearField("passes")
    return kept.SerializeToString(deterministic=True)


def read_answer(message: pb.RouteResponse) -> Ending:
    """Read an answer."""
    return Ending(
        outcome=Outcome.ANSWERED,
        told=Told.SERVER,
        answer=Answer(
            bits=compared_bits(message),
            catalog_digest=message.catalog_digest,
            server_total_s=1e-6 * message.timings.total_micros,
            server_queue_s=1e-6 * message.timings.queue_micros,
        ),
    )


def read_error(error: grpc.RpcError) -> Ending:
    """Read the status that a call ended with."""
    call: Any = error  # The errors of both stacks have these three methods.
    code, message = call.code(), call.details() or ""
    raw = dict(call.trailing_metadata() or ()).get(DETAILS_KEY)
    if raw is not None:
        return _typed(raw, code, message)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Ending(Outcome.CANCELLED, Told.DEADLINE, OWN_DEADLINE, message=message)
    if code is grpc.StatusCode.UNAVAILABLE:
        if any(sign in message.lower() for sign in _NEVER_CONNECTED):
            return Ending(Outcome.REFUSED, Told.UNREACHED, NO_SERVER, message=message)
        return Ending(Outcome.FAILED, Told.CONNECTION, CONNECTION_LOST, message=message)
    return _bare(code, message)


def _typed(raw: bytes, code: grpc.StatusCode, message: str) -> Ending:
    try:
        status = status_pb2.Status.FromString(raw)
    except DecodeError:
        return _bare(code, message)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    known = _unpack(status.details, info) and info.domain == DOMAIN
    ends = {Outcome.REFUSED.value, Outcome.CANCELLED.value, Outcome.FAILED.value}
    outcome = info.metadata.get("outcome", "")
    if not known or outcome not in ends or not info.reason:
        return _bare(code, message)
    after_s = None
    if _unpack(status.details, retry):
        after_s = retry.retry_delay.ToMilliseconds() / 1000
    return Ending(Outcome(outcome), Told.SERVER, info.reason, after_s, message=status.message)


def _bare(code: grpc.StatusCode, message: str) -> Ending:
    return Ending(Outcome.FAILED, Told.BARE, f"BARE_{code.name}", message=message)


def _unpack(details: Iterable[Any], target: Any) -> bool:
    """Fill the target from the detail of its kind; tell whether there was one."""
    for detail in details:
        if detail.Is(target.DESCRIPTOR):
            return bool(detail.Unpack(target))
    return False
