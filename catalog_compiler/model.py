"""The normal form: what every reader produces and everything after it consumes.

Owns the value types `Tool`, `Diagnostic` and `ToolSet`. Never reads a file and never judges:
checks live in `catalog_compiler.checks`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A JSON value as the standard library parses it: dict, list, str, int, float, bool or None."""


class Severity(enum.StrEnum):
    """How bad a diagnostic is. ERROR sets the tool aside; the others keep it."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about one place, with the way to mend it.

    Attributes:
        severity: ERROR means the tool (or file) was set aside.
        code: stable kebab-case identifier, e.g. ``duplicate-name``; safe to match on.
        message: what is wrong, in one sentence.
        mend: what the catalog's owner can do about it, in one sentence.
        source: the input it was found in (file path, URL or server name).
        pointer: JSON pointer (RFC 6901) into that input; "" is the whole document.
        tool: routed name of the tool concerned, or "" when it concerns a whole source.
        related: routed names of other tools concerned (the twin of a duplicate, say).

    """

    severity: Severity
    code: str
    message: str
    mend: str
    source: str
    pointer: str = ""
    tool: str = ""
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool in normal form.

    Attributes:
        name: the routed name, unique in its catalog; what an answer carries. Any Unicode text.
        source_name: the name exactly as its source spelt it.
        namespace: the server or API it came from; "" when the source has none.
        aliases: other names that lead here (old names, and the bare name where it is unambiguous).
        title: short human title, or "".
        description: text as given, line ends normalised to LF.
        input_schema: JSON Schema object for the arguments; ``{}`` accepts anything.
        tags: sorted labels, for per-caller visibility.
        source: the input it was read from.
        pointer: JSON pointer of the tool in that input.

    """

    name: str
    source_name: str
    namespace: str = ""
    aliases: tuple[str, ...] = ()
    title: str = ""
    description: str = ""
    input_schema: Json = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    source: str = ""
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class ToolSet:
    """What reading and checking leave: the tools that stand, and every finding.

    Attributes:
        tools: sorted by routed name (code point order), names unique.
        diagnostics: sorted by (source, pointer, code); nothing that was set aside is missing here.

    """

    tools: tuple[Tool, ...]
    diagnostics: tuple[Diagnostic, ...]
