"""Records and endings for the judges' tests, made by hand."""

from __future__ import annotations

import itertools

from loadtest.records import Answer, Ending, Outcome, Record, Told

_NUMBERS = itertools.count()


def answered(
    bits: bytes = b"bits", digest: str = "a" * 64, total_s: float = 0.0, queue_s: float = 0.0
) -> Ending:
    return Ending(Outcome.ANSWERED, Told.SERVER, answer=Answer(bits, digest, total_s, queue_s))


def refused(reason: str = "QUEUE_FULL", retry_after_s: float | None = 0.1) -> Ending:
    return Ending(Outcome.REFUSED, Told.SERVER, reason, retry_after_s)


def failed(reason: str = "ENGINE_DOWN", retry_after_s: float | None = 0.1) -> Ending:
    return Ending(Outcome.FAILED, Told.SERVER, reason, retry_after_s)


def own_deadline() -> Ending:
    return Ending(Outcome.CANCELLED, Told.DEADLINE, "OWN_DEADLINE")


def lost() -> Ending:
    return Ending(Outcome.FAILED, Told.CONNECTION, "CONNECTION_LOST")


def no_server() -> Ending:
    return Ending(Outcome.REFUSED, Told.UNREACHED, "NO_SERVER")


def bare(code: str = "CANCELLED") -> Ending:
    return Ending(Outcome.FAILED, Told.BARE, f"BARE_{code}", message="nothing said")


def record(
    ending: Ending | None,
    sent_s: float = 0.0,
    ended_s: float = 1.0,
    *,
    client: str = "c",
    case: int = 0,
    timeout_s: float = 10.0,
) -> Record:
    made = Record(str(next(_NUMBERS)), client, case, sent_s, sent_s, timeout_s)
    if ending is not None:
        made.ended_s, made.ending = ended_s, ending
    return made
