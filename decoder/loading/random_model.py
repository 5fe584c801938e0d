"""Models of any shape with random weights: for speed and for tests, where no weights are at hand.

Owns the drawing of tensors. What such a model says means nothing, and what it costs is what a
trained one of its shape costs.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from decoder.config import ModelConfig
from decoder.loading.checkpoint import Checkpoint
from decoder.weights import tensor_shapes

if TYPE_CHECKING:
    from decoder.kernels.base import F32

QWEN3_0_6B = ModelConfig(
    architecture="qwen3",
    vocab_size=151936,
    hidden_size=1024,
    layers=28,
    heads=16,
    kv_heads=8,
    head_dim=128,
    intermediate_size=3072,
    rms_eps=1e-6,
    rope_theta=1000000.0,
    context_length=40960,
    tied_head=True,
)
"""The shape of Qwen3-0.6B."""


def random_checkpoint(config: ModelConfig, seed: int = 0) -> Checkpoint:
    """Return a checkpoint whose tensors are drawn when asked for, each from the seed and its name.

    Matrices have variance 1/width, so that activations keep their size; norms are near one.
    """
    shapes = tensor_shapes(config)

    def tensor(name: str) -> F32 | None:
        shape = shapes.get(name)
        if shape is None:
            return None
        rng = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()[:8]])
        drawn = rng.standard_normal(shape, dtype=np.float32)
        if "norm" in name:
            return np.float32(1) + drawn * np.float32(0.1)
        return drawn * np.float32(shape[-1] ** -0.5)

    digest = hashlib.sha256(f"random {seed} {config}".encode()).hexdigest()
    return Checkpoint(config, tensor, digest, Path(f"random-{config.architecture}"))
