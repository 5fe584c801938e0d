"""Structured log lines: one JSON object a line, on standard error.

Owns the form of a line and nothing else. No line holds a request's text.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

LOGGER: Final = logging.getLogger("pointsman")
_FIELDS: Final = "fields"


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; an exception's traceback goes in "traceback"."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(level: str) -> None:
    """Send the events of this service to standard error, from `level` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False


def event(name: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event with its fields."""
    LOGGER.log(level, name, extra={_FIELDS: fields})


def fault(name: str, error: BaseException, **fields: object) -> None:
    """Log a fault of ours with its traceback."""
    LOGGER.error(name, exc_info=error, extra={_FIELDS: fields})
