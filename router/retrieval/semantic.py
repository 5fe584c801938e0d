"""The sentence-embedding index: exact integer cosines.

Owns the text a tool is embedded by and the fixed-point rows. A row is a unit vector times
`ROW_SCALE`, rounded: every partial sum of a product of two rows fits 32 bits, so it is added in
integers, and no order of summation, thread count or subset can change a bit. Never runs the encoder
itself: an `Embedder` is handed to it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from router.retrieval.words import (
    clip_at_word,
    clip_request,
    first_sentence,
    split_words,
    well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_compiler.model import Tool

ROW_SCALE: Final = 4000
"""Length of a stored row. (ROW_SCALE + rounding)**2 < 2**24 for up to 1,000 dimensions, and by
Cauchy and Schwarz so is every partial sum of a product: far inside 32 bits."""

MAX_DIMENSIONS: Final = 1000
MAX_NAME_CHARS = 120
MAX_SENTENCE_CHARS = 320

PREFIX: Final = "semantic."
"""What the names of this index's arrays start with in a compiled catalog."""


class Multiplier(Protocol):
    """Who multiplies fixed-point rows."""

    def dots(
        self, rows: npt.NDArray[np.int16], row: npt.NDArray[np.int16]
    ) -> npt.NDArray[np.int32]:
        """Return rows (n, dim) times one row (dim,), exactly: (n,) int32."""
        ...


class Embedder(Multiplier, Protocol):
    """What the index needs of a sentence encoder."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return unit vectors (len(texts), dim) f32, each depending on its own text alone."""
        ...


def tool_text(tool: Tool) -> str:
    """Return what a tool is embedded by: the words of its name and its first sentence.

    Measured better than the whole description on every evaluation set but one, and several times
    cheaper: later sentences mostly say what the tool does *not* do, and what its neighbours do.
    """
    name = clip_at_word(" ".join(split_words(tool.name)), MAX_NAME_CHARS)
    sentence = first_sentence(tool.description, MAX_SENTENCE_CHARS)
    return well_formed(f"{name}: {sentence}" if sentence else name)


def to_rows(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Turn unit vectors (n, dim) f32 into fixed-point rows (n, dim) int16.

    Raises:
        ValueError: a row is not of unit length, or there are too many dimensions to stay exact.

    """
    if vectors.ndim != 2 or vectors.shape[1] > MAX_DIMENSIONS:
        raise ValueError(
            f"embeddings of shape {vectors.shape}: (n, at most {MAX_DIMENSIONS}) is needed"
        )
    wide = vectors.astype(np.float64)
    lengths = np.sqrt((wide * wide).sum(axis=1))
    if vectors.shape[0] and not bool(np.all(np.abs(lengths - 1) < 1e-3)):
        raise ValueError("embeddings must be unit vectors; the encoder gave others")
    scaled = wide * (ROW_SCALE / np.maximum(lengths, 1e-12))[:, None]
    rows: npt.NDArray[np.int16] = np.rint(scaled).astype(np.int16)
    return rows


def text_keys(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the first 8 bytes of the SHA-256 of each text, (n,) u64, to find rows again."""
    digests = b"".join(hashlib.sha256(text.encode(errors="replace")).digest()[:8] for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, slots=True)
class SemanticIndex:
    """One row a tool.

    Attributes:
        rows: (tools, dim) int16, see `ROW_SCALE`.
        keys: (tools,) u64 of the texts the rows were made from, for reuse at a recompile.

    """

    rows: npt.NDArray[np.int16]
    keys: npt.NDArray[np.uint64]

    def score(
        self, query_row: npt.NDArray[np.int16], multiplier: Multiplier
    ) -> npt.NDArray[np.float64]:
        """Return the exact cosine of every tool with a fixed-point query row: (tools,) f64."""
        return multiplier.dots(self.rows, query_row) / float(ROW_SCALE**2)

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the index as plain arrays for a compiled catalog (see `from_arrays`)."""
        return {PREFIX + "rows": self.rows, PREFIX + "keys": self.keys}

    @classmethod
    def from_any(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> SemanticIndex | None:
        """Read what an earlier compilation kept, of however many tools; None where it has none."""
        keys = arrays.get(PREFIX + "keys")
        return None if keys is None else cls.from_arrays(arrays, len(keys))

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[np.generic]], tool_count: int
    ) -> SemanticIndex:
        """Read back what `to_arrays` wrote.

        Raises:
            ValueError: an array is missing or has not one row a tool.

        """
        try:
            # In C order and whole bytes of this machine, whatever the file held them as.
            rows = np.ascontiguousarray(arrays[PREFIX + "rows"], dtype=np.int16)
            keys = arrays[PREFIX + "keys"].astype(np.uint64)
        except KeyError as error:
            raise ValueError(f"semantic index: array {error} is missing") from error
        if rows.ndim != 2 or len(rows) != tool_count or keys.shape != (tool_count,):
            raise ValueError("semantic index: its arrays have not one row a tool")
        return cls(rows, keys)


def build_semantic_index(
    tools: Sequence[Tool], embedder: Embedder, previous: SemanticIndex | None = None
) -> SemanticIndex:
    """Embed every tool, equal texts once.

    Rows that `previous` (which must be made by the same encoder) has for the same text are reused.
    """
    texts = [tool_text(tool) for tool in tools]
    keys = text_keys(texts)
    known: dict[int, npt.NDArray[np.int16]] = {}
    if previous is not None:
        known.update(zip(previous.keys.tolist(), previous.rows, strict=True))
    fresh = {key: text for key, text in zip(keys.tolist(), texts, strict=True) if key not in known}
    if fresh:
        made = to_rows(embedder.embed(list(fresh.values())))
        known.update(zip(fresh, made, strict=True))
    if not texts:
        return SemanticIndex(np.zeros((0, 0), dtype=np.int16), keys)
    return SemanticIndex(np.stack([known[key] for key in keys.tolist()]), keys)


def embed_request(embedder: Embedder, text: str) -> npt.NDArray[np.int16]:
    """Embed one request as a fixed-point row (dim,) int16."""
    row: npt.NDArray[np.int16] = to_rows(embedder.embed([well_formed(clip_request(text))]))[0]
    return row
