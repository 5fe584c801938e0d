"""Tools and diagnostics as canonical JSON, and back.

Owns the stored text of both: ASCII, fixed field order, no blanks, so equal values have equal
bytes. A schema's keys keep their author's order: the order of arguments means something to a
model. Never touches a file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from catalog_compiler.errors import ArtifactError
from catalog_compiler.model import Diagnostic, Severity, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOOL_TEXTS: Final = (
    "name",
    "source_name",
    "namespace",
    "title",
    "description",
    "source",
    "pointer",
)
_TOOL_LISTS: Final = ("aliases", "tags")
_DIAGNOSTIC_TEXTS: Final = ("code", "message", "mend", "source", "pointer", "tool")


def tool_to_json(tool: Tool) -> bytes:
    """Return a tool's canonical JSON.

    Raises:
        ValueError: the schema is no JSON (NaN, a cycle, an unsupported type or key).
        RecursionError: the schema is nested deeper than the interpreter follows.

    """
    record: dict[str, Any] = {name: getattr(tool, name) for name in _TOOL_TEXTS}
    record.update({name: list(getattr(tool, name)) for name in _TOOL_LISTS})
    record["input_schema"] = tool.input_schema
    try:
        return _dump(record)
    except TypeError as error:
        raise ValueError(str(error)) from error


def tool_from_json(text: bytes) -> Tool:
    """Read back what `tool_to_json` wrote.

    Raises:
        ArtifactError: it is something else.

    """
    record = _load(text)
    try:
        fields: dict[str, Any] = {name: _text(record[name]) for name in _TOOL_TEXTS}
        for name in _TOOL_LISTS:
            fields[name] = tuple(_text(item) for item in record[name])
        return Tool(**fields, input_schema=record["input_schema"])
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"a stored tool is malformed ({error}); compile again") from error


def definition_text(tool: Tool) -> str:
    """Return a tool as an agent's prompt would carry it: name, description, parameters.

    Raises:
        ValueError: as `tool_to_json`.
        RecursionError: as `tool_to_json`.

    """
    record = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    try:
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return text.encode("utf-8", "replace").decode("utf-8")


def diagnostics_to_json(diagnostics: Sequence[Diagnostic]) -> bytes:
    """Return the findings' canonical JSON."""
    return _dump([diagnostic_record(diagnostic) for diagnostic in diagnostics])


def diagnostic_record(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return one finding as plain JSON values."""
    return {
        "severity": diagnostic.severity.value,
        **{name: getattr(diagnostic, name) for name in _DIAGNOSTIC_TEXTS},
        "related": list(diagnostic.related),
    }


def diagnostics_from_json(text: bytes) -> tuple[Diagnostic, ...]:
    """Read back what `diagnostics_to_json` wrote.

    Raises:
        ArtifactError: it is something else.

    """
    try:
        return tuple(
            Diagnostic(
                severity=Severity(record["severity"]),
                related=tuple(_text(name) for name in record["related"]),
                **{name: _text(record[name]) for name in _DIAGNOSTIC_TEXTS},
            )
            for record in _load(text)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"a stored finding is malformed ({error}); compile again") from error


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _load(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"a stored text is no JSON ({error}); compile again") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text belongs")
    return value
