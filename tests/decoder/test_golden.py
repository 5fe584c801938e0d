"""The machine gives the bits that are committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decoder.kernels import build
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


@pytest.mark.parametrize("architecture", golden.ARCHITECTURES)
def test_a_build_for_the_plainest_cpu_gives_the_same_bits(
    architecture: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without this CPU's vector registers the width of every loop differs, and no bit does."""
    plain = tuple(flag for flag in build.FLAGS if flag != "-march=native")
    assert len(plain) == len(build.FLAGS) - 1
    monkeypatch.setattr(build, "FLAGS", plain)
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path))
    assert golden.small_vectors(architecture, "native") == VECTORS["small"][architecture]
