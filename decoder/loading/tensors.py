"""Tensors of a safetensors file as f32.

Owns the one place where torch is loaded: NumPy has no bfloat16, and torch takes seconds to load, so
only a file that holds such tensors pays for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from safetensors import safe_open

from decoder.errors import UnsupportedModelError

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.kernels.base import F32

_NUMPY_FLOATS = frozenset({"F16", "F32", "F64"})


def tensor_names(file: Path) -> list[str]:
    """Return the names of a file's tensors.

    Raises:
        SafetensorError: it is not a whole safetensors file; OSError where it can't be read.

    """
    with safe_open(file, framework="np") as opened:
        return list(opened.keys())


def read_tensor(file: Path, name: str) -> F32:
    """Return a tensor as f32 in C order.

    Raises:
        SafetensorError, OSError: as `tensor_names`, or there is no such tensor.
        UnsupportedModelError: its numbers are neither float nor bfloat16.

    """
    with safe_open(file, framework="np") as opened:
        kind = str(opened.get_slice(name).get_dtype())
        if kind in _NUMPY_FLOATS:
            return np.ascontiguousarray(opened.get_tensor(name), dtype=np.float32)
    if kind != "BF16":
        raise UnsupportedModelError(
            f"{file}: tensor {name} has type {kind}; give the model in F16, BF16 or F32"
        )
    import torch  # noqa: PLC0415 (see above)

    with safe_open(file, framework="pt") as opened:
        wide: F32 = opened.get_tensor(name).to(torch.float32).numpy()
    return np.ascontiguousarray(wide)
