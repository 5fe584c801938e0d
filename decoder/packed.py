"""Packed weights on disk, so that a model is requantised once and not at each start.

Owns the cache entry of a model: `<model digest>-<pack version>.safetensors` with the digest of its
own bytes beside it. An entry that is not whole is made again, which changes no bit. The weights are
mapped from it, so that what nobody reads any more takes no memory.
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from decoder.cache import cache_dir, map_sealed, write_sealed
from decoder.kernels.base import QuantisedWeight
from decoder.weights import LayerWeights, ModelWeights, pack_weights

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.loading import Checkpoint

PACK_VERSION = 1
"""Raise it whenever packing or quantisation changes, so that old entries are left alone."""

_DTYPES: Final[dict[str, np.dtype[Any]]] = {"I8": np.dtype(np.int8), "F32": np.dtype("<f4")}
_Arrays = dict[str, NDArray[np.generic]]
_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A model's quantised weights and the file that they lie in.

    Attributes:
        weights: views of the file, or of memory of their own where there is none.
        mapped: the file.

    """

    weights: ModelWeights
    mapped: mmap.mmap | None

    def give_pages_back(self) -> None:
        """Let go of the memory behind the weights; what is read again comes from the file again."""
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)


def packed_weights(checkpoint: Checkpoint) -> PackedModel:
    """Return a model's packed weights, from the cache where they are whole there.

    A cache that can't be written is no error: packing is then done at each start, and the weights
    stay in memory.

    Raises:
        ModelError: as `pack_weights`.

    """
    entry = cache_dir("models") / f"{checkpoint.digest}-{PACK_VERSION}.safetensors"
    found = _read(entry, checkpoint)
    if found is not None:
        return found
    weights = pack_weights(checkpoint.config, checkpoint.tensor)
    try:
        write_sealed(entry, save(_flatten(weights)))
    except OSError:
        return PackedModel(weights, None)
    return _read(entry, checkpoint) or PackedModel(weights, None)


def _read(entry: Path, checkpoint: Checkpoint) -> PackedModel | None:
    mapped = map_sealed(entry)
    if mapped is None:
        return None
    try:
        return PackedModel(_unflatten(_arrays(mapped), checkpoint), mapped)
    except (ValueError, TypeError, KeyError):  # sealed, and yet not what is written today
        return None


def _arrays(mapped: mmap.mmap) -> _Arrays:
    """Return every tensor of a safetensors file as a view of its bytes.

    The package's own reader copies them. Format: github.com/huggingface/safetensors, "Format".
    """
    start = 8 + int.from_bytes(mapped[:8], "little")
    header: dict[str, Any] = json.loads(mapped[8:start])
    arrays: _Arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = _DTYPES[entry["dtype"]]
        flat = np.frombuffer(mapped, dtype, (end - begin) // dtype.itemsize, start + begin)
        arrays[name] = flat.reshape(entry["shape"])
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
            _of(arrays[name + ".values"], np.int8), _of(arrays[name + ".scale"], np.float32)
        )

    def plain(name: str) -> NDArray[np.float32]:
        return _of(arrays[name], np.float32)

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


def _of(array: NDArray[np.generic], dtype: type[_T]) -> NDArray[_T]:
    if array.dtype != dtype:
        raise TypeError(f"a packed tensor holds {array.dtype}, not {np.dtype(dtype)}")
    return array.view(dtype)
