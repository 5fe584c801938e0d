"""What a set of kernels must offer. Two implement it: `reference` and `native`, bit for bit alike.

Owns the interface and the shapes. Never computes. The definitions are in `decoder/NUMERICS.md`.

Shapes: `rows` is the number of packed rows, `planes` is (2*rows, n) int8 with the high planes of
all rows first, `scale` is (rows,) f32, `acc` is the exact (2*rows, n) int32 product of planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

F32: TypeAlias = NDArray[np.float32]
I8: TypeAlias = NDArray[np.int8]
I16: TypeAlias = NDArray[np.int16]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]

BLOCK_POSITIONS = 64
"""Positions in one KV block."""


@dataclass(frozen=True, slots=True)
class QuantisedWeight:
    """A linear layer's weights.

    Attributes:
        values: (out, in) int8, C order.
        scale: (out,) f32; the float weight is about `values * scale[:, None]`.

    """

    values: I8
    scale: F32


@dataclass(frozen=True, slots=True)
class Quantised:
    """Rows of activations as 16-bit integers in two int8 planes.

    Attributes:
        planes: (2*rows, n) int8, high planes of all rows first; q = 256*high + low.
        scale: (rows,) f32; NaN marks a row that was not finite.

    """

    planes: I8
    scale: F32


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Attention geometry: query heads, key/value heads and the size of one head."""

    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class PathIndex:
    """Where each row's keys and values lie.

    Attributes:
        table: (sum of blocks,) int32, block numbers of every sequence in the pass, concatenated.
        table_offsets: (rows,) int64, where the row's sequence begins in `table`.
        prefix: (rows,) int32, how many logical slots from 0 on the row sees.
        tail: (sum,) int32, further logical slots the row sees, each once and none below `prefix`.
        tail_offsets: (rows+1,) int64 into `tail`.

    """

    table: I32
    table_offsets: I64
    prefix: I32
    tail: I32
    tail_offsets: I64


@dataclass(frozen=True, slots=True)
class KVLayer:
    """Keys and values of one layer, 16 bits in two int8 planes, in blocks of 64 positions.

    The bytes lie as products read them; `decoder.kernels.layout` says how and reads them back.

    Attributes:
        keys: (blocks, kv_heads, key bytes) int8.
        values: (blocks, kv_heads, value bytes) int8.
        key_scale: (blocks, kv_heads, 64) f32; NaN where a key was not finite.
        value_scale: (blocks, kv_heads, 64) f32.

    """

    keys: I8
    values: I8
    key_scale: F32
    value_scale: F32


class Kernels(Protocol):
    """The per-row operations of NUMERICS.md."""

    name: str
    guess_tokens: int
    """Rows that a pass takes along at about the cost of one: what may be run on a guess."""

    def product(self, planes: I8, weight: QuantisedWeight) -> I32:
        """Return planes (m, k) times weight (n, k) transposed, exactly: (m, n) int32."""
        ...

    def embed(self, table: QuantisedWeight, ids: I32) -> F32:
        """Return the dequantised rows `ids` of the table: (rows, n)."""
        ...

    def quantise(self, x: F32) -> Quantised:
        """Quantise each row of x (rows, n) to 16 bits."""
        ...

    def rmsnorm_quantise(self, x: F32, weight: F32, eps: float) -> Quantised:
        """RMSNorm each row of x (rows, n), then quantise it. x is left as it is."""
        ...

    def dequantise(
        self, acc: I32, row_scale: F32, column_scale: F32, bias: F32 | None, into: F32 | None
    ) -> F32:
        """Return (rows, n) f32; where `into` is given it is added to that array and returned."""
        ...

    def residual_rmsnorm_quantise(
        self, acc: I32, row_scale: F32, column_scale: F32, weight: F32, eps: float, x: F32
    ) -> Quantised:
        """Add the dequantised product to x in place, then RMSNorm and quantise."""
        ...

    def silu_mul_quantise(self, acc: I32, row_scale: F32, column_scale: F32) -> Quantised:
        """From a product holding gate then up (2*rows, 2*n): quantised silu(gate) * up."""
        ...

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
        """Return rotated queries (rows, heads, head_dim); store keys and values at `slot`.

        rotary: cosine and sine tables (positions, head_dim/2) f32.
        """
        ...

    def attention_quantise(
        self,
        q: F32,
        cache: KVLayer,
        path: PathIndex,
        softmax_scale: float,
        shape: HeadShape,
    ) -> Quantised:
        """Attend each row over its own path; quantise the (rows, heads*head_dim) result."""
        ...

    def gathered_head(
        self, hidden: Quantised, table: QuantisedWeight, want_row: I32, want_token: I32
    ) -> F32:
        """Return logits (wanted,) f32 of the (row, token) pairs asked for, and of no other."""
        ...

    def layernorm_quantise(self, x: F32, weight: F32, bias: F32, eps: float) -> Quantised:
        """LayerNorm x (rows, n) in place, then quantise."""
        ...

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
        """Add the dequantised product and its bias to x, LayerNorm in place, then quantise."""
        ...

    def gelu_quantise(self, acc: I32, row_scale: F32, column_scale: F32, bias: F32) -> Quantised:
        """Quantised gelu of the dequantised product with its bias."""
        ...

    def dots(self, rows: I16, row: I16) -> I32:
        """Return rows (n, k) times one row (k,), exactly: (n,) int32.

        The caller sees to it that every sum fits: `k * max|rows| * max|row|` below 2^31 will do.
        """
        ...

    def exp(self, x: F32) -> F32:
        """Return the stated exponential of x (n,), for proofs."""
        ...

    def gelu(self, x: F32) -> F32:
        """Return the stated gelu of x (n,), for proofs."""
        ...
