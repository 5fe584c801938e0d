"""A tool with a hand-made grammar, as a compiled catalog would hold it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from catalog_compiler.arguments.nodes import ArgumentGrammar, Literals, Object, Property, Text
from catalog_compiler.arguments.tables import ArgumentPool
from catalog_compiler.model import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt


@dataclass(frozen=True)
class FakeNote:
    """A note of the compiler."""

    code: str
    pointer: str
    message: str


@dataclass(frozen=True)
class FakeNotes:
    """The notes of one tool."""

    refusal: FakeNote | None = None
    checked_after: Sequence[FakeNote] = ()


@dataclass(frozen=True)
class FakeCompiled:
    """The part of a compiled catalog that arguments need."""

    grammars: Sequence[ArgumentGrammar | None]
    notes: Sequence[FakeNotes]
    arguments: Mapping[str, npt.NDArray[np.generic]] = field(init=False)

    def __post_init__(self) -> None:
        pool = ArgumentPool()
        roots = [-1 if g is None else pool.add(g) for g in self.grammars]
        arrays = {"roots": np.array(roots, np.int32), **pool.to_arrays()}
        object.__setattr__(self, "arguments", arrays)

    def argument_notes(self, index: int) -> FakeNotes:
        return self.notes[index]


def texts_of(*keys: str, required: Sequence[str] = (), **bounds: Any) -> ArgumentGrammar:
    """Make the grammar of an object whose members are texts."""
    members = tuple(Property(key, 1, key in required) for key in keys)
    return ArgumentGrammar((Object(members, **bounds), Text()))


def no_object() -> ArgumentGrammar:
    """Make a grammar whose root is none."""
    return ArgumentGrammar((Literals((b"{}",)),))


def make_tool(schema: object, name: str = "send", description: str = "Sends a letter.") -> Tool:
    """Make a tool with a schema."""
    return Tool(name=name, source_name=name, description=description, input_schema=schema)  # type: ignore[arg-type]
