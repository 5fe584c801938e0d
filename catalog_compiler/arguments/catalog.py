"""The arguments of a catalog's tools: one pool of tables, and what each tool's grammar leaves out.

Owns the join of schemas and tables, the reuse of an earlier compilation, and the findings. Never
sets a tool aside: one whose arguments can't be compiled is still routed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog_compiler import findings
from catalog_compiler.arguments.schema import Note, compile_schema
from catalog_compiler.arguments.tables import NONE, ArgumentPool, grammar_at
from catalog_compiler.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from catalog_compiler.arguments.nodes import ArgumentGrammar
    from catalog_compiler.arguments.tables import Arrays
    from catalog_compiler.model import Diagnostic, Tool


UNKNOWN: Final = "arguments-unknown"
"""Code of the refusal of a tool without an input schema."""

FAULT: Final = "arguments-fault"
"""Code of the refusal of a schema on which the compiler failed."""


@dataclass(frozen=True, slots=True)
class ArgumentNotes:
    """What is to be known of one tool's arguments.

    Attributes:
        refusal: why they can't be decoded, or None where they can.
        checked_after: what the grammar does not enforce; values must be validated.
        ignored: what the schema says and nobody here enforces (an unknown format, a keyword of
            another dialect).

    """

    refusal: Note | None = None
    checked_after: tuple[Note, ...] = ()
    ignored: tuple[Note, ...] = ()

    def to_json(self) -> bytes:
        """Return the stored text; empty where there is nothing to say."""
        if self == ArgumentNotes():
            return b""
        record = {
            "refusal": None if self.refusal is None else asdict(self.refusal),
            "checked_after": [asdict(note) for note in self.checked_after],
            "ignored": [asdict(note) for note in self.ignored],
        }
        return json.dumps(record, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> ArgumentNotes:
        """Read back what `to_json` wrote.

        Raises:
            ArtifactError: it is something else.

        """
        if not text:
            return cls()
        try:
            record = json.loads(text)
            refusal = record["refusal"]
            return cls(
                None if refusal is None else Note(**refusal),
                tuple(Note(**note) for note in record["checked_after"]),
                tuple(Note(**note) for note in record["ignored"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"a stored note on arguments is malformed ({error}); compile again"
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class CatalogArguments:
    """The compiled arguments of tools in order.

    Attributes:
        arrays: the tables of `docs/arguments.md`, `roots` among them.
        notes: one for each tool.

    """

    arrays: Arrays
    notes: tuple[ArgumentNotes, ...]


class KnownArguments:
    """What an earlier compilation made of definitions that have not changed."""

    def __init__(
        self,
        digests: npt.NDArray[np.uint8],
        arrays: Mapping[str, npt.NDArray[np.generic]],
        notes: Sequence[bytes],
    ) -> None:
        """Index it.

        Args:
            digests: (tools, 32) uint8, of each definition.
            arrays: its tables.
            notes: the stored text of each tool's notes.

        """
        self._places = {bytes(row): place for place, row in enumerate(digests)}
        self._arrays = arrays
        self._notes = notes

    def find(self, digest: bytes) -> tuple[ArgumentGrammar | None, ArgumentNotes] | None:
        """Return the grammar and notes of a definition, or None where it is new."""
        place = self._places.get(digest)
        if place is None:
            return None
        root = int(self._arrays["roots"][place])
        grammar = None if root == NONE else grammar_at(self._arrays, root)
        return grammar, ArgumentNotes.from_json(self._notes[place])


def compile_arguments(
    tools: Sequence[Tool],
    digests: npt.NDArray[np.uint8],
    known: KnownArguments | None = None,
) -> CatalogArguments:
    """Compile the input schemas of tools.

    Args:
        tools: in the catalog's order.
        digests: (tools, 32) uint8, of each definition.
        known: an earlier compilation; it saves time and changes nothing.

    """
    pool = ArgumentPool()
    roots, notes = [], []
    for tool, digest in zip(tools, map(bytes, digests), strict=True):
        found = None if known is None else known.find(digest)
        grammar, own = found or _compile(tool)
        roots.append(NONE if grammar is None else pool.add(grammar))
        notes.append(own)
    arrays = {"roots": np.array(roots, np.int32).reshape(len(roots)), **pool.to_arrays()}
    return CatalogArguments(arrays, tuple(notes))


def argument_findings(tools: Sequence[Tool], notes: Sequence[ArgumentNotes]) -> list[Diagnostic]:
    """Return what the catalog's owner is to be told of the tools' arguments."""
    told = []
    for tool, own in zip(tools, notes, strict=True):
        # A catalog without schemas would be told so a thousand times; `catalog show` says it.
        if own.refusal is not None and own.refusal.code != UNKNOWN:
            told.append(_finding(findings.ARGUMENTS_REFUSED, tool, own.refusal))
        told += [_finding(findings.CHECKED_AFTER, tool, note) for note in own.checked_after]
        told += [_finding(findings.NOT_ENFORCED, tool, note) for note in own.ignored]
    return told


def _compile(tool: Tool) -> tuple[ArgumentGrammar | None, ArgumentNotes]:
    if not tool.input_schema:
        refusal = Note(
            code=UNKNOWN,
            pointer="",
            message="the tool has no input schema",
            mend="give it one; an object without properties where it takes no arguments",
        )
        return None, ArgumentNotes(refusal)
    try:
        compiled = compile_schema(tool.input_schema, root_object=True, close_objects=True)
    except Exception as error:  # noqa: BLE001  (a fault of ours in one schema is not the catalog's)
        refusal = Note(
            code=FAULT,
            pointer="",
            message=f"the compiler failed on its input schema, {type(error).__name__}: {error}",
            mend="report it with the schema; the tool is routed, without arguments",
        )
        return None, ArgumentNotes(refusal)
    return compiled.grammar, ArgumentNotes(compiled.refusal, compiled.checked_after, compiled.notes)


def _finding(kind: findings.Finding, tool: Tool, note: Note) -> Diagnostic:
    place = f"at {note.pointer} of the input schema: " if note.pointer else ""
    message = f"{place}{note.message} ({note.code}): {note.mend}"
    return kind.at(tool.source, tool.pointer, message[:400], tool=tool.name)
