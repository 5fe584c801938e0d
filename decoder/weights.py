"""Weights as the kernels take them: int8 per output channel (NUMERICS.md section 1).

Owns quantisation and the packing of layers (q, k, v stacked; gate, up stacked). Never reads files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decoder.errors import ModelError
from decoder.kernels.base import F32, QuantisedWeight

if TYPE_CHECKING:
    from decoder.config import ModelConfig

WEIGHT_QMAX = 127

TensorSource = Callable[[str], F32 | None]
"""Gives a tensor by its Hugging Face name as f32, or None where the checkpoint has none."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One block. `qkv` stacks q, k, v by rows; `gate_up` stacks gate and up by rows."""

    attention_norm: F32
    qkv: QuantisedWeight
    qkv_bias: F32 | None
    q_norm: F32 | None
    k_norm: F32 | None
    output: QuantisedWeight
    ffn_norm: F32
    gate_up: QuantisedWeight
    down: QuantisedWeight


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """A whole model. `head` is `embedding` itself where the two are tied."""

    embedding: QuantisedWeight
    layers: tuple[LayerWeights, ...]
    final_norm: F32
    head: QuantisedWeight


def quantise_weight(weight: F32) -> QuantisedWeight:
    """Quantise (out, in) f32 to int8 with one scale a row: scale = amax/127, half to even."""
    amax = np.abs(weight).max(axis=1)
    scale = (amax / np.float32(WEIGHT_QMAX)).astype(np.float32)
    inverse = np.where(scale > 0, np.float32(1) / np.where(scale > 0, scale, 1), 0)
    q = np.rint(weight * inverse.astype(np.float32)[:, None])
    values = np.clip(q, -WEIGHT_QMAX, WEIGHT_QMAX).astype(np.int8)
    return QuantisedWeight(np.ascontiguousarray(values), scale)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the Hugging Face name and shape of every tensor that `pack_weights` asks for."""
    hidden, width, d = config.hidden_size, config.intermediate_size, config.head_dim
    q_rows, kv_rows = config.heads * d, config.kv_heads * d
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (q_rows, hidden),
        "self_attn.k_proj.weight": (kv_rows, hidden),
        "self_attn.v_proj.weight": (kv_rows, hidden),
        "self_attn.o_proj.weight": (hidden, q_rows),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (width, hidden),
        "mlp.up_proj.weight": (width, hidden),
        "mlp.down_proj.weight": (hidden, width),
    }
    if config.architecture == "qwen2":
        rows = {"q": q_rows, "k": kv_rows, "v": kv_rows}
        layer |= {f"self_attn.{part}_proj.bias": (n,) for part, n in rows.items()}
    if config.architecture == "qwen3":
        layer |= {f"self_attn.{part}_norm.weight": (d,) for part in "qk"}
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tied_head:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    for index in range(config.layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    return shapes


def pack_weights(config: ModelConfig, tensor: TensorSource) -> ModelWeights:
    """Quantise and pack every tensor of a model.

    Raises:
        ModelError: a tensor is missing, misshapen or not finite; the message names it.

    """
    shapes = tensor_shapes(config)

    def take(name: str) -> F32:
        value, shape = tensor(name), shapes[name]
        if value is None:
            raise ModelError(f"tensor {name} is missing from the checkpoint; is it complete?")
        if value.shape != shape:
            raise ModelError(f"tensor {name} has shape {value.shape}, expected {shape}")
        if not np.isfinite(value).all():
            raise ModelError(f"tensor {name} holds NaN or infinity; the checkpoint is damaged")
        return np.ascontiguousarray(value, dtype=np.float32)

    def layer(index: int) -> LayerWeights:
        at = f"model.layers.{index}."
        attention = at + "self_attn."
        bias = None
        if config.architecture == "qwen2":
            bias = np.concatenate([take(f"{attention}{p}_proj.bias") for p in "qkv"])
        has_qk_norm = config.architecture == "qwen3"
        return LayerWeights(
            attention_norm=take(at + "input_layernorm.weight"),
            qkv=quantise_weight(
                np.concatenate([take(f"{attention}{p}_proj.weight") for p in "qkv"])
            ),
            qkv_bias=bias,
            q_norm=take(attention + "q_norm.weight") if has_qk_norm else None,
            k_norm=take(attention + "k_norm.weight") if has_qk_norm else None,
            output=quantise_weight(take(attention + "o_proj.weight")),
            ffn_norm=take(at + "post_attention_layernorm.weight"),
            gate_up=quantise_weight(
                np.concatenate([take(f"{at}mlp.{p}_proj.weight") for p in ("gate", "up")])
            ),
            down=quantise_weight(take(at + "mlp.down_proj.weight")),
        )

    embedding = quantise_weight(take("model.embed_tokens.weight"))
    head = embedding if config.tied_head else quantise_weight(take("lm_head.weight"))
    return ModelWeights(
        embedding=embedding,
        layers=tuple(layer(i) for i in range(config.layers)),
        final_norm=take("model.norm.weight"),
        head=head,
    )
