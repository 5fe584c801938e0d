"""Readers: one document or one live server in, tools as spelt and findings out.

Owns which reader a document goes to. A reader never raises for one bad tool, and a source that
can't be read is a finding while the others go on.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from catalog_compiler import findings
from catalog_compiler.readers import strict_json, strict_yaml
from catalog_compiler.readers.detect import read_document
from catalog_compiler.readers.mcp_config import ServerConfig, is_config, parse_config
from catalog_compiler.readers.raw import RawTool, Reading
from catalog_compiler.readers.tool_list import read_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_compiler.limits import Limits
    from catalog_compiler.model import Diagnostic, Json

__all__ = ["FORMATS", "RawTool", "Reading", "read_source"]

NOT_ASKED = "it names live servers, which are not asked here; give the tools they list"
FORMATS = ("auto", "mcp", "openai", "anthropic", "openapi")


def read_source(
    source: str,
    *,
    label: str,
    form: str,
    limits: Limits,
    live_timeout_s: float,
    ask_servers: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Reading:
    """Read one source: a file, an `mcp.json`, or the URL of a live server.

    Args:
        source: path or http(s) URL.
        label: how findings and tools name it.
        form: one of `FORMATS`.
        limits: bounds.
        live_timeout_s: seconds for each live server.
        ask_servers: whether live servers are asked; else a source that names one is unreadable.
        progress: told what is being done.

    """
    if source.startswith(("http://", "https://")):
        if not ask_servers:
            return _unreadable(label, NOT_ASKED)
        return _live([ServerConfig(name=label, transport="http", url=source)], limits,
                     live_timeout_s, progress)  # fmt: skip
    try:
        text = _text_of(Path(source), limits)
    except (OSError, ValueError) as error:
        return _unreadable(label, str(error))
    return _read_text(label, text, form, limits, live_timeout_s if ask_servers else None, progress)


def _read_text(
    source: str,
    text: str,
    form: str,
    limits: Limits,
    live_timeout_s: float | None,
    progress: Callable[[str], None] | None,
) -> Reading:
    looks_json = text.lstrip()[:1] in ("{", "[")
    reading = Reading()
    try:
        value, found = _parse(source, text, limits, looks_json=looks_json)
    except json.JSONDecodeError as error:
        by_line = _read_lines(source, text, form, limits)
        if by_line is not None:
            return by_line
        return _unreadable(source, f"line {error.lineno}, column {error.colno}: {error.msg}")
    except yaml.YAMLError as error:
        return _unreadable(source, f"neither JSON nor YAML: {' '.join(str(error).split())[:400]}")
    reading.diagnostics += found
    if is_config(value) and form in ("auto", "mcp"):
        if live_timeout_s is None:
            return _unreadable(source, NOT_ASKED)
        servers, problems = parse_config(value, source)
        reading.diagnostics += problems
        reading.absorb(_live(servers, limits, live_timeout_s, progress))
    else:
        reading.absorb(read_document(value, source, form, limits))
    return reading


def _live(
    servers: list[ServerConfig],
    limits: Limits,
    timeout_s: float,
    progress: Callable[[str], None] | None,
) -> Reading:
    # The SDK takes a second to import, and most sources are files.
    from catalog_compiler.readers.mcp_live import read_servers  # noqa: PLC0415

    return read_servers(servers, limits, timeout_s, progress)


def _unreadable(source: str, message: str) -> Reading:
    return Reading(diagnostics=[findings.SOURCE_UNREADABLE.at(source, "", message)])


def _text_of(path: Path, limits: Limits) -> str:
    """Read and decode a file. Raises OSError or ValueError saying what is wrong."""
    size = path.stat().st_size
    if size > limits.file_bytes:
        raise ValueError(f"the file has {size} bytes; at most {limits.file_bytes} are read")
    content = path.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"byte {error.start} is not {encoding.removesuffix('-sig').upper()}; save the file as "
            "UTF-8"
        ) from error
    if not text.strip():
        raise ValueError("the file is empty")
    return text


def _parse(
    source: str, text: str, limits: Limits, *, looks_json: bool
) -> tuple[Json, list[Diagnostic]]:
    # YAML's flow style opens with JSON's brackets; only a name can tell that it is meant.
    if looks_json and not source.endswith((".yaml", ".yml")):
        return strict_json.parse(text, source, limits.depth)
    if len(text) > limits.yaml_chars:
        raise yaml.YAMLError(
            f"the document has {len(text)} characters; at most {limits.yaml_chars} of YAML are "
            "read, write it as JSON"
        )
    return strict_yaml.parse(text, source, limits.depth)


def _read_lines(source: str, text: str, form: str, limits: Limits) -> Reading | None:
    """Read JSON Lines, one tool a line; None where even the first line is no object."""
    reading = Reading()
    entries: list[Json] = []
    for number, line in strict_json.lines(text):
        try:
            value, found = strict_json.parse(line, source, limits.depth)
        except json.JSONDecodeError as error:
            if not entries:
                return None
            reading.diagnostics.append(
                findings.BAD_LINE.at(source, f"/{len(entries)}", f"line {number}: {error.msg}")
            )
            value, found = None, []
            entries.append(_SKIPPED)
            continue
        place = f"/{len(entries)}"
        reading.diagnostics += [dataclasses.replace(d, pointer=place + d.pointer) for d in found]
        entries.append(value)
    whole = read_entries(entries, source, "", "", form if form != "openapi" else "auto", limits)
    whole.diagnostics = [d for d in whole.diagnostics if not _is_skipped(d, entries)]
    reading.absorb(whole)
    return reading


_SKIPPED = object()


def _is_skipped(diagnostic: Diagnostic, entries: list[Json]) -> bool:
    """Tell whether a finding is about a line that was already reported as no JSON."""
    part = diagnostic.pointer.split("/")[1:2]
    return bool(part) and part[0].isdigit() and entries[int(part[0])] is _SKIPPED
