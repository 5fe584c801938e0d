"""Sources in, a checked set of tools out.

Owns the joining of readers, schemas, names and checks. The result does not depend on the order of
the sources.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from catalog_compiler import findings, pointers
from catalog_compiler.checks import check_set, check_text, normal_text
from catalog_compiler.errors import SourceError, StrictError
from catalog_compiler.limits import Limits
from catalog_compiler.model import Diagnostic, Severity, Tool, ToolSet
from catalog_compiler.names import apply_aliases, check_names, settle_names
from catalog_compiler.readers import FORMATS, RawTool, Reading, read_source, strict_json
from catalog_compiler.schemas import check_schema

ALIASES_DEPTH = 2
"""An alias file is one flat object; anything deeper is no name."""

Progress = Callable[[str], None]


def load_toolset(
    sources: Sequence[str],
    *,
    format: str = "auto",  # noqa: A002 - the word that users know
    strict: bool = False,
    limits: Limits | None = None,
    aliases: Path | Mapping[str, str] | None = None,
    live_timeout_s: float = 30.0,
    ask_servers: bool = True,
    progress: Progress | None = None,
) -> ToolSet:
    """Read, normalise and check tools.

    Args:
        sources: file paths, `mcp.json` files (whose servers are asked) and URLs of MCP servers.
        format: one of `readers.FORMATS`.
        strict: make any finding of severity ERROR an error.
        limits: bounds on what is read.
        aliases: old name -> routed name, or a JSON file holding such an object.
        live_timeout_s: seconds for each live server.
        ask_servers: whether sources may name live servers. A configuration starts commands, so
            one from a stranger must not be followed; it is then a source that can't be read.
        progress: told what is being done.

    Returns:
        Tools sorted by routed name, findings by place. A source that can't be read is a finding.

    Raises:
        SourceError: an unknown format, a bad alias file, or no source could be read at all.
        StrictError: `strict` and something had to be set aside.

    """
    if format not in FORMATS:
        raise SourceError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    bounds = limits or Limits()
    reading = Reading()
    for source, label in zip(sources, source_labels(sources), strict=True):
        if progress:
            progress(f"reading {source}")
        reading.absorb(
            read_source(
                source,
                label=label,
                form=format,
                limits=bounds,
                live_timeout_s=live_timeout_s,
                ask_servers=ask_servers,
                progress=progress,
            )
        )
    _refuse_nothing(reading)
    given, alias_source = _alias_map(aliases)
    toolset = normalise(reading, bounds, given, alias_source)
    if strict:
        _refuse_errors(toolset)
    return toolset


def source_labels(sources: Sequence[str]) -> list[str]:
    """Return how findings and tools name each source: the shortest end of its path that is its own.

    A catalog is named by its content, so where a file happened to lie must not be part of it.
    """
    paths = [(public_url(s),) if "://" in s else Path(s).parts for s in sources]
    labels = []
    for index, parts in enumerate(paths):
        others = [p for i, p in enumerate(paths) if i != index and p != parts]
        length = 1
        while length < len(parts) and any(p[-length:] == parts[-length:] for p in others):
            length += 1
        labels.append("/".join(parts[-length:]))
    return labels


def public_url(url: str) -> str:
    """Return a URL without what may be secret in it: user, password, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def normalise(
    reading: Reading, limits: Limits, aliases: Mapping[str, str], alias_source: str
) -> ToolSet:
    """Bring what was read into normal form, settle names and check it all."""
    found = list(reading.diagnostics)
    by_place: dict[tuple[str, str], list[Diagnostic]] = {}
    tools: list[Tool] = []
    for raw in reading.tools:
        tool, own = _normal_tool(raw, limits)
        tools.append(tool)
        by_place.setdefault((raw.source, raw.pointer), []).extend(own)
    settled, collisions = settle_names(tools)
    for tool in settled:  # now that the routed name is known, findings can carry it
        own = by_place[tool.source, tool.pointer]
        found += [_about(d, tool.name) for d in own]
    named, alias_findings = apply_aliases(settled, aliases, alias_source)
    named.sort(key=lambda tool: tool.name)
    lengths = {(r.source, r.pointer): len(r.description) for r in reading.tools}
    for tool in named:
        found += check_text(tool, lengths[tool.source, tool.pointer], limits)
    found += [*collisions, *alias_findings, *check_names(named), *check_set(named)]
    return ToolSet(tuple(named), tuple(sorted(found, key=_place)))


def _normal_tool(raw: RawTool, limits: Limits) -> tuple[Tool, list[Diagnostic]]:
    pointer = raw.pointer
    place = pointers.join(pointer, raw.schema_key) if raw.schema_key else ""
    checked = check_schema(raw.schema, raw.source, place, raw.name, limits)
    found = checked.diagnostics
    if not raw.schema_key:
        # The schema was put together: its own pointers lead nowhere in the document.
        found = [
            dataclasses.replace(
                d, pointer=pointer, message=f"{d.message} (at {d.pointer or '/'} of the arguments)"
            )
            for d in found
        ]
    tool = Tool(
        name=raw.name,
        source_name=raw.name,
        namespace=raw.namespace,
        aliases=tuple(dict.fromkeys(a for a in raw.aliases if a != raw.name)),
        title=raw.title[:1000],
        description=normal_text(raw.description, limits),
        input_schema=checked.schema,
        tags=tuple(sorted(set(raw.tags))),
        source=raw.source,
        pointer=pointer,
    )
    return tool, found


def _about(diagnostic: Diagnostic, tool: str) -> Diagnostic:
    return Diagnostic(
        severity=diagnostic.severity,
        code=diagnostic.code,
        message=diagnostic.message,
        mend=diagnostic.mend,
        source=diagnostic.source,
        pointer=diagnostic.pointer,
        tool=tool,
        related=diagnostic.related,
    )


def _place(diagnostic: Diagnostic) -> tuple[str, str, str, str, str]:
    return (
        diagnostic.source,
        diagnostic.pointer,
        diagnostic.code,
        diagnostic.tool,
        diagnostic.message,
    )


def _alias_map(aliases: Path | Mapping[str, str] | None) -> tuple[Mapping[str, str], str]:
    if aliases is None:
        return {}, ""
    if not isinstance(aliases, Path):
        return aliases, "aliases"
    try:
        text = aliases.read_text(encoding="utf-8")
        value, _ = strict_json.parse(text, str(aliases), ALIASES_DEPTH)
    except (OSError, ValueError) as error:
        raise SourceError(f"{aliases}: {error}; give a JSON object of old and new names") from error
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise SourceError(f"{aliases} is no JSON object of old names to routed names")
    return value, str(aliases)


def _refuse_nothing(reading: Reading) -> None:
    """Raise where nothing at all was read, and not because a list was empty."""
    lost = [
        d
        for d in reading.diagnostics
        if d.code
        in (
            findings.SOURCE_UNREADABLE.code,
            findings.SERVER_UNREACHABLE.code,
            findings.CURSOR_STUCK.code,
        )
    ]
    if lost and not reading.tools:
        shown = "; ".join(
            f"{d.source}{d.pointer and '#' + d.pointer}: {d.message}" for d in lost[:5]
        )
        raise SourceError(f"no tool could be read. {shown}. {lost[0].mend}")


def _refuse_errors(toolset: ToolSet) -> None:
    errors = [d for d in toolset.diagnostics if d.severity is Severity.ERROR]
    if errors:
        shown = "; ".join(f"{d.source}#{d.pointer}: {d.message} ({d.mend})" for d in errors[:10])
        more = f"; and {len(errors) - 10} more" if len(errors) > 10 else ""
        raise StrictError(f"{len(errors)} finding(s) set something aside: {shown}{more}")
