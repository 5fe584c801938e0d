"""Small random models that need no weights file, and a way to run rows by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from decoder.config import ModelConfig
from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.rotary import rotary_tables
from decoder.transformer import Transformer
from decoder.weights import pack_weights

if TYPE_CHECKING:
    from decoder.kernels.base import F32

MakeModel = Callable[..., Transformer]


def small_config(architecture: str = "llama", **changes: object) -> ModelConfig:
    """A model of two layers with grouped heads, and a head size that is not hidden/heads."""
    values: dict[str, object] = {
        "architecture": architecture,
        "vocab_size": 97,
        "hidden_size": 48,
        "layers": 2,
        "heads": 6,
        "kv_heads": 2,
        "head_dim": 16,
        "intermediate_size": 80,
        "rms_eps": 1e-5,
        "rope_theta": 10000.0,
        "context_length": 512,
        "tied_head": True,
    }
    return ModelConfig(**{**values, **changes})  # type: ignore[arg-type]


def random_tensors(config: ModelConfig, seed: int = 7) -> dict[str, F32]:
    """Every tensor of a checkpoint, drawn from a seeded generator."""
    rng = np.random.default_rng(seed)
    hidden, d, width = config.hidden_size, config.head_dim, config.intermediate_size

    def draw(*shape: int) -> F32:
        return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": draw(config.vocab_size, hidden) * np.float32(4),
        "model.norm.weight": (1 + 0.1 * draw(hidden)).astype(np.float32),
    }
    if not config.tied_head:
        tensors["lm_head.weight"] = draw(config.vocab_size, hidden)
    for i in range(config.layers):
        at = f"model.layers.{i}."
        shapes = {
            "self_attn.q_proj.weight": (config.heads * d, hidden),
            "self_attn.k_proj.weight": (config.kv_heads * d, hidden),
            "self_attn.v_proj.weight": (config.kv_heads * d, hidden),
            "self_attn.o_proj.weight": (hidden, config.heads * d),
            "mlp.gate_proj.weight": (width, hidden),
            "mlp.up_proj.weight": (width, hidden),
            "mlp.down_proj.weight": (hidden, width),
        }
        tensors |= {at + name: draw(*shape) for name, shape in shapes.items()}
        for name in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            tensors[at + name] = (1 + 0.1 * draw(hidden)).astype(np.float32)
        if config.architecture == "qwen2":
            for part, heads in (
                ("q", config.heads),
                ("k", config.kv_heads),
                ("v", config.kv_heads),
            ):
                tensors[f"{at}self_attn.{part}_proj.bias"] = draw(heads * d)
        if config.architecture == "qwen3":
            for part in ("q", "k"):
                norm = (1 + 0.1 * draw(d)).astype(np.float32)
                tensors[f"{at}self_attn.{part}_norm.weight"] = norm
    return tensors


@pytest.fixture
def make_model() -> MakeModel:
    """Return a maker of small random models: (config, kernels, threads) -> Transformer."""

    def make(
        config: ModelConfig | None = None, *, kernels: str = "native", threads: int = 1
    ) -> Transformer:
        chosen = config or small_config()
        weights = pack_weights(chosen, random_tensors(chosen).get)
        rotary = rotary_tables(chosen.context_length, chosen.head_dim, chosen.rope_theta)
        return make_transformer(chosen, weights, make_kernels(kernels, threads=threads), rotary)

    return make
