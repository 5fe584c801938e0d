"""`Kernels` on the compiled library.

Owns the calls across the C border: every array that crosses it is checked for dtype and order
here, since C can't. Never defines arithmetic: that is NUMERICS.md, proved against `reference`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decoder.errors import KernelError
from decoder.kernels.base import (
    F32,
    I8,
    I16,
    I32,
    I64,
    HeadShape,
    KVLayer,
    PathIndex,
    Quantised,
    QuantisedWeight,
)
from decoder.kernels.build import build_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABI_VERSION = 5
PANEL_COLUMNS = 16
TILE_DEPTH = 64

GUESS_TOKENS = {"amx": 64, "avx512-vnni": 16, "avx2": 2, "portable": 1}
"""By routine. Tile registers wait for weights, and rows cost next to nothing beside that; without
integer instructions a second row costs half as much again as the first one (docs/speed.md)."""

_SIGNATURES = {
    "pm_embed": "pppiip",
    "pm_quantise": "piiipp",
    "pm_rmsnorm_quantise": "ppfiiipp",
    "pm_dequantise": "ppppiiiip",
    "pm_residual_rmsnorm_quantise": "ppppfiiippp",
    "pm_silu_mul_quantise": "pppiiipp",
    "pm_qkv_store": "ppppppfppppiiiiippppp",
    "pm_gathered_head": "ppiippppiip",
    "pm_layernorm_quantise": "ppfiiippp",
    "pm_residual_layernorm_quantise": "ppppppfiiippp",
    "pm_gelu_quantise": "ppppiiipp",
    "pm_pack_weight": "ppiiiipp",
    "pm_dots": "ppliip",
    "pm_exp": "pip",
    "pm_gelu": "pip",
}
"""Calls that return nothing."""
_COUNTED = {
    "pm_product": ("ppiiiiip", ctypes.c_int),
    "pm_attention_quantise": ("ppppppppppfiiiiiipp", ctypes.c_int),
    "pm_pass": ("ppipp", ctypes.c_int),
    "pm_packed_bytes": ("iii", ctypes.c_int64),
    "pm_tiles_allowed": ("", ctypes.c_int),
    "pm_vector_routine": ("", ctypes.c_char_p),
}
"""Calls that return something."""
_CTYPES = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "f": ctypes.c_float,
}


@dataclass(frozen=True, slots=True, eq=False)
class PackedWeight:
    """A weight in the order in which products read it (docs in `products.h`).

    Attributes:
        tiles: (bytes,) int8: pairs of panels of 16 columns, each a run of tiles over the depth.
        scale: (pairs*32,) f32 in the panels' order, zero where columns are filled up.
        columns: rows of the weight as it was.
        depth: its width.
        gated: each pair holds a panel of the first half and its counterpart of the second.

    """

    tiles: I8
    scale: F32
    columns: int
    depth: int
    gated: bool

    @property
    def pairs(self) -> int:
        """Pairs of panels."""
        return len(self.scale) // (2 * PANEL_COLUMNS)


class NativeKernels:
    """`Kernels` in C with vector registers and threads.

    Args:
        threads: cores to use for products and rows alike; at least 1.
        allow_tiles: use the CPU's tile registers where it has them. They change the time alone.

    Attributes:
        products: which routine makes the integer products: "amx", "avx512-vnni", "avx2" or
            "portable".

    Raises:
        KernelError: no compiler, or a library of another version.

    """

    name = "native"

    def __init__(self, threads: int, *, allow_tiles: bool = True) -> None:
        if threads < 1:
            raise KernelError(f"threads is {threads}; give at least 1")
        self.threads = threads
        library = ctypes.CDLL(str(build_library()))
        version = library.pm_abi_version()
        if version != ABI_VERSION:
            raise KernelError(f"native kernels have version {version}, expected {ABI_VERSION}")
        self._call: dict[str, Any] = {}
        signatures = {name: (kinds, None) for name, kinds in _SIGNATURES.items()}
        for symbol, (kinds, returned) in (signatures | _COUNTED).items():
            function = getattr(library, symbol)
            function.restype = returned
            function.argtypes = [_CTYPES[kind] for kind in kinds]
            self._call[symbol] = function
        self.use_tiles = allow_tiles and bool(self._call["pm_tiles_allowed"]())
        vectors: str = self._call["pm_vector_routine"]().decode()
        self.products = "amx" if self.use_tiles else vectors
        self.guess_tokens = GUESS_TOKENS[self.products]
        self._packed: dict[int, tuple[I8, PackedWeight]] = {}

    def product(self, planes: I8, weight: QuantisedWeight) -> I32:
        """Exact product; see `Kernels`. Packs the weight at its first use and keeps that."""
        packed = self._kept(weight)
        acc = np.empty((len(planes), packed.columns), np.int32)
        failed = self._call["pm_product"](
            _i8(planes),
            _i8(packed.tiles),
            len(planes),
            packed.columns,
            packed.depth,
            int(self.use_tiles),
            self.threads,
            _i32(acc),
        )
        if failed:
            raise KernelError(f"no memory for the planes of a product of {planes.shape}")
        return acc

    def pack(self, weight: QuantisedWeight, *, gated: bool = False) -> PackedWeight:
        """Return the weight in the order in which products read it.

        Args:
            weight: (n, k); with `gated`, gate rows then as many up rows.
            gated: see `PackedWeight`.

        """
        n, k = weight.values.shape
        tiles = np.empty(self._call["pm_packed_bytes"](n, k, int(gated)), np.int8)
        parts = -(-k // TILE_DEPTH)
        scale = np.empty(len(tiles) // (parts * TILE_DEPTH), np.float32)
        self._call["pm_pack_weight"](
            _i8(weight.values), _f32(weight.scale), n, k, int(gated), self.threads,
            _i8(tiles), _f32(scale),
        )  # fmt: skip
        return PackedWeight(tiles, scale, n, k, gated)

    def _kept(self, weight: QuantisedWeight) -> PackedWeight:
        found = self._packed.get(id(weight.values))
        if found is None:
            # The weight itself is kept beside it, so that its id can't come to mean another.
            found = self._packed[id(weight.values)] = (weight.values, self.pack(weight))
        return found[1]

    def run_pass(
        self, model: ctypes.Structure, rows: ctypes.Structure, wanted: int, hidden: int
    ) -> Quantised:
        """Run a whole forward pass; see `decoder.fused`, which makes the structures."""
        out = _empty(wanted, hidden)
        failed = self._call["pm_pass"](
            ctypes.addressof(model),
            ctypes.addressof(rows),
            self.threads,
            _i8(out.planes),
            _f32(out.scale),
        )
        if failed:
            raise KernelError("no memory for the rows of a forward pass; declare fewer a pass")
        return out

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
        self._call["pm_quantise"](_f32(x), rows, n, self.threads, _i8(out.planes), _f32(out.scale))
        return out

    def rmsnorm_quantise(self, x: F32, weight: F32, eps: float) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_rmsnorm_quantise"](
            _f32(x), _f32(weight), eps, rows, n, self.threads, _i8(out.planes), _f32(out.scale)
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
            self.threads,
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
            self.threads,
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
            self.threads,
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
        cache: KVLayer,
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
            self.threads,
            _f32(q),
            _i8(cache.keys),
            _i8(cache.values),
            _f32(cache.key_scale),
            _f32(cache.value_scale),
        )
        return q

    def attention_quantise(
        self,
        q: F32,
        cache: KVLayer,
        path: PathIndex,
        softmax_scale: float,
        shape: HeadShape,
    ) -> Quantised:
        """See `Kernels`."""
        out = _empty(len(q), shape.heads * shape.head_dim)
        failed = self._call["pm_attention_quantise"](
            _f32(q),
            _i8(cache.keys),
            _i8(cache.values),
            _f32(cache.key_scale),
            _f32(cache.value_scale),
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
            int(self.use_tiles),
            self.threads,
            _i8(out.planes),
            _f32(out.scale),
        )
        if failed:
            raise KernelError("no memory for attention; declare fewer rows a pass")
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
            self.threads,
            _f32(logits),
        )
        return logits

    def layernorm_quantise(self, x: F32, weight: F32, bias: F32, eps: float) -> Quantised:
        """See `Kernels`."""
        rows, n = x.shape
        out = _empty(rows, n)
        self._call["pm_layernorm_quantise"](
            _f32(weight),
            _f32(bias),
            eps,
            rows,
            n,
            self.threads,
            _f32(x),
            _i8(out.planes),
            _f32(out.scale),
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
            self.threads,
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
            self.threads,
            _i8(out.planes),
            _f32(out.scale),
        )
        return out

    def dots(self, rows: I16, row: I16) -> I32:
        """See `Kernels`."""
        n, k = rows.shape
        if row.shape != (k,):
            raise KernelError(f"rows of {k} can't be multiplied with one of shape {row.shape}")
        y = np.empty(n, np.int32)
        self._call["pm_dots"](_i16(rows), _i16(row), n, k, self.threads, _i32(y))
        return y

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


def address(array: NDArray[Any] | None, dtype: type[np.generic]) -> int | None:
    """Return where the array's first element lies, None for no array.

    Raises:
        KernelError: another dtype, or not in C order: C can't tell.

    """
    if array is None:
        return None
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise KernelError(
            f"a kernel was handed {array.dtype} {array.shape} (C order: "
            f"{array.flags.c_contiguous}); it takes {np.dtype(dtype)} in C order"
        )
    return array.ctypes.data


def _f32(array: NDArray[Any] | None) -> int | None:
    return address(array, np.float32)


def _i8(array: NDArray[Any] | None) -> int | None:
    return address(array, np.int8)


def _i16(array: NDArray[Any] | None) -> int | None:
    return address(array, np.int16)


def _i32(array: NDArray[Any] | None) -> int | None:
    return address(array, np.int32)


def _i64(array: NDArray[Any] | None) -> int | None:
    return address(array, np.int64)
