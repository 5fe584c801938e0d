"""Kernels: one interface, a plain reference and a native implementation with the same bits."""

from __future__ import annotations

from decoder.errors import KernelError
from decoder.kernels.base import BLOCK_POSITIONS, Kernels
from decoder.kernels.native import NativeKernels
from decoder.kernels.reference import ReferenceKernels

__all__ = ["BLOCK_POSITIONS", "Kernels", "make_kernels"]


def make_kernels(name: str, *, threads: int = 1) -> Kernels:
    """Return the kernels called `name`: "native" or "reference".

    Raises:
        KernelError: an unknown name, or native kernels that can't be built here. There is no
            silent fallback: the reference is some hundred times slower.

    """
    if name == "native":
        return NativeKernels(threads)
    if name == "reference":
        return ReferenceKernels()
    raise KernelError(f"unknown kernels {name!r}; known: native, reference")
