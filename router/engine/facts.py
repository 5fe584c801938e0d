"""What the engine tells the service, as plain values of built-in types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.jobs import RankedTools


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """One opened catalog.

    Attributes:
        digest: its identity, hex.
        path: the compiled file it was opened from.
        tool_count: how many tools.
        definition_tokens: tokens of all its definitions in an agent's prompt.

    """

    digest: str
    path: str
    tool_count: int
    definition_tokens: int


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """One tool, shortened for a list.

    Attributes:
        name: routed name.
        namespace: where it came from, or "".
        description: its first `DESCRIPTION_CHARS` characters.
        tags: labels.

    """

    name: str
    namespace: str
    description: str
    tags: tuple[str, ...]


DESCRIPTION_CHARS = 500

DEFAULT_MAX_REQUEST_TOKENS = 4096
"""Longest text by default. The model reads a request's beginning and end (`PromptConfig`), and
retrieval the whole; a text much longer than this is more likely a mistake than a request."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine says when it is ready.

    Attributes:
        model_digest: digest of the model's files, hex.
        catalogs: those opened at the start, in the order asked for.
        slot_tokens: tokens of KV memory that each slot stands for.
        probe_s: seconds that one request took, alone.

    """

    model_digest: str
    catalogs: tuple[CatalogFacts, ...]
    slot_tokens: int
    probe_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A job's answer with what only the engine can measure.

    Attributes:
        ranked: the answer.
        offered_tokens: tokens that the allowed tools' definitions take in an agent's prompt.
        model_s: seconds from the end of preparation to the end of the walk.

    """

    ranked: RankedTools
    offered_tokens: int
    model_s: float


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How an engine is started.

    Attributes:
        model: model file or folder; "" is the embedded model.
        catalogs: compiled files to open, in order.
        slots: jobs alive at once.
        threads: cores its kernels may use.
        max_request_tokens: most tokens of a request's text and of the turn before it, each.
        arguments: whether it decodes arguments; without, it holds nothing for them.

    """

    model: str
    catalogs: tuple[str, ...]
    slots: int
    threads: int
    max_request_tokens: int = DEFAULT_MAX_REQUEST_TOKENS
    arguments: bool = True

    def __post_init__(self) -> None:
        """Refuse numbers below 1."""
        for field_name in ("slots", "threads", "max_request_tokens"):
            if getattr(self, field_name) < 1:
                raise ValueError(f"EngineConfig.{field_name} must be at least 1")
