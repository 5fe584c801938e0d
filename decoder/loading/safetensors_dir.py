"""Reading a Hugging Face directory: config.json and (sharded) safetensors.

Owns the reading of config.json: every key is known to be computed, known to be harmless, or
refused by name, so that no setting that changes the result is passed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from decoder.config import ModelConfig
from decoder.errors import ModelError, UnsupportedModelError
from decoder.loading.checkpoint import Checkpoint, digest_files
from decoder.loading.settings import Settings
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
}
_HARMLESS = {
    *("architectures", "attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id"),
    *("initializer_range", "torch_dtype", "dtype", "transformers_version", "use_cache"),
    *("max_window_layers", "pretraining_tp", "is_llama_config"),
    *("transformers.js_config", "_name_or_path", "layer_types"),
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


def read_safetensors_dir(path: Path) -> Checkpoint:
    """Read configuration and tensors.

    Raises:
        ModelError: damaged or incomplete; UnsupportedModelError for what isn't computed.

    """
    config_file = path / "config.json"
    try:
        raw = json.loads(config_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{config_file}: {error}; give a model's directory") from error
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
    heads, hidden = read.whole("num_attention_heads"), read.whole("hidden_size")
    return ModelConfig(
        architecture=str(raw.get("model_type")),
        vocab_size=read.whole("vocab_size"),
        hidden_size=hidden,
        layers=read.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=read.whole("num_key_value_heads", heads),
        head_dim=read.whole("head_dim", hidden // max(heads, 1)),
        intermediate_size=read.whole("intermediate_size"),
        rms_eps=read.number("rms_norm_eps"),
        rope_theta=_rope_theta(raw, read),
        context_length=read.whole("max_position_embeddings"),
        tied_head=read.flag("tie_word_embeddings", default=False),
        rope_scaling=_rope_scaling(raw, read),
    )


def _unused(raw: dict[str, Any]) -> bool:
    return raw.get("use_sliding_window") is False


def _rope(raw: dict[str, Any], read: Settings) -> Settings:
    """Return the rotary settings in either spelling."""
    value = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(value, dict):
        raise ModelError(f"{read.source}: rope_scaling is {value!r}; it must be an object")
    return Settings(value, f"{read.source}: rope_scaling")


def _rope_theta(raw: dict[str, Any], read: Settings) -> float:
    """Take the rotary base from either place."""
    rope = _rope(raw, read)
    return rope.number("rope_theta", read.number("rope_theta", 10000.0))


def _rope_scaling(raw: dict[str, Any], read: Settings) -> RopeScaling | None:
    rope = _rope(raw, read)
    kind = str(rope.values.get("rope_type", rope.values.get("type", "default")))
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
        factor, rope.values.get("mscale"), rope.values.get("mscale_all_dim")
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
