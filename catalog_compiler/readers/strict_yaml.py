"""YAML as a way to write JSON: safe types only, duplicate keys named, alias bombs refused.

Owns the loader. Never knows what a tool is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import yaml

from catalog_compiler import findings, pointers

if TYPE_CHECKING:
    from catalog_compiler.model import Diagnostic, Json

MAX_NODES = 2_000_000
"""Values that a document may expand to; aliases that multiply past it are refused."""


class _Loader(yaml.SafeLoader):
    """SafeLoader without timestamps (JSON has none), noting duplicate keys by line."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.doubled: list[tuple[str, int]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                self.doubled.append((key, key_node.start_mark.line + 1))
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str, source: str, max_depth: int) -> tuple[Json, list[Diagnostic]]:
    """Parse one YAML document into JSON values.

    Raises:
        yaml.YAMLError: not YAML, too deep for the parser, or expanding past `MAX_NODES`.

    """
    loader = _Loader(text)
    try:
        value = loader.get_single_data()
    except RecursionError as error:
        raise yaml.YAMLError("the document is nested too deeply") from error
    finally:
        loader.dispose()
    found = [
        findings.DUPLICATE_KEY.at(source, "", f"line {line}: the key {key!r} is given twice")
        for key, line in loader.doubled
    ]
    return _as_json(value, source, max_depth, found), found


def _as_json(value: Any, source: str, max_depth: int, found: list[Diagnostic]) -> Json:
    budget = MAX_NODES

    def walk(node: Any, at: str, depth: int) -> Json:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise yaml.YAMLError(f"the document expands to over {MAX_NODES} values")
        if isinstance(node, dict | list) and depth > max_depth:
            found.append(findings.TOO_DEEP.at(source, at, "the value is nested too deeply"))
            return None
        if isinstance(node, dict):
            return {
                str(key): walk(child, pointers.join(at, str(key)), depth + 1)
                for key, child in node.items()
            }
        if isinstance(node, list | tuple | set):
            return [walk(child, pointers.join(at, i), depth + 1) for i, child in enumerate(node)]
        if isinstance(node, float) and not math.isfinite(node):
            found.append(findings.NOT_A_NUMBER.at(source, at, f"{node} is no JSON number"))
            return None
        if node is None or isinstance(node, str | int | float | bool):
            return node
        return str(node)

    return walk(value, "", 1)
