"""What a reader yields: tools as their source spelt them, before names are settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_compiler.model import Diagnostic, Json


@dataclass(frozen=True, slots=True)
class RawTool:
    """One tool as read: the name is text, the rest is not judged yet.

    Attributes:
        name: as the source spelt it.
        namespace: server or API; "" where the source has none.
        description: as given, "" where there is none.
        schema: the input schema as given, None where there is none.
        source, pointer: where it was read.
        schema_key: the entry's key that holds the schema; "" where it was put together from parts.

    """

    name: str
    namespace: str
    description: str
    schema: Json
    source: str
    pointer: str
    title: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    schema_key: str = ""


@dataclass(slots=True)
class Reading:
    """What came out of one or more sources: tools and findings, in the order they were read."""

    tools: list[RawTool] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def absorb(self, other: Reading) -> None:
        """Add another reading's tools and findings."""
        self.tools += other.tools
        self.diagnostics += other.diagnostics
