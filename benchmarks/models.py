"""The models that benchmarks run, by name.

Owns their making. Loads nothing that the decoder does not, so that a process which is measured
holds the decoder alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.loading.random_model import QWEN3_0_6B, random_checkpoint
from decoder.model import load_model
from decoder.rotary import rotary_tables
from decoder.weights import pack_weights
from router.assets import smollm2_gguf

if TYPE_CHECKING:
    from decoder.transformer import Transformer

SMOLLM2 = "smollm2"
RANDOM = "qwen3-0.6b-shape"
MODELS = (SMOLLM2, RANDOM)
RANDOM_POSITIONS = 4096


def model_called(name: str, threads: int) -> Transformer:
    """Return the embedded model, or random weights in the shape of Qwen3-0.6B."""
    if name == SMOLLM2:
        return load_model(smollm2_gguf(), threads=threads).transformer
    config = QWEN3_0_6B
    weights = pack_weights(config, random_checkpoint(config).tensor)
    rotary = rotary_tables(RANDOM_POSITIONS, config.head_dim, config.rope_theta)
    return make_transformer(config, weights, make_kernels("native", threads=threads), rotary)
