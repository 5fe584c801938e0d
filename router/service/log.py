"""Structured log lines on standard error: JSON for machines, text for people.

Owns the form of a line and nothing else: both forms say the same, an event and its fields. No line
holds a request's text.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

LOGGER: Final = logging.getLogger("pointsman")
AUTO: Final = "auto"
JSON: Final = "json"
TEXT: Final = "text"
FORMATS: Final = (AUTO, JSON, TEXT)
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


class TextLines(logging.Formatter):
    """Formats a record as a line that is read by eye: local time, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; an exception's traceback follows on lines of its own."""
        time = datetime.fromtimestamp(record.created, UTC).astimezone()
        fields = [
            f"{name}={_shown(value)}"
            for name, value in getattr(record, _FIELDS, {}).items()
            if value is not None
        ]
        clock = time.isoformat(sep=" ", timespec="milliseconds")[11:23]
        head = f"{clock} {record.levelname.lower():7} {record.getMessage()}"
        line = "  ".join((head, " ".join(fields))) if fields else head
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _shown(value: object) -> str:
    """Write a field so that its end is seen and nothing in it acts on a terminal."""
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    # Escapes whatever is not ASCII: no character of a file's name turns the line round.
    return json.dumps(value, default=str)


def set_up(level: str, form: str = JSON) -> None:
    """Send the events of this service to standard error, from `level` up.

    `auto` is text where standard error is a terminal, else JSON.
    """
    if form not in FORMATS:
        raise ValueError(f"log format {form!r} is none of {', '.join(FORMATS)}")
    if form == AUTO:
        form = TEXT if sys.stderr.isatty() else JSON
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if form == TEXT else JsonLines())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False


def event(name: str, /, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event with its fields."""
    LOGGER.log(level, name, extra={_FIELDS: fields})


def fault(name: str, error: BaseException, /, **fields: object) -> None:
    """Log a fault of ours with its traceback."""
    LOGGER.error(name, exc_info=error, extra={_FIELDS: fields})
