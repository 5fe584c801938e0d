"""What a model is made of. Owns `ModelConfig`; never reads a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder.errors import UnsupportedModelError
from decoder.kernels.base import HeadShape

if TYPE_CHECKING:
    from decoder.rope_scaling import RopeScaling

ARCHITECTURES = ("llama", "qwen2", "qwen3")
MOST_LAYERS = 1000
"""More is a damaged file, not a model."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Geometry and constants of a decoder-only transformer.

    Attributes:
        architecture: one of `ARCHITECTURES`.
        vocab_size: rows of the embedding table.
        hidden_size: width of the residual stream; a multiple of 8.
        layers: number of blocks.
        heads: query heads.
        kv_heads: key and value heads; divides `heads`.
        head_dim: size of one head; even.
        intermediate_size: width of the feed-forward; a multiple of 8.
        rms_eps: epsilon of RMSNorm.
        rope_theta: base of the rotary frequencies.
        context_length: most positions the model was made for.
        tied_head: the output head is the embedding table.
        rope_scaling: how rotary frequencies differ from theta's own, or None.

    """

    architecture: str
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    rms_eps: float
    rope_theta: float
    context_length: int
    tied_head: bool
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        """Refuse what the engine does not compute, naming the key."""
        if self.architecture not in ARCHITECTURES:
            raise UnsupportedModelError(
                f"architecture {self.architecture!r} is not supported; known: "
                f"{', '.join(ARCHITECTURES)}"
            )
        for key in (
            *("vocab_size", "hidden_size", "layers", "heads", "kv_heads", "head_dim"),
            *("intermediate_size", "context_length"),
        ):
            if getattr(self, key) < 1:
                raise UnsupportedModelError(f"{key} is {getattr(self, key)}; it must be positive")
        if self.layers > MOST_LAYERS:
            raise UnsupportedModelError(f"layers is {self.layers}; at most {MOST_LAYERS} are read")
        if self.heads % self.kv_heads:
            raise UnsupportedModelError(
                f"heads ({self.heads}) is not a multiple of kv_heads ({self.kv_heads})"
            )
        if self.head_dim % 2:
            raise UnsupportedModelError(f"head_dim is {self.head_dim}; rotary needs it even")
        for key in ("rms_eps", "rope_theta"):
            value = getattr(self, key)
            if not (math.isfinite(value) and value > 0):
                raise UnsupportedModelError(f"{key} is {value}; it must be positive")
        for key in ("hidden_size", "intermediate_size"):
            if getattr(self, key) % 8:
                raise UnsupportedModelError(
                    f"{key} is {getattr(self, key)}; exact products need a multiple of 8"
                )

    @property
    def head_shape(self) -> HeadShape:
        """The attention geometry as kernels take it."""
        return HeadShape(self.heads, self.kv_heads, self.head_dim)
