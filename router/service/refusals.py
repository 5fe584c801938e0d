"""Why a request has no answer, and how that crosses the wire.

Owns the mapping from reason to gRPC status code, to google.rpc.Status details and to trailing
metadata, so that `RetryInfo` and the pushback can't disagree. Never decides to refuse.
"""

from __future__ import annotations

import enum
import math
from typing import Final, TypeAlias

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from router.rpc import router_pb2 as pb

Reason: TypeAlias = "pb.RefusalReason.ValueType"

DOMAIN: Final = "pointsman.dev"
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
DETAILS_KEY: Final = "grpc-status-details-bin"
NO_RETRY_MS: Final = -1

_CODES: Final[dict[Reason, grpc.StatusCode]] = {
    pb.REFUSAL_REASON_QUEUE_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    pb.REFUSAL_REASON_DEADLINE_TOO_SHORT: grpc.StatusCode.DEADLINE_EXCEEDED,
    pb.REFUSAL_REASON_EXPIRED: grpc.StatusCode.DEADLINE_EXCEEDED,
    pb.REFUSAL_REASON_TOO_LONG: grpc.StatusCode.INVALID_ARGUMENT,
    pb.REFUSAL_REASON_INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    pb.REFUSAL_REASON_UNKNOWN_CATALOG: grpc.StatusCode.NOT_FOUND,
    pb.REFUSAL_REASON_EMPTY_TOOLSET: grpc.StatusCode.FAILED_PRECONDITION,
    pb.REFUSAL_REASON_DRAINING: grpc.StatusCode.UNAVAILABLE,
    pb.REFUSAL_REASON_ENGINE_DOWN: grpc.StatusCode.UNAVAILABLE,
    pb.REFUSAL_REASON_ARGUMENTS_UNAVAILABLE: grpc.StatusCode.UNIMPLEMENTED,
    pb.REFUSAL_REASON_ENGINE_FAULT: grpc.StatusCode.INTERNAL,
    pb.REFUSAL_REASON_INTERNAL: grpc.StatusCode.INTERNAL,
    pb.REFUSAL_REASON_BAD_CATALOG: grpc.StatusCode.FAILED_PRECONDITION,
    pb.REFUSAL_REASON_OVER_QUOTA: grpc.StatusCode.RESOURCE_EXHAUSTED,
    pb.REFUSAL_REASON_FORBIDDEN_TOOLSET: grpc.StatusCode.PERMISSION_DENIED,
    pb.REFUSAL_REASON_UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    pb.REFUSAL_REASON_FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
}


class Outcome(enum.StrEnum):
    """How a request ended; a joined call that ends before its request is PENDING."""

    ANSWERED = "answered"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"
    PENDING = "pending"


class NoAnswerError(Exception):
    """A request ends without an answer.

    Attributes:
        reason: why.
        message: for people; never holds a request's text.
        outcome: what the ledger counts.
        retry_after_s: when trying again can help, or None where it can't.

    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        outcome: Outcome = Outcome.REFUSED,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.outcome = outcome
        self.retry_after_s = retry_after_s

    @property
    def code(self) -> grpc.StatusCode:
        """Return the gRPC status code."""
        return _CODES[self.reason]

    @property
    def pushback_ms(self) -> int:
        """Return the pause before a retry in whole milliseconds, rounded up; -1 for never."""
        if self.retry_after_s is None:
            return NO_RETRY_MS
        return max(math.ceil(1000 * self.retry_after_s), 0)

    def status(self) -> status_pb2.Status:
        """Return the status with its details."""
        code: int = self.code.value[0]
        return status_pb2.Status(code=code, message=self.message, details=self._details())

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the metadata a call ends with."""
        return (
            (DETAILS_KEY, self.status().SerializeToString()),
            (PUSHBACK_KEY, str(self.pushback_ms)),
        )

    def _details(self) -> list[any_pb2.Any]:
        name = pb.RefusalReason.Name(self.reason).removeprefix("REFUSAL_REASON_")
        info = error_details_pb2.ErrorInfo(
            reason=name, domain=DOMAIN, metadata={"outcome": self.outcome.value}
        )
        packed = [any_pb2.Any()]
        packed[0].Pack(info)
        if self.pushback_ms != NO_RETRY_MS:
            delay = duration_pb2.Duration()
            delay.FromMilliseconds(self.pushback_ms)
            packed.append(any_pb2.Any())
            packed[1].Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        return packed
