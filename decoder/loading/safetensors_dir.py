"""Reading a Hugging Face directory: config.json and (sharded) safetensors.

Owns the reading of config.json: every key is known to be computed, known to be harmless, or
refused by name, so that no setting that changes the result is passed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from decoder.config import ModelConfig
from decoder.errors import ModelError, UnsupportedModelError
from decoder.loading.checkpoint import Checkpoint, digest_files
from decoder.loading.settings import Settings, naming
from decoder.loading.tensors import read_tensor, tensor_names
from decoder.rope_scaling import RopeScaling, yarn_attention_factor
from decoder.weights import tensor_shapes

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.kernels.base import F32

_COMPUTED = {
    *("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "intermediate_size", "rms_norm_eps", "rope_theta"),
    *("max_position_embeddings", "tie_word_embeddings", "rope_parameters", "rope_scaling"),
    "layer_types",
}
_HARMLESS = {
    *("architectures", "attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id"),
    *("initializer_range", "torch_dtype", "dtype", "transformers_version", "use_cache"),
    *("max_window_layers", "pretraining_tp", "is_llama_config"),
    *("transformers.js_config", "_name_or_path"),
}
_MUST_BE: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "use_sliding_window": (False,),
    "sliding_window": (None,),
    "rope_interleaved": (False,),
    "quantization_config": (None,),
}
_ATTENTION = {"full_attention"}
_QWEN3_HEAD_DIM = 128
"""What a Qwen3 configuration without head_dim means, whatever its width."""


def read_safetensors_dir(path: Path) -> Checkpoint:
    """Read configuration and tensors.

    Raises:
        ModelError: damaged or incomplete; UnsupportedModelError for what isn't computed.

    """
    config_file = path / "config.json"
    try:
        raw = json.loads(config_file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{config_file}: {error}; give a model's directory") from error
    if not isinstance(raw, dict):
        raise ModelError(f"{config_file} holds no object; give a model's directory")
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{path} has no *.safetensors; is the download complete?")
    where: dict[str, Path] = {}
    for file in files:
        try:
            where.update(dict.fromkeys(tensor_names(file), file))
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} is not a whole safetensors file ({error})") from error

    def tensor(name: str) -> F32 | None:
        file = where.get(name)
        return None if file is None else read_tensor(file, name)

    config = parse_config(raw, config_file)
    _refuse_unread(config, where)
    _refuse_unlike_head(config, where)
    return Checkpoint(config, tensor, digest_files([config_file, *files]), path)


def parse_config(raw: dict[str, Any], source: Path) -> ModelConfig:
    """Turn config.json's keys into `ModelConfig`. Raises as `read_safetensors_dir`."""
    for key, value in raw.items():
        if key in _MUST_BE:
            if value not in _MUST_BE[key] and not (key == "sliding_window" and _unused(raw)):
                raise UnsupportedModelError(f"{source}: {key} is {value!r}, not computed here")
        elif key not in _COMPUTED and key not in _HARMLESS:
            raise UnsupportedModelError(
                f"{source}: the key {key!r} is unknown here and might change the result; remove "
                "it if it does not"
            )
    read = Settings(raw, str(source))
    architecture, heads = str(raw.get("model_type")), read.whole("num_attention_heads")
    layers = read.whole("num_hidden_layers")
    kinds = raw.get("layer_types")
    if kinds is not None and not (
        isinstance(kinds, list) and len(kinds) == layers and set(map(str, kinds)) == _ATTENTION
    ):
        raise UnsupportedModelError(
            f"{source}: layer_types must be 'full_attention' for each of {layers} layers; nothing "
            "else is computed here"
        )
    with naming(source):
        return ModelConfig(
            architecture=architecture,
            vocab_size=read.whole("vocab_size"),
            hidden_size=read.whole("hidden_size"),
            layers=layers,
            heads=heads,
            kv_heads=read.whole("num_key_value_heads", heads if architecture == "llama" else None),
            head_dim=_head_dim(architecture, read),
            intermediate_size=read.whole("intermediate_size"),
            rms_eps=read.number("rms_norm_eps"),
            rope_theta=_rope_theta(raw, read),
            context_length=read.whole("max_position_embeddings"),
            tied_head=read.flag("tie_word_embeddings", default=False),
            rope_scaling=_rope_scaling(raw, read),
        )


def _unused(raw: dict[str, Any]) -> bool:
    return raw.get("use_sliding_window") is False


def _head_dim(architecture: str, read: Settings) -> int:
    if read.values.get("head_dim") is not None:
        return read.whole("head_dim")
    if architecture == "qwen3":
        return _QWEN3_HEAD_DIM
    return read.shared("hidden_size", "num_attention_heads")


def _rope(raw: dict[str, Any], read: Settings) -> Settings:
    """Return the rotary settings in either spelling. Raises ModelError where two differ."""
    given = {
        key: raw[key] for key in ("rope_parameters", "rope_scaling") if raw.get(key) is not None
    }
    for key, value in given.items():
        if not isinstance(value, dict):
            raise ModelError(f"{read.source}: {key} is {value!r}; it must be an object")
    key, value = next(iter(given.items()), ("rope_scaling", {}))
    if any(other != value for other in given.values()):
        raise ModelError(
            f"{read.source}: rope_parameters and rope_scaling differ; keep the one that is meant"
        )
    return Settings(value, f"{read.source}: {key}")


def _rope_kind(rope: Settings) -> str:
    kinds = [rope.values[key] for key in ("rope_type", "type") if rope.values.get(key) is not None]
    if any(kind != kinds[0] for kind in kinds):
        raise ModelError(
            f"{rope.source}: rope_type is {kinds[0]!r} and type is {kinds[1]!r}; keep the one that "
            "is meant"
        )
    return str(kinds[0]) if kinds else "default"


def _rope_theta(raw: dict[str, Any], read: Settings) -> float:
    """Take the rotary base from either place."""
    rope = _rope(raw, read)
    inner = rope.number("rope_theta", read.number("rope_theta", 10000.0))
    if inner != read.number("rope_theta", inner):
        raise ModelError(
            f"{rope.source}: rope_theta is {inner}, and {raw['rope_theta']} outside it; keep the "
            "one that is meant"
        )
    return inner


def _rope_scaling(raw: dict[str, Any], read: Settings) -> RopeScaling | None:
    rope = _rope(raw, read)
    kind = _rope_kind(rope)
    if kind == "default":
        rope.only({"rope_type", "type", "rope_theta"})
        return None
    common = {"rope_type", "type", "rope_theta", "factor"}
    factor = rope.number("factor")
    if kind == "linear":
        rope.only(common)
        return RopeScaling(kind, factor)
    original = rope.whole("original_max_position_embeddings", read.whole("max_position_embeddings"))
    if kind == "llama3":
        rope.only(
            common | {"original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}
        )
        return RopeScaling(
            kind, factor, original, rope.number("low_freq_factor"), rope.number("high_freq_factor")
        )
    if kind != "yarn":
        return RopeScaling(kind)  # says what is known
    rope.only(
        common
        | {"original_max_position_embeddings", "beta_fast", "beta_slow", "truncate"}
        | {"attention_factor", "mscale", "mscale_all_dim"}
    )
    stated = yarn_attention_factor(
        factor, rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    )
    return RopeScaling(
        kind,
        factor,
        original,
        beta_fast=rope.number("beta_fast", 32.0),
        beta_slow=rope.number("beta_slow", 1.0),
        truncate=rope.flag("truncate", default=True),
        attention_factor=rope.number("attention_factor", stated),
    )


def _refuse_unread(config: ModelConfig, where: dict[str, Path]) -> None:
    """Refuse a tensor that nothing reads, since it might change the result."""
    read = tensor_shapes(config)
    for name, file in where.items():
        unneeded = name.endswith("rotary_emb.inv_freq") or (
            name == "lm_head.weight" and config.tied_head
        )
        if name not in read and not unneeded:
            raise UnsupportedModelError(
                f"{file}: tensor {name} is not part of a {config.architecture} model as computed "
                "here and might change the result; remove it if it does not"
            )


def _refuse_unlike_head(config: ModelConfig, where: dict[str, Path]) -> None:
    """Refuse a head beside a tied embedding unless the two are the same."""
    head, embedding = "lm_head.weight", "model.embed_tokens.weight"
    if not config.tied_head or head not in where or embedding not in where:
        return
    if not np.array_equal(
        read_tensor(where[head], head), read_tensor(where[embedding], embedding), equal_nan=True
    ):
        raise UnsupportedModelError(
            f"{where[head]}: {head} is not {embedding}, and tie_word_embeddings says that it is; "
            "remove the tensor, or set the key to false"
        )
