"""The functions of the BFCL v4 benchmark's package as one list of tools.

Owns which of the package's files count and the rule for names that come up again: the first
definition wins, in the order of `CATEGORIES` and of the lines. Schemas are handed on as they are,
the benchmark's own names for types included (the compiler translates those). Never reads a question
or an answer of the benchmark.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

CATEGORIES: Final = (
    *("simple_python", "simple_java", "simple_javascript"),
    *("multiple", "live_simple", "live_multiple"),
)


class BfclError(Exception):
    """A file of the benchmark is not as it is known; the message names file and line."""


def read_functions(folder: Path) -> list[dict[str, Any]]:
    """Return the functions as MCP tools (name, description, inputSchema), each name once.

    Args:
        folder: the package's data folder, `router.assets.bfcl_dir()`.

    Raises:
        BfclError: a file is missing, or a line holds no functions.

    """
    tools: dict[str, dict[str, Any]] = {}
    for category in CATEGORIES:
        path = folder / f"BFCL_v4_{category}.json"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise BfclError(
                f"{path} can't be read: {error.strerror}; run python -m router.assets fetch bfcl"
            ) from error
        for number, line in enumerate(lines, 1):
            try:
                for function in json.loads(line)["function"]:
                    tools.setdefault(function["name"], _tool(function))
            except (ValueError, KeyError, TypeError) as error:
                raise BfclError(f"{path}, line {number} holds no functions: {error!r}") from error
    return list(tools.values())


def write_catalog(folder: Path, path: Path) -> int:
    """Write the functions as a `tools/list` result; return how many there are."""
    tools = read_functions(folder)
    path.write_text(json.dumps({"tools": tools}, ensure_ascii=False, indent=1), encoding="utf-8")
    return len(tools)


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function["description"],
        "inputSchema": function["parameters"],
    }
