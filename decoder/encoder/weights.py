"""The weights of a BERT sentence encoder, read from a sentence-transformers directory.

Owns the reading and the refusal of what isn't computed. Never embeds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from decoder.errors import ModelError, UnsupportedModelError
from decoder.kernels.base import F32, HeadShape, QuantisedWeight
from decoder.loading.tensors import read_tensor, tensor_names
from decoder.weights import quantise_weight

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """Geometry of the encoder.

    Attributes:
        hidden_size: width, also of the embedding it gives.
        layers: number of blocks.
        heads: attention heads.
        intermediate_size: width of the feed-forward.
        norm_eps: epsilon of LayerNorm.
        max_tokens: longest text read, special tokens included; the rest is cut off.

    """

    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    norm_eps: float
    max_tokens: int

    @property
    def head_shape(self) -> HeadShape:
        """The attention geometry as kernels take it: every head has its own keys and values."""
        return HeadShape(self.heads, self.heads, self.hidden_size // self.heads)


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """One block: int8 weights with their biases, and the two LayerNorms."""

    qkv: QuantisedWeight
    qkv_bias: F32
    output: QuantisedWeight
    output_bias: F32
    attention_norm: tuple[F32, F32]
    up: QuantisedWeight
    up_bias: F32
    down: QuantisedWeight
    down_bias: F32
    ffn_norm: tuple[F32, F32]


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """A whole encoder. `words` is (vocab, hidden) f32; `positions` already holds token type 0."""

    words: F32
    positions: F32
    embedding_norm: tuple[F32, F32]
    layers: tuple[EncoderLayer, ...]


def read_config(path: Path) -> EncoderConfig:
    """Read config.json, the pooling and the length limit of a sentence-transformers directory.

    Raises:
        ModelError: missing or damaged; UnsupportedModelError for another kind of encoder.

    """
    raw = _json(path / "config.json")
    required = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
    }
    for key, value in required.items():
        if raw.get(key, value) != value:
            raise UnsupportedModelError(
                f"{path / 'config.json'}: {key} is {raw[key]!r}; the encoder computes {value!r}"
            )
    pooling = _json(path / "1_Pooling" / "config.json")
    modes = sorted(k for k, v in pooling.items() if k.startswith("pooling_mode") and v is True)
    if modes != ["pooling_mode_mean_tokens"]:
        raise UnsupportedModelError(
            f"{path / '1_Pooling'}: pooling is {modes}; the encoder takes the mean of tokens"
        )
    limit = int(_json(path / "sentence_bert_config.json").get("max_seq_length", 256))
    try:
        return EncoderConfig(
            hidden_size=int(raw["hidden_size"]),
            layers=int(raw["num_hidden_layers"]),
            heads=int(raw["num_attention_heads"]),
            intermediate_size=int(raw["intermediate_size"]),
            norm_eps=float(raw["layer_norm_eps"]),
            max_tokens=min(limit, int(raw["max_position_embeddings"])),
        )
    except KeyError as error:
        raise ModelError(f"{path / 'config.json'} has no key {error}") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {error}; give a sentence encoder's whole directory") from error
    return value


def read_weights(path: Path, config: EncoderConfig) -> EncoderWeights:
    """Read and quantise model.safetensors. Raises ModelError naming what is wrong."""
    file = path / "model.safetensors"
    try:
        names = frozenset(tensor_names(file))
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{file} is not a whole safetensors file ({error})") from error

    def take(name: str) -> F32:
        for key in (name, f"bert.{name}"):
            if key in names:
                value = read_tensor(file, key)
                if not np.isfinite(value).all():
                    raise ModelError(f"{file}: {key} holds NaN or infinity")
                return value
        raise ModelError(f"{file} has no tensor {name}")

    def norm(name: str) -> tuple[F32, F32]:
        return take(name + ".weight"), take(name + ".bias")

    def layer(index: int) -> EncoderLayer:
        at = f"encoder.layer.{index}."
        attention = at + "attention.self."
        parts = ("query", "key", "value")
        stacked = np.concatenate([take(f"{attention}{p}.weight") for p in parts])
        return EncoderLayer(
            qkv=quantise_weight(stacked),
            qkv_bias=np.concatenate([take(f"{attention}{p}.bias") for p in parts]),
            output=quantise_weight(take(at + "attention.output.dense.weight")),
            output_bias=take(at + "attention.output.dense.bias"),
            attention_norm=norm(at + "attention.output.LayerNorm"),
            up=quantise_weight(take(at + "intermediate.dense.weight")),
            up_bias=take(at + "intermediate.dense.bias"),
            down=quantise_weight(take(at + "output.dense.weight")),
            down_bias=take(at + "output.dense.bias"),
            ffn_norm=norm(at + "output.LayerNorm"),
        )

    positions = take("embeddings.position_embeddings.weight")
    kind = take("embeddings.token_type_embeddings.weight")[0]
    return EncoderWeights(
        words=take("embeddings.word_embeddings.weight"),
        positions=positions + kind,
        embedding_norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(i) for i in range(config.layers)),
    )
