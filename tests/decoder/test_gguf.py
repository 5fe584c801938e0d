"""GGUF files, written here: what is read, and what is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest

from decoder.errors import ModelError, UnsupportedModelError
from decoder.loading import read_checkpoint
from decoder.loading.gguf_file import _gguf_name
from decoder.rope_scaling import RopeScaling, yarn_attention_factor
from tests.decoder.conftest import random_tensors, small_config

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.config import ModelConfig


def write(path: Path, config: ModelConfig, changes: dict[str, Any], **extra: np.ndarray) -> Path:
    """Write a model with its keys changed; None leaves a key out."""
    keys: dict[str, Any] = {
        "block_count": config.layers,
        "context_length": config.context_length,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_eps,
        "rope.freq_base": config.rope_theta,
        **changes,
    }
    writer = gguf.GGUFWriter(path, config.architecture)
    for key, value in keys.items():
        name = f"{config.architecture}.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
    writer.add_token_list([f"t{i}" for i in range(config.vocab_size)])
    for name, tensor in random_tensors(config).items():
        writer.add_tensor(_gguf_name(name), tensor)
    for name, tensor in extra.items():
        writer.add_tensor(name.replace("__", "."), tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_a_written_model_comes_back(architecture: str, tmp_path: Path) -> None:
    """Configuration and every tensor, twice: from the file, and with the keys from the cache."""
    config = small_config(architecture, rms_eps=2.0**-17)
    path = write(tmp_path / "model.gguf", config, {})
    for _ in range(2):
        checkpoint = read_checkpoint(path)
        assert checkpoint.config == config
        for name, value in random_tensors(config).items():
            found = checkpoint.tensor(name)
            assert found is not None
            assert found.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rope.scaling.type": "none"}, None),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, RopeScaling("linear", 4.0)),
        (
            {
                "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 64, "rope.scaling.yarn_beta_fast": 16.0,
            },
            RopeScaling("yarn", 4.0, 64, beta_fast=16.0,
                        attention_factor=yarn_attention_factor(4.0)),
        ),
    ],
)  # fmt: skip
def test_scalings_are_read(
    changes: dict[str, Any], expected: RopeScaling | None, tmp_path: Path
) -> None:
    """From the file, and again from the cached keys."""
    path = write(tmp_path / "model.gguf", small_config("qwen3"), changes)
    for _ in range(2):
        assert read_checkpoint(path).config.rope_scaling == expected


def test_factors_are_read(tmp_path: Path) -> None:
    """As Llama 3 files hold them."""
    factors = np.array([1, 1, 1, 2, 4, 8, 8, 8], np.float32)
    path = write(tmp_path / "m.gguf", small_config("qwen3"), {}, rope_freqs__weight=factors)
    for _ in range(2):
        scaling = read_checkpoint(path).config.rope_scaling
        assert scaling is not None
        assert scaling.factors == tuple(factors.tolist())
    narrow = factors.astype(np.float16)
    path = write(tmp_path / "f16.gguf", small_config("qwen3"), {}, rope_freqs__weight=narrow)
    with pytest.raises(UnsupportedModelError, match=r"rope_freqs\.weight has type F16"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"attention.sliding_window": 512}, "sliding_window is 512"),
        ({"logit_scale": 8.0}, "logit_scale is 8.0"),
        ({"expert_count": 4}, "expert_count is 4"),
        ({"attention.value_length": 8}, "value_length is 8"),
        ({"rope.dimension_count": 8}, "rope.dimension_count is 8"),
        ({"attention.causal": False}, "attention.causal is False"),
        ({"attn_logit_softcapping": 30.0}, "attn_logit_softcapping"),
        ({"rope.scaling.type": "longrope"}, "longrope"),
        ({"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0}, "original_context_length"),
        ({"block_count": None}, "no key 'block_count'"),
        ({"embedding_length": "wide"}, "embedding_length is 'wide'"),
        ({"attention.head_count": 0}, "head_count is 0"),
        ({"attention.key_length": None, "attention.head_count": 10}, "not a multiple"),
        ({"attention.scale": 0.5}, "attention.scale is 0.5"),
        ({"rope.freq_base": float("nan")}, "freq_base is nan"),
        ({"rope.freq_base": True}, "freq_base is True"),
        ({"rope.freq_base": -1.0}, r"model\.gguf: rope_theta is -1.0"),
        ({"block_count": 2_000_000_000}, "layers is 2000000000"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """Every key is known to be computed, known to be harmless, or named in an error."""
    path = write(tmp_path / "model.gguf", small_config("qwen3"), changes)
    with pytest.raises(ModelError, match=named):
        read_checkpoint(path)


def test_foreign_tensors_and_architectures_are_refused(tmp_path: Path) -> None:
    """A bias that Qwen3 has no place for; an architecture nobody here knows."""
    bias = np.zeros(96, np.float32)
    path = write(tmp_path / "m.gguf", small_config("qwen3"), {}, blk__0__attn_q__bias=bias)
    with pytest.raises(UnsupportedModelError, match=r"blk\.0\.attn_q\.bias"):
        read_checkpoint(path)
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedModelError, match="mamba"):
        read_checkpoint(tmp_path / "other.gguf")
