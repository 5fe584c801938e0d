"""The retrieval indices as a compiled catalog carries them.

Owns their key and the builder that the catalog compiler calls. Never reads a catalog file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from router.retrieval.semantic import SemanticIndex
from router.retrieval.shortlist import Retriever

if TYPE_CHECKING:
    from catalog_compiler.model import Tool
    from router.retrieval.semantic import Embedder

INDEX_VERSION: Final = 2
"""Raised whenever the indices of equal tools may come out otherwise than before."""

Arrays: TypeAlias = Mapping[str, npt.NDArray[np.generic]]


def extras_key(encoder_digest: str) -> str:
    """Name what the indices depend on beside the tools."""
    return f"retrieval-{INDEX_VERSION}:{encoder_digest}"


def extras_builder(embedder: Embedder) -> Callable[[tuple[Tool, ...], Arrays], Arrays]:
    """Return the builder for `compile_catalog(extras=..., extras_key=extras_key(digest))`.

    Given an earlier compilation's arrays it embeds only tools whose text is new; the result is
    the same, bit for bit.
    """

    def build(tools: tuple[Tool, ...], earlier: Arrays) -> Arrays:
        previous = SemanticIndex.from_any(earlier)
        return Retriever.build(tools, embedder, previous).to_arrays()

    return build
