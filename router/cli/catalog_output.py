"""How `pointsman catalog` prints what it found.

Owns the texts and colours on a terminal and the JSON for machines. Everything that comes from a
catalog is shown without markup and with its acting characters spelt out. Never reads a file.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from catalog_compiler.display import one_line, visible
from catalog_compiler.records import diagnostic_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_compiler.arguments.catalog import ArgumentNotes
    from catalog_compiler.artifact import CompiledCatalog
    from catalog_compiler.diff import CatalogDiff, ToolChange
    from catalog_compiler.model import Diagnostic, Tool

SHOWN_FINDINGS: Final = 20
MAX_NAME_CELLS: Final = 44
"""Longer names push their line to the right."""

PLAIN_CELLS: Final = 120
"""Length of a description where the output is no terminal."""

_RANKS: Final = {"error": 0, "warning": 1, "info": 2}
_STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "blue"}

MAX_SHOWN_TEXT: Final = 4_000
"""Longest text printed, in characters."""


def summary(compiled: CompiledCatalog) -> dict[str, Any]:
    """Return what `compile` and `show` tell machines of a catalog."""
    return {
        "digest": compiled.digest,
        "tools": len(compiled),
        "prompt_tokens": int(compiled.token_counts.sum()),
        "findings": count_findings(compiled.diagnostics),
        "trie": {
            "nodes": compiled.trie.nodes,
            "edges": compiled.trie.edges,
            "leaves": compiled.trie.leaves,
        },
        "none_text": compiled.placement.none_text,
        "delimiter": compiled.placement.delimiter,
        "tokenizer_digest": compiled.tokenizer_digest,
        "compiler_version": compiled.compiler_version,
        "index": compiled.extras_key,
    }


def count_findings(diagnostics: Sequence[Diagnostic]) -> dict[str, int]:
    """Return how many findings there are of each severity."""
    counts = {"error": 0, "warning": 0, "info": 0}
    for diagnostic in diagnostics:
        counts[diagnostic.severity.value] += 1
    return counts


def print_json(value: object) -> None:
    """Print one JSON value, ASCII, and nothing else."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def safe(text: str) -> str:
    """Spell acting characters out and clip."""
    return visible(text, MAX_SHOWN_TEXT)


def new_console() -> Console:
    """Return a console that takes no text for markup."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def show_findings(
    console: Console, diagnostics: Sequence[Diagnostic], at_most: int | None = SHOWN_FINDINGS
) -> None:
    """Print findings, the worst first; of more than `at_most` the errors, and a count by code."""
    ranked = sorted(diagnostics, key=lambda found: _RANKS[found.severity.value])
    if at_most is None or len(ranked) <= at_most:
        for found in ranked:
            console.print(_finding_text(found))
        return
    for found in [found for found in ranked if found.severity.value == "error"][:at_most]:
        console.print(_finding_text(found))
    first = {(found.severity.value, found.code): found for found in reversed(ranked)}
    counts = Counter((found.severity.value, found.code) for found in ranked)
    for (severity, code), count in sorted(
        counts.items(), key=lambda item: (_RANKS[item[0][0]], -item[1], item[0])
    ):
        example = first[severity, code]
        line = Text(f"{severity}[{code}] ", style=_STYLES[severity])
        line.append(f"{count:,} ", style="bold")
        line.append(f"such as {safe(example.tool or example.source)}", style="dim")
        console.print(line)
    console.print("`pointsman catalog lint` or `catalog report` shows each of them")


def _finding_text(found: Diagnostic) -> Text:
    line = Text(f"{found.severity.value}[{found.code}] ", style=_STYLES[found.severity.value])
    line.append(safe(found.tool and f"{found.tool}: "), style="bold")
    line.append(safe(f"{found.message.rstrip('.')}. {found.mend}"), style="default")
    place = f"{found.source}#{found.pointer}" if found.pointer else found.source
    line.append(f"\n  {safe(place)}", style="dim")
    return line


def show_catalog(compiled: CompiledCatalog) -> None:
    """Print every tool on a line, then what is true of all."""
    console = new_console()
    names = [safe(name) for name in compiled.names]
    wide = min(MAX_NAME_CELLS, max(map(cell_len, names)))
    room = max(20, console.width - wide - 12) if console.is_terminal else PLAIN_CELLS
    console.print(f"{set_cell_size('tool', wide)}   tokens  description", style="bold")
    for name, tool, count in zip(names, compiled.tools, compiled.token_counts, strict=True):
        shown = name if cell_len(name) > wide else set_cell_size(name, wide)
        description = one_line(tool.description or tool.title, room)
        console.print(f"{shown} {count:>8,}  {description}")
    counts = count_findings(compiled.diagnostics)
    console.print(
        f"{len(compiled):,} tools, {int(compiled.token_counts.sum()):,} tokens in a prompt, "
        f"{counts['error']:,} errors, {counts['warning']:,} warnings"
    )
    console.print(
        f'"no tool fits" is spelt {safe(compiled.placement.none_text)!r}; '
        f"retrieval index {'stored' if compiled.extras_key else 'not stored'}"
    )
    console.print(f"digest {compiled.digest}")


def show_tool(compiled: CompiledCatalog, index: int, *, as_json: bool) -> None:
    """Print all of one tool."""
    tool = compiled.tool(index)
    record = json.loads(compiled.tool_json(index))
    findings = [
        found for found in compiled.diagnostics if tool.name in (found.tool, *found.related)
    ]
    notes = compiled.argument_notes(index)
    if as_json:
        record["arguments"] = {
            "decoded": notes.refusal is None,
            "refusal": None if notes.refusal is None else dataclasses.asdict(notes.refusal),
            "checked_after": [dataclasses.asdict(note) for note in notes.checked_after],
        }
        record["tokens"] = int(compiled.token_counts[index])
        record["diagnostics"] = [diagnostic_record(found) for found in findings]
        print_json(record)
        return
    console = new_console()
    console.print(safe(tool.name), style="bold")
    for label, value in _labelled(tool):
        console.print(f"  {label}: {safe(value)}")
    console.print(f"  tokens in a prompt: {int(compiled.token_counts[index]):,}")
    _show_notes(console, notes)
    console.print(safe(tool.description))
    console.print(json.dumps(tool.input_schema, indent=2))
    show_findings(console, findings)


def _show_notes(console: Console, notes: ArgumentNotes) -> None:
    """Say whether arguments can be decoded, and what is only checked afterwards."""
    if notes.refusal is not None:
        told = f"[{notes.refusal.code}] {notes.refusal.message.rstrip('.')}. {notes.refusal.mend}"
        console.print(f"  arguments: refused at {notes.refusal.pointer or '/'}: {safe(told)}")
        return
    if not notes.checked_after:
        console.print("  arguments: decoded; the grammar enforces the whole schema")
        return
    console.print("  arguments: decoded, then checked for what the grammar does not enforce")
    for note in notes.checked_after:
        console.print(f"    {safe(note.pointer or '/')}: [{note.code}] {safe(note.message)}")


def _labelled(tool: Tool) -> list[tuple[str, str]]:
    rows = [
        ("title", tool.title),
        ("namespace", tool.namespace),
        ("name in its source", tool.source_name if tool.source_name != tool.name else ""),
        ("aliases", ", ".join(tool.aliases)),
        ("tags", ", ".join(tool.tags)),
        ("source", f"{tool.source}{tool.pointer}"),
    ]
    return [(label, value) for label, value in rows if value]


def show_diff(difference: CatalogDiff) -> None:
    """Print what changed, a tool a paragraph."""
    console = new_console()
    if difference.empty:
        console.print("no difference")
        return
    for name in difference.added:
        console.print(f"added    {safe(name)}", style="green")
    for name in difference.removed:
        console.print(f"removed  {safe(name)}", style="red")
    for change in difference.renamed:
        why = change.reason if change.reason != "similar" else f"{change.likeness:.0%} alike"
        names = f"{safe(change.before)} -> {safe(change.after)}"
        console.print(f"renamed  {names} ({why})", style="cyan")
        _show_changes(console, change)
    for change in difference.changed:
        console.print(f"changed  {safe(change.before)}", style="yellow")
        _show_changes(console, change)
    console.print(
        f"{len(difference.added):,} added, {len(difference.removed):,} removed, "
        f"{len(difference.renamed):,} renamed, {len(difference.changed):,} changed"
    )


def _show_changes(console: Console, change: ToolChange) -> None:
    for part in change.changes:
        where = f"{part.field}{safe(part.pointer)}"
        values = {"-": part.before, "+": part.after}
        if part.kind != "changed":
            values.pop("-" if part.kind == "added" else "+")
        console.print(f"  {part.kind} {where}")
        for sign, value in values.items():
            console.print(f"    {sign} {one_line(json.dumps(value, ensure_ascii=False), 160)}")
