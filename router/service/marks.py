"""When requests got their slots, told to whoever watches the call that brought them.

Owns a context variable, so that the desk need not know who watches; where nobody does, a look at
it is all the cost. A request's work is a task made under the call that began it: a call that joins
it, or gets a recorded answer, sees no mark.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

_ADMITTED: Final[ContextVar[dict[str, float] | None]] = ContextVar("admitted", default=None)


def watch() -> dict[str, float]:
    """Return what will hold, by request id, the event loop's time at which each got its slot.

    It is the watcher's to take them out. Only what begins under the current context is noted.
    """
    admitted: dict[str, float] = {}
    _ADMITTED.set(admitted)
    return admitted


def note_admitted(request_id: str, at: float) -> None:
    """Note that a request has its slot since `at`, by the event loop's clock."""
    admitted = _ADMITTED.get()
    if admitted is not None:
        admitted[request_id] = at
