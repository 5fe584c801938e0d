"""How much the compiler reads of what it is given. Owns the bounds; never enforces them itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on an input. What passes one is reported with its pointer, never silently cut.

    Attributes:
        file_bytes: largest file or server answer that is read.
        yaml_chars: largest YAML document, which takes far longer to read than JSON.
        depth: deepest nesting of JSON or YAML; a deeper value is left out, the rest is kept.
        tools: most tools from one source.
        name_chars: longest name of a tool.
        description_chars: longest description kept; the rest is left out with a warning.
        routed_chars: a description longer than this is reported, since routing reads its start.
        schema_bytes: largest input schema kept, as JSON.
        schema_nodes: most values of a schema that are checked.
        pages: most pages of a live server's list.

    """

    file_bytes: int = 256 << 20
    yaml_chars: int = 16 << 20
    depth: int = 96
    tools: int = 200_000
    name_chars: int = 512
    description_chars: int = 65_536
    routed_chars: int = 4_096
    schema_bytes: int = 1 << 20
    schema_nodes: int = 20_000
    pages: int = 1_000

    def __post_init__(self) -> None:
        """Refuse a bound that lets nothing through."""
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"Limits.{name} is {getattr(self, name)}; give at least 1")
