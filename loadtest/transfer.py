"""Records as lines of JSON, for a process that hands its ledger to another.

Owns the form. Times are the machine's monotonic clock, which is one for all processes.
"""

from __future__ import annotations

import json
from typing import Any

from loadtest.records import Answer, Ending, Outcome, Record, Told


def to_line(record: Record) -> str:
    """Write a record."""
    return json.dumps(as_document(record))


def as_document(record: Record) -> dict[str, Any]:
    """Return a record as JSON's types; a request that has not ended has no end."""
    document: dict[str, Any] = {
        "request_id": record.request_id,
        "client": record.client,
        "case": record.case,
        "intended_s": record.intended_s,
        "sent_s": record.sent_s,
        "timeout_s": record.timeout_s,
    }
    end = record.ending
    if end is None:
        return document
    document["ended_s"] = record.ended_s
    document["ending"] = {
        "outcome": end.outcome.value,
        "told": end.told.value,
        "reason": end.reason,
        "retry_after_s": end.retry_after_s,
        "message": end.message,
    }
    if end.answer is not None:
        document["ending"]["answer"] = {
            "bits": end.answer.bits.hex(),
            "catalog_digest": end.answer.catalog_digest,
            "server_total_s": end.answer.server_total_s,
            "server_queue_s": end.answer.server_queue_s,
        }
    return document


def from_line(line: str) -> Record:
    """Read a record; raises ValueError, KeyError or TypeError where it is none."""
    document = json.loads(line)
    raw = document.pop("ending", None)
    if raw is None:
        return Record(**document)
    answer = raw.get("answer")
    if answer is not None:
        answer = Answer(**{**answer, "bits": bytes.fromhex(answer["bits"])})
    ending = Ending(
        outcome=Outcome(raw["outcome"]),
        told=Told(raw["told"]),
        reason=raw["reason"],
        retry_after_s=raw["retry_after_s"],
        answer=answer,
        message=raw["message"],
    )
    return Record(**document, ending=ending)
