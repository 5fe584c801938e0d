"""What the reading of a schema gives, and what stops it.

Owns the bounds, the notes and the reasons of a refusal. Never reads a schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_compiler.arguments.nodes import ArgumentGrammar


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Bounds on one schema; passing one refuses the tool's arguments, never the catalog.

    Attributes:
        nodes: of the grammar.
        states: of all its automata together.
        depth: of schemas within schemas, as written.
        schemas: subschemas, as written.
        alternatives: of one type in one place; what would make more is checked after decoding.
        steps: of the reading; a step is about a microsecond or ten.

    """

    nodes: int = 20_000
    states: int = 200_000
    depth: int = 64
    schemas: int = 50_000
    alternatives: int = 64
    steps: int = 100_000

    def __post_init__(self) -> None:
        for name in ("nodes", "states", "depth", "schemas", "alternatives", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"SchemaLimits.{name} is {getattr(self, name)}; give 1 or more")


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """Something about one place of a schema.

    Attributes:
        code: what kind of thing, in kebab-case.
        pointer: JSON pointer of the keyword within the schema.
        message: what is so.
        mend: what to write instead.

    """

    code: str
    pointer: str
    message: str
    mend: str


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """What became of a schema.

    Attributes:
        grammar: accepts every value that the schema does, and no other unless `checked_after`
            says so; None where the arguments are refused.
        refusal: why they are.
        checked_after: keywords that the grammar does not enforce, or not wholly: a value must be
            validated after decoding.
        notes: what else is worth telling: formats that are not known, keywords of other dialects.

    """

    grammar: ArgumentGrammar | None
    refusal: Note | None = None
    checked_after: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()


class RefusedError(Exception):
    """The schema can't become a grammar; `note` says why."""

    def __init__(self, code: str, pointer: str, message: str, mend: str) -> None:
        super().__init__(message)
        self.note = Note(code, pointer, message, mend)


@dataclass(slots=True)
class Budget:
    """The steps that are left to one reading."""

    limits: SchemaLimits
    steps: int = field(init=False)

    def __post_init__(self) -> None:
        self.steps = self.limits.steps

    def spend(self, steps: int) -> None:
        """Take steps. Raises RefusedError where none are left."""
        self.steps -= steps
        if self.steps < 0:
            raise too_large(f"reading it takes more than {self.limits.steps} steps")


def too_large(message: str, pointer: str = "") -> RefusedError:
    """Return the refusal of a schema that passes a bound."""
    return RefusedError(
        "arguments-too-large", pointer, message,
        "split the tool, or replace anyOf, oneOf and not by plain properties",
    )  # fmt: skip
