"""Reading a GGUF file through the `gguf` package.

Owns the mapping of GGUF keys and tensor names to ours, and undoes the row permutation that
llama-architecture files have on Q and K (their rotary pairs are interleaved; ours are split).
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np

from decoder.cache import cache_dir, read_record, write_record
from decoder.config import ARCHITECTURES, ModelConfig
from decoder.errors import ModelError, UnsupportedModelError
from decoder.loading.checkpoint import Checkpoint, digest_files
from decoder.loading.settings import Settings, naming
from decoder.rope_scaling import RopeScaling, yarn_attention_factor
from decoder.weights import tensor_shapes

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.kernels.base import F32

_LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
_MODEL_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


_ROPE_FACTORS = "rope_freqs.weight"

CONFIG_VERSION = 3
"""Raise it whenever other keys are read or refused, so that old entries are left alone."""


def open_gguf(path: Path) -> gguf.GGUFReader:
    """Open a GGUF file. Raises ModelError where it is not one, or is cut short."""
    try:
        return gguf.GGUFReader(str(path))
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ModelError(f"{path} is not a whole GGUF file ({error}); fetch it again") from error


def field_value(reader: gguf.GGUFReader, key: str) -> Any:
    """Return a metadata value as plain Python, or None where the key is absent."""
    field = reader.get_field(key)
    return None if field is None else field.contents()


def read_gguf(path: Path) -> Checkpoint:
    """Read configuration and tensors. The tensors are opened when the first is asked for.

    Raises:
        ModelError: damaged or incomplete; UnsupportedModelError for what isn't computed.

    """
    digest = digest_files([path])
    cached = cache_dir("configs") / f"{digest}-{CONFIG_VERSION}.json"
    config = _cached_config(cached)
    if config is None:
        reader = open_gguf(path)
        config = _config(reader, path, tied="output.weight" not in _tensors(reader))
        with contextlib.suppress(OSError):
            write_record(cached, dataclasses.asdict(config))
    return Checkpoint(config, _TensorReader(path, config), digest, path)


class _TensorReader:
    """Gives tensors by Hugging Face name. Opens the file late: its parsing takes seconds."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        self._path = path
        self._config = config
        self._found: dict[str, Any] | None = None

    def __call__(self, name: str) -> F32 | None:
        if self._found is None:
            self._found = _tensors(open_gguf(self._path))
        found = self._found.get(_gguf_name(name))
        if found is None:
            return None
        try:
            flat = gguf.quants.dequantize(found.data, found.tensor_type)
        except (NotImplementedError, ValueError) as error:
            raise UnsupportedModelError(
                f"{self._path}: tensor {found.name} has type {found.tensor_type.name}, which "
                "can't be read here; convert the model to another quantisation"
            ) from error
        value: F32 = flat.reshape([int(n) for n in reversed(found.shape)]).astype(np.float32)
        config = self._config
        if config.architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.heads if name.endswith("q_proj.weight") else config.kv_heads
            value = _split_pairs(value, heads)
        return value


def _tensors(reader: gguf.GGUFReader) -> dict[str, Any]:
    return {tensor.name: tensor for tensor in reader.tensors}


def _cached_config(path: Path) -> ModelConfig | None:
    raw = read_record(path)
    if raw is None:
        return None
    try:
        if raw["rope_scaling"] is not None:
            factors = tuple(raw["rope_scaling"].pop("factors"))
            raw["rope_scaling"] = RopeScaling(**raw["rope_scaling"], factors=factors)
        return ModelConfig(**raw)
    except (ValueError, TypeError, KeyError, AttributeError, ModelError):
        return None


def _gguf_name(name: str) -> str:
    if name in _MODEL_NAMES:
        return _MODEL_NAMES[name]
    _, _, index, rest = name.split(".", 3)
    return f"blk.{index}.{_LAYER_NAMES[rest]}"


def _split_pairs(weight: F32, heads: int) -> F32:
    """Turn interleaved rotary pairs (0,1),(2,3).. of each head into halves, as Hugging Face has."""
    out, width = weight.shape
    pairs = weight.reshape(heads, out // heads // 2, 2, width)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(out, width))


_COMPUTED_KEYS = frozenset({
    *("block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size"),
    *("attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon"),
    *("attention.key_length", "attention.value_length", "rope.freq_base", "rope.dimension_count"),
    *("rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"),
    *("rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"),
    *("rope.scaling.yarn_attn_factor", "rope.scaling.finetuned"),
})  # fmt: skip
_MUST_BE: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.sliding_window": (0,),
    "attention.scale": (0.0,),
    "logit_scale": (0.0, 1.0),
    "embedding_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "use_parallel_residual": (False,),
    "rope.scaling.yarn_ext_factor": (-1.0, 1.0),
    "rope.scaling.yarn_log_multiplier": (0.0,),
}
"""Keys that are harmless at these values alone."""


def _config(reader: gguf.GGUFReader, path: Path, *, tied: bool) -> ModelConfig:
    architecture = str(field_value(reader, "general.architecture"))
    if architecture not in ARCHITECTURES:
        raise UnsupportedModelError(
            f"{path}: general.architecture is {architecture!r}; known: {', '.join(ARCHITECTURES)}"
        )
    start = architecture + "."
    values = {
        key.removeprefix(start): field_value(reader, key)
        for key in reader.fields
        if key.startswith(start)
    }
    for key, value in values.items():
        if key in _MUST_BE and value not in _MUST_BE[key]:
            raise UnsupportedModelError(f"{path}: {start}{key} is {value!r}, not computed here")
    read = Settings(values, f"{path}, {architecture}")
    read.only(set(_COMPUTED_KEYS | _MUST_BE.keys()))
    heads = read.whole("attention.head_count")
    if values.get("attention.key_length") is None:
        head_dim = read.shared("embedding_length", "attention.head_count")
    else:
        head_dim = read.whole("attention.key_length")
    for key in ("attention.value_length", "rope.dimension_count"):
        if read.whole(key, head_dim) != head_dim:
            raise UnsupportedModelError(
                f"{path}: {start}{key} is {values[key]} and a head has {head_dim} dimensions, "
                "which isn't computed here"
            )
    tokens = reader.get_field("tokenizer.ggml.tokens")
    if tokens is None:
        raise ModelError(f"{path} has no tokenizer (tokenizer.ggml.tokens)")
    with naming(path):
        config = ModelConfig(
            architecture=architecture,
            vocab_size=len(tokens.data),
            hidden_size=read.whole("embedding_length"),
            layers=read.whole("block_count"),
            heads=heads,
            kv_heads=read.whole("attention.head_count_kv", heads),
            head_dim=head_dim,
            intermediate_size=read.whole("feed_forward_length"),
            rms_eps=read.number("attention.layer_norm_rms_epsilon"),
            rope_theta=read.number("rope.freq_base", 10000.0),
            context_length=read.whole("context_length"),
            tied_head=tied,
            rope_scaling=_rope_scaling(reader, read),
        )
    known = {_gguf_name(name) for name in tensor_shapes(config)} | {_ROPE_FACTORS}
    for tensor in reader.tensors:
        if tensor.name not in known:
            raise UnsupportedModelError(
                f"{path}: tensor {tensor.name} is not part of a {architecture} model as computed "
                "here and might change the result"
            )
    return config


def _rope_scaling(reader: gguf.GGUFReader, read: Settings) -> RopeScaling | None:
    kind = read.values.get("rope.scaling.type") or "none"
    found = _tensors(reader).get(_ROPE_FACTORS)
    if found is not None:
        if kind != "none":
            raise UnsupportedModelError(
                f"{read.source}: both {_ROPE_FACTORS} and rope.scaling.type {kind!r}, which is not "
                "computed here"
            )
        if found.tensor_type != gguf.GGMLQuantizationType.F32:
            raise UnsupportedModelError(
                f"{read.source}: {_ROPE_FACTORS} has type {found.tensor_type.name}; it must be F32"
            )
        return RopeScaling("factors", factors=tuple(float(f) for f in found.data.ravel()))
    if kind == "none":
        return None
    if kind not in ("linear", "yarn"):
        raise UnsupportedModelError(
            f"{read.source}: rope.scaling.type is {kind!r}, which is not computed here"
        )
    factor = read.number("rope.scaling.factor")
    if kind == "linear":
        return RopeScaling(kind, factor)
    own = read.number("rope.scaling.yarn_attn_factor", read.number("rope.scaling.attn_factor", 1.0))
    return RopeScaling(
        kind,
        factor,
        read.whole("rope.scaling.original_context_length"),
        beta_fast=read.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=read.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=yarn_attention_factor(factor) * own,
    )
