"""The machine gives the bits that are committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.decoder import golden

VECTORS = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.mark.parametrize("kernels", ["native", "reference"])
@pytest.mark.parametrize("architecture", golden.ARCHITECTURES)
def test_small_models_give_the_golden_bits(architecture: str, kernels: str) -> None:
    """Hidden state, cache and logits after 80 tokens."""
    assert golden.small_vectors(architecture, kernels) == VECTORS["small"][architecture]


@pytest.mark.model
def test_the_embedded_models_give_the_golden_bits() -> None:
    """Names, log-probabilities to the last bit, and embeddings."""
    assert golden.embedded_vectors() == VECTORS["embedded"]
