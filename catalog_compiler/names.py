"""Routed names: unique in a catalog, the same whatever order the sources come in.

Owns collisions, aliases and look-alikes. No tool is overwritten: where names collide every one of
the colliding tools gets its server's name in front.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import unicodedata
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING

from catalog_compiler import findings, pointers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_compiler.model import Diagnostic, Tool

RELATED_SHOWN = 10
SPACE_CHARS = 80
"""Characters of a server's name that go into a routed name."""

_USUAL = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NOT_PLAIN = re.compile(r"[^\w.-]+")
_LOOK_ALIKES = str.maketrans(
    # Cyrillic and Greek letters shaped like Latin ones, and digits that pass for letters.
    "авекмнорстухіјѕԁԛԝһӏαβεικνορτυχγ01",
    "abekmhopctyxijsdqwhlabeikvoptuxyol",
)


def settle_names(tools: Sequence[Tool]) -> tuple[list[Tool], list[Diagnostic]]:
    """Give every tool a routed name of its own.

    Args:
        tools: with `name` still as the source spelt it.

    Returns:
        The tools, each once, and the findings; neither depends on the order of the input.

    """
    found: list[Diagnostic] = []
    groups: defaultdict[str, list[Tool]] = defaultdict(list)
    kept, repeated = _once(tools)
    for tool in kept:
        groups[tool.source_name].append(tool)
    settled: list[Tool] = []
    taken = {name for name, group in groups.items() if len(group) == 1}
    for name in sorted(groups):
        group = groups[name]
        if len(group) == 1:
            settled.append(dataclasses.replace(group[0], name=name))
        else:
            settled += _tell_apart(name, group, taken, found)
    routed = {(tool.source, tool.pointer): tool.name for tool in settled}
    found += [
        findings.DUPLICATE_TOOL.at(
            again.source,
            again.pointer,
            f"{again.source_name!r} is the same as at {first.source}#{first.pointer}",
            tool=routed[first.source, first.pointer],
        )
        for again, first in repeated
    ]
    return settled, found


def _tell_apart(
    name: str, group: list[Tool], taken: set[str], found: list[Diagnostic]
) -> list[Tool]:
    spaced: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool in group:
        space = _NOT_PLAIN.sub("-", _space_of(tool)).strip("-")[:SPACE_CHARS]
        spaced[f"{space}.{name}" if space else name].append(tool)
    settled: list[tuple[Tool, findings.Finding]] = []
    for candidate, members in sorted(spaced.items()):
        for tool in sorted(members, key=_identity):
            routed, kind = candidate, findings.RENAMED
            if len(members) > 1 or candidate in taken:
                routed, kind = _with_digest(candidate, tool, taken), findings.CONFLICTING_TOOL
            taken.add(routed)
            settled.append((dataclasses.replace(tool, name=routed), kind))
    shown = [tool.name for tool, _ in settled[: RELATED_SHOWN + 1]]
    for tool, kind in settled:
        found.append(
            kind.at(
                tool.source,
                tool.pointer,
                f"{len(group)} tools are called {name[:200]!r}; this one is routed as "
                f"{tool.name[:300]!r}",
                tool=tool.name,
                related=tuple(n for n in shown if n != tool.name)[:RELATED_SHOWN],
            )
        )
    return [tool for tool, _ in settled]


def _with_digest(candidate: str, tool: Tool, taken: set[str]) -> str:
    """Return a name that nobody has: as few digits of the tool's own digest as that takes."""
    digits = _identity(tool)
    for length in range(8, len(digits) + 1, 8):
        if (routed := f"{candidate}~{digits[:length]}") not in taken:
            return routed
    number = 2
    while (routed := f"{candidate}~{digits}~{number}") in taken:
        number += 1
    return routed


def _identity(tool: Tool) -> str:
    """Return the sha256, hex, of a tool and of the server it belongs to."""
    return hashlib.sha256(f"{tool.namespace}\0{content_digest(tool)}".encode()).hexdigest()


def _space_of(tool: Tool) -> str:
    return tool.namespace or PurePath(tool.source).stem


def _once(tools: Sequence[Tool]) -> tuple[list[Tool], list[tuple[Tool, Tool]]]:
    """Keep one of each tool that is the same in name, server and content; pair up the rest.

    The one that is kept takes the aliases of all.
    """
    groups: defaultdict[tuple[str, str, str], list[Tool]] = defaultdict(list)
    # The order of sources must not decide which one stays.
    for tool in sorted(tools, key=lambda t: (t.source, _natural(t.pointer))):
        groups[tool.source_name, tool.namespace, content_digest(tool)].append(tool)
    kept: list[Tool] = []
    repeated: list[tuple[Tool, Tool]] = []
    for first, *others in groups.values():
        aliases = dict.fromkeys(alias for tool in (first, *others) for alias in tool.aliases)
        kept.append(dataclasses.replace(first, aliases=tuple(sorted(aliases))))
        repeated += [(again, first) for again in others]
    return kept, repeated


def _natural(pointer: str) -> list[tuple[int, str]]:
    return [(int(p), "") if pointers.is_index(p) else (-1, p) for p in pointer.split("/")]


def content_digest(tool: Tool) -> str:
    """Return the sha256, hex, of what a tool is, wherever it was read."""
    content = [tool.source_name, tool.title, tool.description, tool.input_schema, *tool.tags]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def apply_aliases(
    tools: Sequence[Tool], given: Mapping[str, str], source: str
) -> tuple[list[Tool], list[Diagnostic]]:
    """Attach aliases: those the tools bring, and the map of old names to routed names.

    An alias must lead to exactly one tool and may not be a tool's own name.
    """
    found: list[Diagnostic] = []
    names = {tool.name: tool for tool in tools}
    bare: defaultdict[str, list[str]] = defaultdict(list)
    for tool in tools:
        bare[tool.source_name].append(tool.name)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for tool in tools:
        for alias in tool.aliases:
            wanted[alias].add(tool.name)
    for alias, target in sorted(given.items()):
        leads = [target] if target in names else bare.get(target, [])
        if len(leads) != 1:
            many = f"{len(leads)} tools" if leads else "no tool"
            found.append(
                findings.BAD_ALIAS.at(source, "", f"{alias!r} leads to {target!r}, which is {many}")
            )
            continue
        wanted[alias].add(leads[0])
    good: defaultdict[str, list[str]] = defaultdict(list)
    for alias, targets in sorted(wanted.items()):
        first = names[min(targets)]
        if alias in names or not alias.strip():
            problem = f"{alias!r} is the name of a tool" if alias in names else "it is empty"
        elif len(targets) > 1:
            problem = f"{alias!r} is claimed by {', '.join(sorted(targets))[:300]}"
        else:
            good[first.name].append(alias)
            continue
        found.append(findings.BAD_ALIAS.at(first.source, first.pointer, problem, tool=first.name))
    settled = [dataclasses.replace(t, aliases=tuple(good.get(t.name, ()))) for t in tools]
    return settled, found


def check_names(tools: Sequence[Tool]) -> list[Diagnostic]:
    """Report unusual names, invisible characters in names, and names that look alike."""
    found: list[Diagnostic] = []
    alike: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        alike[skeleton(tool.name)].append(tool)
        if not _USUAL.fullmatch(tool.name):
            found.append(
                findings.UNUSUAL_NAME.at(
                    tool.source,
                    tool.pointer,
                    f"{tool.name!r} has unusual characters or length",
                    tool=tool.name,
                )
            )
        hidden = [c for c in tool.name if unicodedata.category(c) in ("Cf", "Co", "Cn")]
        if hidden:
            points = ", ".join(f"U+{ord(c):04X}" for c in hidden[:8])
            found.append(
                findings.HIDDEN_IN_NAME.at(
                    tool.source, tool.pointer, f"the name holds {points}", tool=tool.name
                )
            )
    for group in alike.values():
        shown = [t.name for t in group[: RELATED_SHOWN + 1]]
        for tool in group if len(group) > 1 else ():
            others = tuple(n for n in shown if n != tool.name)[:RELATED_SHOWN]
            found.append(
                findings.LOOK_ALIKE.at(
                    tool.source,
                    tool.pointer,
                    f"{tool.name!r} looks like {', '.join(map(repr, others))[:300]}",
                    tool=tool.name,
                    related=others,
                )
            )
    return found


def skeleton(name: str) -> str:
    """Return what a name looks like: case, width, accents' form and look-alikes folded away.

    In the spirit of UTS 39's skeletons, over the letters that pass for Latin ones.
    """
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
    folded = unicodedata.normalize("NFKC", visible).casefold()
    return folded.translate(_LOOK_ALIKES).replace("i", "l")
