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
from decoder.loading.tensors import read_tensor, tensor_names

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
    try:
        heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
        return ModelConfig(
            architecture=str(raw["model_type"]),
            vocab_size=int(raw["vocab_size"]),
            hidden_size=hidden,
            layers=int(raw["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=int(raw.get("head_dim") or hidden // heads),
            intermediate_size=int(raw["intermediate_size"]),
            rms_eps=float(raw["rms_norm_eps"]),
            rope_theta=_rope_theta(raw, source),
            context_length=int(raw["max_position_embeddings"]),
            tied_head=bool(raw.get("tie_word_embeddings", False)),
        )
    except KeyError as error:
        raise ModelError(f"{source} has no key {error}") from error


def _unused(raw: dict[str, Any]) -> bool:
    return raw.get("use_sliding_window") is False


def _rope_theta(raw: dict[str, Any], source: Path) -> float:
    """Take the rotary base from either spelling; refuse any scaling."""
    parameters = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise UnsupportedModelError(f"{source}: rope scaling {kind!r} is not computed here")
    return float(parameters.get("rope_theta", raw.get("rope_theta", 10000.0)))
