"""What a compiled catalog holds for arguments, tool by tool, ready for use.

Owns the look-ups that are worth keeping: a tool's root and the keys of its grammar, its parameters,
its check. Never walks a grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.tables import NONE, grammar_at
from router.arguments.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_compiler.arguments.nodes import ArgumentGrammar
    from catalog_compiler.arguments.schema import Note
    from catalog_compiler.artifact import CompiledCatalog
    from catalog_compiler.model import Json, Tool

TOOLS_KEPT: Final = 1024
"""Most tools whose look-ups are kept."""


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """One tool's arguments.

    Attributes:
        tool: the tool.
        root: node of its grammar; -1 where they are refused.
        grammar: the same, read back; None where they are refused.
        refusal: why they are.
        parameters: its schema in short.
        checked: what the grammar does not enforce.
        errors: returns what is wrong with a value; None where the grammar enforces everything.

    """

    tool: Tool
    root: int
    grammar: ArgumentGrammar | None
    refusal: Note | None
    parameters: Parameters
    checked: tuple[Note, ...]
    errors: Callable[[Json], Sequence[str]] | None


class ArgumentCatalog:
    """The arguments of one catalog's tools.

    Args:
        compiled: the catalog's file.
        tools: its tools, sorted by routed name.
        make_check: makes the check of values against a schema.

    """

    def __init__(
        self,
        compiled: CompiledCatalog,
        tools: Sequence[Tool],
        make_check: Callable[[Json], Callable[[Json], Sequence[str]]],
    ) -> None:
        self._compiled = compiled
        self._tools = tools
        self._make_check = make_check
        self._kept: dict[int, ToolArguments] = {}

    def tool(self, index: int) -> ToolArguments:
        """Return one tool's arguments.

        Raises:
            ArtifactError: its tables are malformed.

        """
        kept = self._kept.get(index)
        if kept is None:
            while len(self._kept) >= TOOLS_KEPT:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[index] = self._read(index)
        return kept

    def _read(self, index: int) -> ToolArguments:
        tool = self._tools[index]
        notes = self._compiled.argument_notes(index)
        arrays = self._compiled.arguments
        root = int(arrays["roots"][index])
        grammar = None if root == NONE else grammar_at(arrays, root)
        return ToolArguments(
            tool=tool,
            root=root,
            grammar=grammar,
            refusal=notes.refusal,
            parameters=Parameters(tool.input_schema),
            checked=notes.checked_after,
            errors=self._make_check(tool.input_schema) if notes.checked_after else None,
        )
