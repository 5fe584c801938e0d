"""Checks on texts, one tool at a time and across a whole set.

Owns empty, over-long, duplicate and near-duplicate descriptions and hidden characters. Never
changes a name or a schema.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING

from catalog_compiler import findings
from catalog_compiler.likeness import near_pairs
from catalog_compiler.names import RELATED_SHOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_compiler.limits import Limits
    from catalog_compiler.model import Diagnostic, Tool

INDISTINGUISHABLE_LIKENESS = 0.9
"""Share of words (of name, description and arguments) in common that makes a coin flip."""

_PLAIN_CONTROL = {"\n", "\t"}


def normal_text(text: str, limits: Limits) -> str:
    """Return a description with LF line ends, cut at the bound."""
    return text[: limits.description_chars].replace("\r\n", "\n").replace("\r", "\n")


def check_text(tool: Tool, given_chars: int, limits: Limits) -> list[Diagnostic]:
    """Report what is wrong with one tool's description.

    Args:
        tool: in normal form.
        given_chars: length of the description before it was cut.
        limits: bounds.

    """
    found: list[Diagnostic] = []

    def report(finding: findings.Finding, message: str) -> None:
        at = f"{tool.pointer}/description"
        found.append(finding.at(tool.source, at, message, tool=tool.name))

    if not tool.description.strip():
        report(findings.NO_DESCRIPTION, "the description is missing or empty")
        return found
    if given_chars > limits.description_chars:
        report(
            findings.OVERSIZED_DESCRIPTION,
            f"the description has {given_chars} characters; {limits.description_chars} are kept",
        )
    elif given_chars > limits.routed_chars:
        report(
            findings.LONG_DESCRIPTION,
            f"the description has {given_chars} characters; routing reads about the first "
            f"{limits.routed_chars}",
        )
    text = tool.description
    if not text.isascii() or not text.isprintable():
        hidden = sorted({c for c in text if is_hidden(c)})
        if hidden:
            points = ", ".join(f"U+{ord(c):04X}" for c in hidden[:8])
            report(findings.HIDDEN_IN_TEXT, f"the description holds {points}")
    return found


def is_hidden(character: str) -> bool:
    """Tell whether a character is a control, invisible or turns the direction of text.

    The zero-width joiner and variation selectors are part of ordinary emoji and scripts.
    """
    if character in _PLAIN_CONTROL or character in "\u200c\u200d":
        return False
    return unicodedata.category(character) in ("Cc", "Cf")


def check_set(tools: Sequence[Tool]) -> list[Diagnostic]:
    """Report descriptions that are the same, and tools that can't be told apart."""
    found: list[Diagnostic] = []
    by_text: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        text = " ".join(tool.description.split()).casefold()
        if text:
            by_text[text].append(tool)
    for group in by_text.values():
        shown = [t.name for t in group[: RELATED_SHOWN + 1]]
        for tool in group if len(group) > 1 else ():
            others = tuple(n for n in shown if n != tool.name)[:RELATED_SHOWN]
            found.append(
                findings.DUPLICATE_DESCRIPTION.at(
                    tool.source,
                    f"{tool.pointer}/description",
                    f"{len(group)} tools have this description",
                    tool=tool.name,
                    related=others,
                )
            )
    twins: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for alike, left, right in near_pairs(tools, INDISTINGUISHABLE_LIKENESS):
        twins[left].append((alike, right))
        twins[right].append((alike, left))
    for index, others_of in sorted(twins.items()):
        tool = tools[index]
        ranked = sorted(others_of, key=lambda entry: (-entry[0], entry[1]))
        others = tuple(tools[other].name for _, other in ranked[:RELATED_SHOWN])
        found.append(
            findings.INDISTINGUISHABLE.at(
                tool.source,
                tool.pointer,
                f"{ranked[0][0]:.0%} of its words are those of {others[0]!r}",
                tool=tool.name,
                related=others,
            )
        )
    return found
