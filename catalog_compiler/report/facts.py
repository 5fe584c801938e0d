"""The numbers and lists that the report shows.

Owns counting and choosing; never writes HTML.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog_compiler.likeness import closest_pairs
from catalog_compiler.model import Diagnostic, Severity, Tool

if TYPE_CHECKING:
    from catalog_compiler.artifact import CompiledCatalog
    from catalog_compiler.grammar import NameTrie
    from catalog_compiler.model import Json

ROUTER_TOOL_TOKENS: Final = 100
"""What the one tool "ask the router" costs an agent's prompt, about."""

MAX_PAIRS: Final = 60
MAX_NAMESPACES: Final = 14
MAX_COSTLY: Final = 12
MAX_PER_CODE: Final = 200
MAX_ARGUMENTS: Final = 40
PAIR_LIKENESS: Final = 0.5
"""Pairs that share fewer of their words are not shown as confusable."""

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Share:
    """One bar: a label, its tools and tokens, and its length in percent of the longest."""

    label: str
    tools: int
    tokens: int
    percent: float


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one code."""

    severity: Severity
    code: str
    count: int
    shown: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tools that read alike; `likeness` is in percent, `codes` are findings that name both."""

    left: Tool
    right: Tool
    likeness: int
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrieFacts:
    """How much of a name is decided by the model.

    Attributes:
        nodes: of the trie.
        choices: places where the model chooses.
        widest: most alternatives at one place.
        mean_choices: choices on the way to a name, averaged over names.
        most_choices: on the longest way.
        mean_tokens: tokens of a name with its delimiter, averaged.
        forced_percent: share of the trie's tokens that need no model.

    """

    nodes: int
    choices: int
    widest: int
    mean_choices: float
    most_choices: int
    mean_tokens: float
    forced_percent: float


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool as the table shows it."""

    name: str
    kind: str
    required: bool


def namespace_shares(catalog: CompiledCatalog) -> list[Share]:
    """Return tokens by namespace, most first; the smallest together as the last."""
    tokens: Counter[str] = Counter()
    tools: Counter[str] = Counter()
    for tool, count in zip(catalog.tools, catalog.token_counts.tolist(), strict=True):
        tokens[tool.namespace] += count
        tools[tool.namespace] += 1
    ranked = sorted(tokens.items(), key=lambda item: (-item[1], item[0]))
    rows = [(label or "(no namespace)", tools[label], count) for label, count in ranked]
    head, tail = rows[:MAX_NAMESPACES], rows[MAX_NAMESPACES:]
    if tail:
        total = (f"{len(tail)} more", sum(row[1] for row in tail), sum(row[2] for row in tail))
        head.append(total)
    longest = rows[0][2] or 1
    return [Share(*row, percent=min(100.0, round(100 * row[2] / longest, 1))) for row in head]


def costliest(catalog: CompiledCatalog) -> list[Share]:
    """Return the tools with the most tokens."""
    counts = catalog.token_counts
    order = np.argsort(-counts, kind="stable")[:MAX_COSTLY].tolist()
    longest = int(counts[order[0]]) or 1
    return [
        Share(catalog.names[i], 1, int(counts[i]), round(100 * int(counts[i]) / longest, 1))
        for i in order
    ]


def finding_groups(catalog: CompiledCatalog) -> list[FindingGroup]:
    """Return the findings by code, worst severity first, then most frequent."""
    groups: defaultdict[tuple[Severity, str], list[Diagnostic]] = defaultdict(list)
    for found in catalog.diagnostics:
        groups[found.severity, found.code].append(found)
    ranked = sorted(groups.items(), key=lambda g: (_ORDER[g[0][0]], -len(g[1]), g[0][1]))
    return [
        FindingGroup(severity, code, len(found), tuple(found[:MAX_PER_CODE]))
        for (severity, code), found in ranked
    ]


def confusable_pairs(catalog: CompiledCatalog) -> list[Pair]:
    """Return pairs that findings name and pairs that share most of their words, closest first."""
    codes: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for found in catalog.diagnostics:
        left = catalog.indices.get(found.tool)
        for other in found.related:
            right = catalog.indices.get(other)
            if left is not None and right is not None and left != right:
                codes[min(left, right), max(left, right)].add(found.code)
    alike = {
        (left, right): likeness
        for likeness, left, right in closest_pairs(catalog.tools, 4 * MAX_PAIRS)
    }
    pairs = {pair for pair, likeness in alike.items() if likeness >= PAIR_LIKENESS} | codes.keys()
    ranked = sorted(pairs, key=lambda pair: (-alike.get(pair, 0.0), pair))[:MAX_PAIRS]
    return [
        Pair(
            catalog.tools[left],
            catalog.tools[right],
            round(100 * alike.get((left, right), 0.0)),
            tuple(sorted(codes.get((left, right), ()))),
        )
        for left, right in ranked
    ]


def trie_facts(trie: NameTrie) -> TrieFacts:
    """Measure the trie."""
    fan = np.diff(trie.edge_offsets)
    lengths = (1 + np.diff(trie.run_offsets)).tolist()
    choices = [0] * trie.nodes
    tokens = [len(trie.root_run)] * trie.nodes
    offsets, children = trie.edge_offsets.tolist(), trie.edge_nodes.tolist()
    for node in range(trie.nodes):
        for edge in range(offsets[node], offsets[node + 1]):
            choices[children[edge]] = choices[node] + 1
            tokens[children[edge]] = tokens[node] + lengths[edge]
    ends = np.flatnonzero(fan == 0).tolist()
    forced = len(trie.run_tokens) + len(trie.root_run)
    return TrieFacts(
        nodes=trie.nodes,
        choices=int(np.count_nonzero(fan)),
        widest=int(fan.max()),
        mean_choices=sum(choices[end] for end in ends) / len(ends),
        most_choices=max(choices[end] for end in ends),
        mean_tokens=sum(tokens[end] for end in ends) / len(ends),
        forced_percent=100 * forced / max(1, forced + trie.edges),
    )


def arguments(schema: Json) -> list[Argument]:
    """Return the outermost arguments of a schema, required ones first."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return []
    required = schema.get("required")
    needed = {n for n in required if isinstance(n, str)} if isinstance(required, list) else set()
    rows = [Argument(name, _kind(part), name in needed) for name, part in properties.items()]
    return sorted(rows, key=lambda row: not row.required)[:MAX_ARGUMENTS]


def _kind(part: Json) -> str:
    """Return the type of an argument in a word or two."""
    if not isinstance(part, dict):
        return "any"
    kind = part.get("type")
    if isinstance(part.get("enum"), list):
        return f"one of {len(part['enum'])}"
    if isinstance(kind, list):
        return " or ".join(str(k)[:20] for k in kind[:4])
    if isinstance(kind, str):
        return kind[:20]
    for word in ("anyOf", "oneOf", "allOf"):
        if isinstance(part.get(word), list):
            return f"{word} {len(part[word])}"
    return str(part["$ref"]).rsplit("/", 1)[-1][:30] if "$ref" in part else "any"
