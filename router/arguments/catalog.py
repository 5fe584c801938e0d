"""What a compiled catalog holds for arguments, tool by tool, ready for use.

Owns the look-ups that are worth keeping: a tool's root and the keys of its grammar, its parameters,
its check. Never walks a grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from catalog_compiler.arguments.nodes import Object
from catalog_compiler.arguments.tables import NONE, grammar_at
from router.arguments.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from catalog_compiler.model import Json, Tool

TOOLS_KEPT: Final = 1024
"""Most tools whose look-ups are kept."""


class Note(Protocol):
    """What the compiler says of a schema."""

    @property
    def code(self) -> str:
        """A stable identifier."""
        ...

    @property
    def pointer(self) -> str:
        """JSON pointer into the schema."""
        ...

    @property
    def message(self) -> str:
        """What is so."""
        ...


class Notes(Protocol):
    """What the compiler says of one tool's arguments."""

    @property
    def refusal(self) -> Note | None:
        """Why there is no grammar."""
        ...

    @property
    def checked_after(self) -> Sequence[Note]:
        """What the grammar does not enforce."""
        ...


class Compiled(Protocol):
    """The part of a compiled catalog that arguments need."""

    @property
    def arguments(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """The tables."""
        ...

    def argument_notes(self, index: int) -> Notes:
        """Return the notes of one tool."""
        ...


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """One tool's arguments.

    Attributes:
        tool: the tool.
        root: node of its grammar; -1 where they are refused.
        refusal: why they are.
        keys: the root object's declared keys, in the grammar's order.
        required: those that must be there.
        fewest: how many members there must be.
        free: whether other members may be there.
        parameters: its schema in short.
        checked: what the grammar does not enforce.
        errors: returns what is wrong with a value, by a validator that is made when it is needed.

    """

    tool: Tool
    root: int
    refusal: Note | None
    keys: tuple[str, ...]
    required: frozenset[str]
    fewest: int
    free: bool
    parameters: Parameters
    checked: tuple[Note, ...]
    errors: Callable[[Json], Sequence[str]]

    def closed(self, spoken_of: Callable[[str], bool]) -> frozenset[str]:
        """Return the optional keys that a request does not speak of.

        None of them where the schema asks for more members than would be left.
        """
        unspoken = frozenset(
            key for key in self.keys if key not in self.required and not spoken_of(key)
        )
        if not self.free and len(self.keys) - len(unspoken) < self.fewest:
            return frozenset()
        return unspoken


class ArgumentCatalog:
    """The arguments of one catalog's tools.

    Args:
        compiled: the catalog's file.
        tools: its tools, sorted by routed name.
        make_check: makes the check of values against a schema.

    """

    def __init__(
        self,
        compiled: Compiled,
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
        node = None if grammar is None else grammar.nodes[grammar.root]
        # A root that is a union of objects has no keys of its own to close.
        members = node if isinstance(node, Object) else Object(())
        return ToolArguments(
            tool=tool,
            root=root,
            refusal=notes.refusal,
            keys=tuple(member.key for member in members.properties),
            required=frozenset(m.key for m in members.properties if m.required),
            fewest=members.min_properties,
            free=members.keys is not None,
            parameters=Parameters(tool.input_schema),
            checked=tuple(notes.checked_after),
            errors=_LateCheck(self._make_check, tool.input_schema),
        )


class _LateCheck:
    """A check that is made at its first use: most tools never need one."""

    def __init__(
        self, make: Callable[[Json], Callable[[Json], Sequence[str]]], schema: Json
    ) -> None:
        self._make = make
        self._schema = schema
        self._check: Callable[[Json], Sequence[str]] | None = None

    def __call__(self, value: Json) -> Sequence[str]:
        if self._check is None:
            self._check = self._make(self._schema)
        return self._check(value)
