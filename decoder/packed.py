"""Packed weights on disk, so that a model is requantised once and not at each start.

Owns the cache entry of a model: `<model digest>-<pack version>.safetensors` with the digest of its
own bytes beside it. An entry that is not whole is made again, which changes no bit.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from decoder.cache import cache_dir, read_sealed, write_sealed
from decoder.kernels.base import QuantisedWeight
from decoder.weights import LayerWeights, ModelWeights, pack_weights

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.loading import Checkpoint

PACK_VERSION = 1
"""Raise it whenever packing or quantisation changes, so that old entries are left alone."""

_Arrays = dict[str, NDArray[np.generic]]


def packed_weights(checkpoint: Checkpoint) -> ModelWeights:
    """Return a model's packed weights, from the cache where they are whole there.

    A cache that can't be written is no error: packing is then done at each start.

    Raises:
        ModelError: as `pack_weights`.

    """
    entry = cache_dir("models") / f"{checkpoint.digest}-{PACK_VERSION}.safetensors"
    found = _read(entry)
    if found is not None:
        return _unflatten(found, checkpoint)
    weights = pack_weights(checkpoint.config, checkpoint.tensor)
    content = save(_flatten(weights))
    with contextlib.suppress(OSError):
        write_sealed(entry, content)
    return weights


def _read(entry: Path) -> _Arrays | None:
    content = read_sealed(entry)
    if content is None:
        return None
    try:
        arrays: _Arrays = load(content)
    except (OSError, SafetensorError, UnicodeDecodeError):
        return None
    return arrays


def _flatten(weights: ModelWeights) -> _Arrays:
    arrays: _Arrays = {"final_norm": weights.final_norm}

    def add(name: str, weight: QuantisedWeight) -> None:
        arrays[name + ".values"], arrays[name + ".scale"] = weight.values, weight.scale

    add("embedding", weights.embedding)
    if weights.head is not weights.embedding:
        add("head", weights.head)
    for index, layer in enumerate(weights.layers):
        for name in ("qkv", "output", "gate_up", "down"):
            add(f"{index}.{name}", getattr(layer, name))
        for name in ("attention_norm", "ffn_norm", "qkv_bias", "q_norm", "k_norm"):
            if getattr(layer, name) is not None:
                arrays[f"{index}.{name}"] = getattr(layer, name)
    return arrays


def _unflatten(arrays: _Arrays, checkpoint: Checkpoint) -> ModelWeights:
    def weight(name: str) -> QuantisedWeight:
        return QuantisedWeight(
            arrays[name + ".values"].astype(np.int8, copy=False),
            arrays[name + ".scale"].astype(np.float32, copy=False),
        )

    def plain(name: str) -> NDArray[np.float32]:
        return arrays[name].astype(np.float32, copy=False)

    def optional(name: str) -> NDArray[np.float32] | None:
        return plain(name) if name in arrays else None

    embedding = weight("embedding")
    return ModelWeights(
        embedding=embedding,
        layers=tuple(
            LayerWeights(
                attention_norm=plain(f"{i}.attention_norm"),
                qkv=weight(f"{i}.qkv"),
                qkv_bias=optional(f"{i}.qkv_bias"),
                q_norm=optional(f"{i}.q_norm"),
                k_norm=optional(f"{i}.k_norm"),
                output=weight(f"{i}.output"),
                ffn_norm=plain(f"{i}.ffn_norm"),
                gate_up=weight(f"{i}.gate_up"),
                down=weight(f"{i}.down"),
            )
            for i in range(checkpoint.config.layers)
        ),
        final_norm=plain("final_norm"),
        head=embedding if checkpoint.config.tied_head else weight("head"),
    )
