"""What a call can end in other than an answer, read from the server's status details."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

DOMAIN: Final = "pointsman.dev"
DETAILS_KEY: Final = "grpc-status-details-bin"
_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}


class PointsmanError(Exception):
    """Base of every error a client raises."""


class RequestError(PointsmanError):
    """A call without an answer.

    Attributes:
        message: the server's, for people.
        code: gRPC status code.

    """

    def __init__(self, message: str, code: grpc.StatusCode) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ServerUnavailableError(RequestError):
    """No server answered at the address, or the connection broke."""


class UnexpectedStatusError(RequestError):
    """The other end answered, but not as a Pointsman server does; check the address."""


class _TypedError(RequestError):
    """A status with the server's details.

    Attributes:
        reason: name of the `RefusalReason`, without its prefix; a new server may send new ones.
        retry_after_s: when trying again can help, or None where it can't.

    """

    def __init__(
        self, message: str, code: grpc.StatusCode, reason: str, retry_after_s: float | None
    ) -> None:
        super().__init__(message, code)
        self.reason = reason
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class RefusedError(_TypedError):
    """The server refused: the work never started."""


class ExpiredError(_TypedError):
    """The deadline passed while the work ran."""


class FailedError(_TypedError):
    """The work was started and lost to a fault."""


def from_rpc_error(error: grpc.RpcError) -> RequestError:
    """Read what a call was ended with."""
    call: Any = error  # Both stacks' errors have these three methods.
    details = dict(call.trailing_metadata() or ())
    raw = details.get(DETAILS_KEY)
    message, code = call.details() or "", call.code()
    if isinstance(raw, bytes):
        try:
            return from_status(status_pb2.Status.FromString(raw))
        except DecodeError:
            return UnexpectedStatusError(f"its status details are garbled: {message}", code)
    if code is grpc.StatusCode.UNAVAILABLE:
        return ServerUnavailableError(message, code)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        # Our own clock was first: whether the work had started is not known here.
        return ExpiredError("no reply came within the deadline", code, "EXPIRED", None)
    return UnexpectedStatusError(f"{code.name}: {message}", code)


def from_status(status: status_pb2.Status) -> RequestError:
    """Read a status with our details; one that is garbled raises DecodeError."""
    code = _BY_NUMBER.get(status.code, grpc.StatusCode.UNKNOWN)
    info = _unpacked(status.details, error_details_pb2.ErrorInfo)
    if info is None or info.domain != DOMAIN:
        return UnexpectedStatusError(f"{code.name}: {status.message}", code)
    retry = _unpacked(status.details, error_details_pb2.RetryInfo)
    after_s = None if retry is None else max(retry.retry_delay.ToMilliseconds(), 0) / 1000
    outcome = info.metadata.get("outcome", "")
    kind = {"refused": RefusedError, "failed": FailedError}.get(outcome, ExpiredError)
    return kind(status.message, code, info.reason, after_s)


def _unpacked(details: Iterable[Any], kind: Any) -> Any:
    for detail in details:
        if detail.Is(kind.DESCRIPTOR):
            found = kind()
            detail.Unpack(found)
            return found
    return None


def retry_after_s(error: RequestError) -> tuple[bool, float | None]:
    """Tell whether trying again can help, and after how long where the server said so."""
    if isinstance(error, ServerUnavailableError):
        return True, None
    if isinstance(error, _TypedError):
        return error.retry_after_s is not None, error.retry_after_s
    return False, None
