"""`Kernels` on the compiled library, integer products on `torch._int_mm`.

Owns the calls across the C border: every array that crosses it is checked for dtype and order
here, since C can't. Never defines arithmetic: that is NUMERICS.md, proved against `reference`.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

# torch comes first on purpose: it brings the OpenMP runtime that the library then shares. Two
# runtimes in one process would fight over the cores.
import torch

from decoder.errors import KernelError
from decoder.kernels.base import (
    F32,
    I8,
    I32,
    I64,
    HeadShape,
    PathIndex,
    Quantised,
    QuantisedWeight,
)
from decoder.kernels.build import build_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABI_VERSION = 2
TILE_COLUMNS = 32
TILE_DEPTH = 64

_SIGNATURES = {
    "pm_embed": "pppiip",
    "pm_quantise": "piipp",
    "pm_rmsnorm_quantise": "ppfiipp",
    "pm_dequantise": "ppppiiip",
    "pm_residual_rmsnorm_quantise": "ppppfiippp",
    "pm_silu_mul_quantise": "pppiipp",
    "pm_qkv_store": "ppppppfppppiiiippp",
    "pm_attention_quantise": "ppppppppfiiiipp",
    "pm_gathered_head": "ppiippppip",
    "pm_layernorm_quantise": "ppfiippp",
    "pm_residual_layernorm_quantise": "ppppppfiippp",
    "pm_gelu_quantise": "ppppiipp",
    "pm_tile_product": "ppiiip",
    "pm_pack_tiles": "piip",
    "pm_exp": "pip",
    "pm_gelu": "pip",
}
_CTYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "f": ctypes.c_float}


class NativeKernels:
    """`Kernels` in C with vector registers and threads.

    Args:
        threads: cores to use for products and rows alike; at least 1.

    Raises:
        KernelError: no compiler, or a library of another version.

    """

    name = "native"

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise KernelError(f"threads is {threads}; give at least 1")
        torch.set_num_threads(threads)
        library = ctypes.CDLL(str(build_library()))
        version = library.pm_abi_version()
        if version != ABI_VERSION:
            raise KernelError(f"native kernels have version {version}, expected {ABI_VERSION}")
        self._call: dict[str, Any] = {}
        for symbol, signature in _SIGNATURES.items():
            function = getattr(library, symbol)
            function.restype = None
            function.argtypes = [_CTYPES[kind] for kind in signature]
            self._call[symbol] = function
        self._tiles = bool(library.pm_has_tiles())
        self._packed: dict[int, tuple[I8, I8]] = {}

    def product(self, planes: I8, weight: QuantisedWeight) -> I32:
        """Exact product; see `Kernels`.

        On tile registers where the CPU has them and the shape fits them, else by torch. Both are
        exact, so which of them ran shows in the time alone.
        """
        n, k = weight.values.shape
        if self._tiles and n % TILE_COLUMNS == 0 and k % TILE_DEPTH == 0:
            m = len(planes)
            acc = np.empty((m, n), np.int32)
            self._call["pm_tile_product"](
                _i8(planes), _i8(self._pack(weight.values)), m, n, k, _i32(acc)
            )
            return acc
        left = torch.from_numpy(planes)
        result: NDArray[np.int32] = torch._int_mm(  # noqa: SLF001 (the only exact int8 product)
            left, torch.from_numpy(weight.values).t()
        ).numpy()
        return result

    def _pack(self, values: I8) -> I8:
        """Return the weight in tile order, packed at its first use and kept as long as this is."""
        found = self._packed.get(id(values))
        if found is None:
            n, k = values.shape
            packed = np.empty(n * k, np.int8)
            self._call["pm_pack_tiles"](_i8(values), n, k, _i8(packed))
            # The weight itself is kept beside it, so that its id can't come to mean another.
            found = self._packed[id(values)] = (values, packed)
        return found[1]

    def embed(self, table: QuantisedWeight, ids: I32) -> F32:
        """See `Kernels`."""
        n = table.values.shape[1]
        x = np.empty((len(ids), n), np.float32)
        self._call["pm_embed"](
            _i8(table.values), _f32(table.scale), _i32(ids), len(ids), n, _f32(x)
        )
        return x

    def quantise(self, x: F32) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_quantise"](_f32(x), rows, n, _i8(out.planes), _f32(out.scale))
        return out

    def rmsnorm_quantise(self, x: F32, weight: F32, eps: float) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_rmsnorm_quantise"](
            _f32(x), _f32(weight), eps, rows, n, _i8(out.planes), _f32(out.scale)
        )
        return out

    def dequantise(
        self, acc: I32, row_scale: F32, column_scale: F32, bias: F32 | None, into: F32 | None
    ) -> F32:
        """See `Kernels`."""
        rows, n = acc.shape[0] // 2, acc.shape[1]
        y = np.empty((rows, n), np.float32) if into is None else into
        self._call["pm_dequantise"](
            _i32(acc),
            _f32(row_scale),
            _f32(column_scale),
            _f32(bias),
            rows,
            n,
            int(into is not None),
            _f32(y),
        )
        return y

    def residual_rmsnorm_quantise(
        self, acc: I32, row_scale: F32, column_scale: F32, weight: F32, eps: float, x: F32
    ) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_residual_rmsnorm_quantise"](
            _i32(acc),
            _f32(row_scale),
            _f32(column_scale),
            _f32(weight),
            eps,
            rows,
            n,
            _f32(x),
            _i8(out.planes),
            _f32(out.scale),
        )
        return out

    def silu_mul_quantise(self, acc: I32, row_scale: F32, column_scale: F32) -> Quantised:
        """See `Kernels`."""
        rows, n = acc.shape[0] // 2, acc.shape[1] // 2
        out = _empty(rows, n)
        self._call["pm_silu_mul_quantise"](
            _i32(acc),
            _f32(row_scale),
            _f32(column_scale),
            rows,
            n,
            _i8(out.planes),
            _f32(out.scale),
        )
        return out

    def qkv_store(
        self,
        acc: I32,
        row_scale: F32,
        column_scale: F32,
        bias: F32 | None,
        q_norm: F32 | None,
        k_norm: F32 | None,
        eps: float,
        rotary: tuple[F32, F32] | None,
        position: I32,
        slot: I64,
        shape: HeadShape,
        keys: F32,
        values: F32,
    ) -> F32:
        """See `Kernels`."""
        rows = acc.shape[0] // 2
        q = np.empty((rows, shape.heads, shape.head_dim), np.float32)
        cosine, sine = rotary if rotary is not None else (None, None)
        self._call["pm_qkv_store"](
            _i32(acc),
            _f32(row_scale),
            _f32(column_scale),
            _f32(bias),
            _f32(q_norm),
            _f32(k_norm),
            eps,
            _f32(cosine),
            _f32(sine),
            _i32(position),
            _i64(slot),
            rows,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            _f32(q),
            _f32(keys),
            _f32(values),
        )
        return q

    def attention_quantise(
        self,
        q: F32,
        keys: F32,
        values: F32,
        path: PathIndex,
        softmax_scale: float,
        shape: HeadShape,
    ) -> Quantised:
        """See `Kernels`."""
        out = _empty(len(q), shape.heads * shape.head_dim)
        self._call["pm_attention_quantise"](
            _f32(q),
            _f32(keys),
            _f32(values),
            _i32(path.table),
            _i64(path.table_offsets),
            _i32(path.prefix),
            _i32(path.tail),
            _i64(path.tail_offsets),
            softmax_scale,
            len(q),
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            _i8(out.planes),
            _f32(out.scale),
        )
        return out

    def gathered_head(
        self, hidden: Quantised, table: QuantisedWeight, want_row: I32, want_token: I32
    ) -> F32:
        """See `Kernels`."""
        logits = np.empty(len(want_row), np.float32)
        self._call["pm_gathered_head"](
            _i8(hidden.planes),
            _f32(hidden.scale),
            len(hidden.scale),
            hidden.planes.shape[1],
            _i8(table.values),
            _f32(table.scale),
            _i32(want_row),
            _i32(want_token),
            len(want_row),
            _f32(logits),
        )
        return logits

    def layernorm_quantise(self, x: F32, weight: F32, bias: F32, eps: float) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_layernorm_quantise"](
            _f32(weight), _f32(bias), eps, rows, n, _f32(x), _i8(out.planes), _f32(out.scale)
        )
        return out

    def residual_layernorm_quantise(
        self,
        acc: I32,
        row_scale: F32,
        column_scale: F32,
        bias: F32,
        weight: F32,
        norm_bias: F32,
        eps: float,
        x: F32,
    ) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_residual_layernorm_quantise"](
            _i32(acc),
            _f32(row_scale),
            _f32(column_scale),
            _f32(bias),
            _f32(weight),
            _f32(norm_bias),
            eps,
            rows,
            n,
            _f32(x),
            _i8(out.planes),
            _f32(out.scale),
        )
        return out

    def gelu_quantise(self, acc: I32, row_scale: F32, column_scale: F32, bias: F32) -> Quantised:
        """See `Kernels`."""
        rows, n = acc.shape[0] // 2, acc.shape[1]
        out = _empty(rows, n)
        self._call["pm_gelu_quantise"](
            _i32(acc),
            _f32(row_scale),
            _f32(column_scale),
            _f32(bias),
            rows,
            n,
            _i8(out.planes),
            _f32(out.scale),
        )
        return out

    def exp(self, x: F32) -> F32:
        """See `Kernels`."""
        y = np.empty_like(x)
        self._call["pm_exp"](_f32(x), len(x), _f32(y))
        return y

    def gelu(self, x: F32) -> F32:
        """See `Kernels`."""
        y = np.empty_like(x)
        self._call["pm_gelu"](_f32(x), len(x), _f32(y))
        return y


def _empty(rows: int, n: int) -> Quantised:
    return Quantised(np.empty((2 * rows, n), np.int8), np.empty(rows, np.float32))


def _pointer(array: NDArray[Any] | None, dtype: type[np.generic]) -> int | None:
    if array is None:
        return None
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise KernelError(
            f"a kernel was handed {array.dtype} {array.shape} (C order: "
            f"{array.flags.c_contiguous}); it takes {np.dtype(dtype)} in C order"
        )
    address: int = array.__array_interface__["data"][0]
    return address


def _f32(array: NDArray[Any] | None) -> int | None:
    return _pointer(array, np.float32)


def _i8(array: NDArray[Any] | None) -> int | None:
    return _pointer(array, np.int8)


def _i32(array: NDArray[Any] | None) -> int | None:
    return _pointer(array, np.int32)


def _i64(array: NDArray[Any] | None) -> int | None:
    return _pointer(array, np.int64)
