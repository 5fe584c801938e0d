"""Random models of any shape run, and are the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.loading.random_model import QWEN3_0_6B, random_checkpoint
from decoder.rotary import rotary_tables
from decoder.weights import pack_weights, tensor_shapes
from tests.decoder.conftest import random_tensors, small_config
from tests.decoder.test_against_transformers import all_logits


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_a_random_model_gives_finite_and_unlike_logits(architecture: str) -> None:
    """Activations neither vanish nor overflow, whatever the depth."""
    config = small_config(architecture, layers=12, tied_head=False)
    checkpoint = random_checkpoint(config)
    weights = pack_weights(config, checkpoint.tensor)
    rotary = rotary_tables(64, config.head_dim, config.rope_theta)
    runner = make_transformer(config, weights, make_kernels("native", threads=1), rotary)
    logits = all_logits(runner, np.arange(40, dtype=np.int32))
    assert np.isfinite(logits).all()
    assert 0.1 < logits.std() < 10


def test_shapes_are_those_of_a_checkpoint() -> None:
    """Names and shapes, and the size of the whole: 596 million weights."""
    for architecture in ("llama", "qwen2", "qwen3"):
        config = small_config(architecture, tied_head=False)
        shapes = {name: value.shape for name, value in random_tensors(config).items()}
        assert tensor_shapes(config) == shapes
    count = sum(int(np.prod(shape)) for shape in tensor_shapes(QWEN3_0_6B).values())
    assert count == 596_049_920


def test_the_seed_alone_decides() -> None:
    """The same tensors from the same seed in any order, others from another."""
    config = small_config()
    name = "model.layers.1.mlp.up_proj.weight"
    first, second = random_checkpoint(config, 1), random_checkpoint(config, 1)
    second.tensor("model.norm.weight")
    one, two = first.tensor(name), second.tensor(name)
    other = random_checkpoint(config, 2).tensor(name)
    assert one is not None
    assert two is not None
    assert other is not None
    assert one.tobytes() == two.tobytes() != other.tobytes()
    assert first.tensor("nothing") is None
