"""The machine gives the bits that are committed."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from decoder import golden_request
from decoder.kernels import build, make_kernels
from decoder.kernels.native import NativeKernels
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
@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
def test_builds_for_lesser_cpus_give_the_same_bits(
    architecture: str, cpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With other vector registers every loop has another width, and no bit differs."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("these are x86 builds")
    flags = build.KERNELS.flags
    lesser = tuple(flag.replace("=native", f"={cpu}") for flag in flags)
    assert lesser != flags
    monkeypatch.setattr(build, "KERNELS", replace(build.KERNELS, flags=lesser))
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path))
    assert NativeKernels(1).products == {"x86-64": "portable", "haswell": "avx2"}[cpu]
    assert golden.small_vectors(architecture, "native") == VECTORS["small"][architecture]


def test_vector_registers_alone_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tile registers change the time and no bit."""
    kernels = NativeKernels(2, allow_tiles=False)
    assert kernels.products != "amx"
    monkeypatch.setattr(golden, "make_kernels", lambda name, threads: kernels)
    assert golden.small_vectors("qwen3", "native") == VECTORS["small"]["qwen3"]


@pytest.mark.parametrize("kernels", ["native", "reference"])
def test_the_golden_request_gives_its_bits(kernels: str) -> None:
    """What every start is held to is what the reference gives."""
    assert golden_request.answer_digest(make_kernels(kernels)) == golden_request.DIGEST
