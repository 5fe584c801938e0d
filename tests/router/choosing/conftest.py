"""A small catalog of our own, an encoder that needs no weights, and a byte tokenizer."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from catalog_compiler.model import Tool
from router.retrieval.words import terms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class WordEmbedder:
    """Unit vectors from hashed words: texts that share words are close. Counts what it embeds."""

    def __init__(self, dimensions: int = 48) -> None:
        self.dimensions = dimensions
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Sum a fixed random vector for each term."""
        self.embedded += texts
        rows = np.zeros((len(texts), self.dimensions))
        rows[:, 0] = 1e-3
        for index, text in enumerate(texts):
            for term in terms_of(text):
                seed = int.from_bytes(hashlib.sha256(term.encode()).digest()[:8], "big")
                rows[index] += np.random.default_rng(seed).standard_normal(self.dimensions)
        rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return rows.astype(np.float32)

    def dots(
        self, rows: npt.NDArray[np.int16], row: npt.NDArray[np.int16]
    ) -> npt.NDArray[np.int32]:
        """Multiply in whole numbers."""
        product: npt.NDArray[np.int32] = rows.astype(np.int32) @ row.astype(np.int32)
        return product


def make_tool(name: str, description: str = "", **fields: object) -> Tool:
    """Make a tool of one source name."""
    return Tool(name=name, source_name=name, description=description, **fields)  # type: ignore[arg-type]


CATALOG = tuple(
    sorted(
        (
            make_tool(
                "kettle_boil",
                "Boils water in the kitchen kettle. Not for soup.",
                namespace="kitchen",
                tags=("heat",),
                input_schema={
                    "type": "object",
                    "properties": {
                        "litres": {"type": "number", "description": "How much water"},
                        "colour": {"enum": ["turquoise", "red"]},
                    },
                },
            ),
            make_tool("kettle_stop", "Stops the kettle.", namespace="kitchen", tags=("cold",)),
            make_tool("lampSwitchOn", "Turns on a lamp in any room.", namespace="house"),
            make_tool("lampSwitchOff", "Turns off a lamp in any room.", namespace="house"),
            make_tool("search", "Finds a book in the library.", namespace="library"),
            make_tool(
                "garden.water-beds",
                "Waters the flower beds for some minutes.",
                namespace="garden",
                aliases=("irrigate_beds",),
                tags=("cold", "outdoor"),
            ),
            make_tool("天气查询", "查询城市的天气。", namespace="weather"),
            make_tool("Straße öffnen", "Opens a street to traffic.", namespace="town"),
        ),
        key=lambda tool: tool.name,
    )
)


@pytest.fixture
def tools() -> tuple[Tool, ...]:
    """Return the small catalog."""
    return CATALOG


@pytest.fixture
def index_of(tools: tuple[Tool, ...]) -> dict[str, int]:
    """Return the index of every name."""
    return {tool.name: index for index, tool in enumerate(tools)}


@pytest.fixture
def embedder() -> WordEmbedder:
    """Return an encoder without weights."""
    return WordEmbedder()


def make_byte_tokenizer() -> Tokenizer:
    """Make a tokenizer: a token a byte, two special tokens, one added token that is not."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return tokenizer
