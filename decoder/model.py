"""A model, loaded and ready to run: weights, tokenizer, digest.

Owns the joining of loading, quantisation and kernels. Never schedules.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.loading import read_checkpoint
from decoder.packed import packed_weights
from decoder.rotary import rotary_tables
from decoder.tokenizer import LoadedTokenizer, load_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.config import ModelConfig
    from decoder.transformer import Transformer

MAX_POSITIONS = 8192
"""Positions that rotary tables are made for; a longer context is not offered."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run.

    Attributes:
        config: its geometry.
        transformer: its forward pass, an `Engine`'s runner.
        tokenizer: its tokenizer and chat template.
        digest: sha256, hex, of the model's files.
        source: where it came from.

    """

    config: ModelConfig
    transformer: Transformer
    tokenizer: LoadedTokenizer
    digest: str
    source: Path


def offered(config: ModelConfig) -> ModelConfig:
    """Return a model's geometry with no more positions than are offered here."""
    return dataclasses.replace(config, context_length=min(config.context_length, MAX_POSITIONS))


def load_model(path: Path, *, kernels: str = "native", threads: int = 1) -> LoadedModel:
    """Load a GGUF file or a safetensors directory, quantised to int8 as NUMERICS.md says.

    Args:
        path: a `.gguf` file or a directory.
        kernels: "native" or "reference".
        threads: cores for the native kernels.

    Raises:
        ModelError: missing, damaged or unsupported; KernelError where kernels can't be had.

    """
    chosen = make_kernels(kernels, threads=threads)
    checkpoint = read_checkpoint(path)
    config = offered(checkpoint.config)
    packed = packed_weights(checkpoint)
    rotary = rotary_tables(
        config.context_length, config.head_dim, config.rope_theta, config.rope_scaling
    )
    transformer = make_transformer(config, packed.weights, chosen, rotary)
    packed.give_pages_back()  # native kernels have copied what products read
    return LoadedModel(
        config=config,
        transformer=transformer,
        tokenizer=load_tokenizer(path),
        digest=checkpoint.digest,
        source=path,
    )
