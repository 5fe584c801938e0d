"""Reading a GGUF file through the `gguf` package.

Owns the mapping of GGUF keys and tensor names to ours, and undoes the row permutation that
llama-architecture files have on Q and K (their rotary pairs are interleaved; ours are split).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np

from decoder.cache import cache_dir, write_whole
from decoder.config import ModelConfig
from decoder.errors import ModelError, UnsupportedModelError
from decoder.loading.checkpoint import Checkpoint, digest_files

if TYPE_CHECKING:
    from collections.abc import Callable
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
    cached = cache_dir("configs") / f"{digest}.json"
    config = _cached_config(cached)
    if config is None:
        reader = open_gguf(path)
        config = _config(reader, path, tied="output.weight" not in _tensors(reader))
        with contextlib.suppress(OSError):
            write_whole(cached, json.dumps(dataclasses.asdict(config)).encode())
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
    try:
        return ModelConfig(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
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


def _config(reader: gguf.GGUFReader, path: Path, *, tied: bool) -> ModelConfig:
    architecture = field_value(reader, "general.architecture")

    def need(key: str, kind: Callable[[Any], Any]) -> Any:
        value = field_value(reader, f"{architecture}.{key}")
        if value is None:
            raise ModelError(f"{path} has no key {architecture}.{key}; is it a language model?")
        return kind(value)

    scaling = field_value(reader, f"{architecture}.rope.scaling.type")
    if scaling not in (None, "none"):
        raise UnsupportedModelError(
            f"{path}: {architecture}.rope.scaling.type is {scaling!r}, which is not computed here"
        )
    if "rope_freqs.weight" in {t.name for t in reader.tensors}:
        raise UnsupportedModelError(
            f"{path}: it scales rotary frequencies (rope_freqs.weight), which is not computed here"
        )
    heads, hidden = need("attention.head_count", int), need("embedding_length", int)
    head_dim = field_value(reader, f"{architecture}.attention.key_length") or hidden // heads
    rotary = field_value(reader, f"{architecture}.rope.dimension_count")
    if rotary is not None and int(rotary) != int(head_dim):
        raise UnsupportedModelError(
            f"{path}: only {rotary} of {head_dim} dimensions are rotated, which isn't computed here"
        )
    tokens = reader.get_field("tokenizer.ggml.tokens")
    if tokens is None:
        raise ModelError(f"{path} has no tokenizer (tokenizer.ggml.tokens)")
    kv_heads = field_value(reader, f"{architecture}.attention.head_count_kv")
    theta = field_value(reader, f"{architecture}.rope.freq_base")
    return ModelConfig(
        architecture=str(architecture),
        vocab_size=len(tokens.data),
        hidden_size=hidden,
        layers=need("block_count", int),
        heads=heads,
        kv_heads=int(kv_heads if kv_heads is not None else heads),
        head_dim=int(head_dim),
        intermediate_size=need("feed_forward_length", int),
        rms_eps=need("attention.layer_norm_rms_epsilon", float),
        rope_theta=float(theta if theta is not None else 10000.0),
        context_length=need("context_length", int),
        tied_head=tied,
    )
