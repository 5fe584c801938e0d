"""Errors between the service and its engine."""

from __future__ import annotations

import enum


class EngineError(Exception):
    """Base of the errors of this package."""


class EngineStartError(EngineError):
    """The engine did not start: its own message says why. Nothing is served in its place."""


class EngineDownError(EngineError):
    """There is no engine now, or it went away under a job.

    Attributes:
        retry_after_s: seconds until one is expected to answer again.

    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class JobFault(enum.StrEnum):
    """Why the engine has no answer to one job or command."""

    INVALID = "invalid"
    UNKNOWN_CATALOG = "unknown-catalog"
    EMPTY_TOOLSET = "empty-toolset"
    FORBIDDEN_TOOLSET = "forbidden-toolset"
    TOO_LONG = "too-long"
    BAD_CATALOG = "bad-catalog"
    FAULT = "fault"


class EngineJobError(EngineError):
    """The engine could not do one job; its others are untouched.

    Attributes:
        fault: what kind of reason.

    """

    def __init__(self, fault: JobFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class JobCancelledError(EngineError):
    """The job was given up as asked; the engine holds nothing of it any more."""


class CompileError(EngineError):
    """The compiler refused the definitions, or did not end; the message says why."""


class WireError(EngineError):
    """The other end sent what is no message; the connection can't be trusted any more."""
