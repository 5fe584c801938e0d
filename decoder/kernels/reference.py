"""NUMERICS.md, executable: the slow and plain integer reference in NumPy.

Owns nothing but the definitions. Every NumPy operation here is a single IEEE operation on each
element (add, subtract, multiply, divide, square root, convert), so the order of operations is the
order of the lines. No library reduction is used on floats; exact integer products go through f64,
where every partial sum is below 2^53 and so exact in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decoder.kernels import layout
from decoder.kernels.base import (
    BLOCK_POSITIONS,
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
from decoder.kernels.layout import HeadIntegers

if TYPE_CHECKING:
    from numpy.typing import NDArray

LANES = 32
PROBABILITY_ONE = np.float32(2**22)
QMAX = np.float32(32639)
ROUND_MAGIC = np.float32(12582912.0)
TINY_AMAX_BITS = 0x0DA24260
INFINITE_BITS = 0x7F800000
_F = np.float32


def round_even(x: F32) -> F32:
    """Round half to even by adding and removing 1.5 * 2^23; |x| < 2^22."""
    return (x + ROUND_MAGIC) - ROUND_MAGIC


def exp_stated(x: F32) -> F32:
    """Exponential of x <= 0 (NUMERICS 4)."""
    clamped = np.where(x < _F(-87), _F(-87), x)
    n = round_even(clamped * _F(1.44269504))
    r = clamped - n * _F(0.693359375)
    r = r - n * _F(-2.12194440e-4)
    p = np.full_like(r, _F(1.38888889e-3))
    for c in (8.33333333e-3, 4.16666667e-2, 1.66666667e-1, 0.5, 1.0, 1.0):
        p = p * r + _F(c)
    scale = ((n.astype(np.int32) + 127) << 23).view(np.float32)
    y: F32 = np.where(x < _F(-87), _F(0), p * scale)
    return y


def gelu_stated(x: F32) -> F32:
    """X * Phi(x) with erf by Abramowitz and Stegun 7.1.26 (NUMERICS 9)."""
    z = np.abs(x) * _F(0.707106781)
    t = _F(1) / (_F(1) + _F(0.3275911) * z)
    p = np.full_like(t, _F(1.061405429))
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        p = p * t + _F(c)
    p = p * t
    tail = (p * exp_stated(-(z * z))) * _F(0.5)
    y: F32 = x * np.where(x >= 0, _F(1) - tail, tail)
    return y


def lane_sum(x: F32) -> F32:
    """Sum the last axis: lane l adds elements l, l+32, ..., then the tree 16, 8, 4, 2, 1."""
    n = x.shape[-1]
    lane = np.zeros((*x.shape[:-1], LANES), np.float32)
    for start in range(0, n, LANES):
        piece = x[..., start : start + LANES]
        lane[..., : piece.shape[-1]] = lane[..., : piece.shape[-1]] + piece
    for width in (16, 8, 4, 2, 1):
        lane = lane[..., :width] + lane[..., width : 2 * width]
    total: F32 = lane[..., 0]
    return total


def rms_rows(x: F32, weight: F32, eps: float) -> F32:
    """RMSNorm of the last axis."""
    mean = lane_sum(x * x) / _F(x.shape[-1])
    r = _F(1) / np.sqrt(mean + _F(eps))
    y: F32 = (x * r[..., None]) * weight
    return y


def layernorm_rows(x: F32, weight: F32, bias: F32, eps: float) -> F32:
    """LayerNorm of the last axis, both sums by lanes."""
    n = _F(x.shape[-1])
    centred = x - (lane_sum(x) / n)[..., None]
    r = _F(1) / np.sqrt(lane_sum(centred * centred) / n + _F(eps))
    y: F32 = (centred * r[..., None]) * weight + bias
    return y


def quantise_rows(x: F32) -> Quantised:
    """16-bit symmetric quantisation of each row into two int8 planes (NUMERICS 2)."""
    bits = (x.view(np.uint32) & np.uint32(0x7FFFFFFF)).max(axis=1)
    sound = (bits >= TINY_AMAX_BITS) & (bits < INFINITE_BITS)
    amax = np.where(sound, bits, np.float32(1).view(np.uint32)).astype(np.uint32).view(np.float32)
    inverse = QMAX / amax
    safe = np.where(sound[:, None], x, _F(0))
    q = round_even(safe * inverse[:, None]).astype(np.int32)
    high = (q + 128) >> 8
    planes = np.concatenate([high, q - high * 256]).astype(np.int8)
    scale = np.where(sound, amax / QMAX, np.where(bits >= INFINITE_BITS, _F(np.nan), _F(0)))
    return Quantised(planes, scale.astype(np.float32))


def dequantise_rows(acc: I32, row_scale: F32, column_scale: F32) -> F32:
    """(256 * high + low) * (row scale * column scale), each step rounded to f32."""
    rows = acc.shape[0] // 2
    t = acc[:rows].astype(np.float32) * _F(256) + acc[rows:].astype(np.float32)
    return t * (row_scale[:, None] * column_scale[None, :])


class ReferenceKernels:
    """`Kernels` in plain NumPy. Slow: for proofs and golden vectors, and where no compiler is."""

    name = "reference"
    guess_tokens = 1

    def product(self, planes: I8, weight: QuantisedWeight) -> I32:
        """Exact product through f64: |sum| < 2^31 is far below 2^53."""
        exact = planes.astype(np.float64) @ weight.values.astype(np.float64).T
        return exact.astype(np.int32)

    def dots(self, rows: I16, row: I16) -> I32:
        """Exact, in integers throughout."""
        product: I32 = rows.astype(np.int32) @ row.astype(np.int32)
        return product

    def embed(self, table: QuantisedWeight, ids: I32) -> F32:
        """Dequantise the rows of the table."""
        return table.values[ids].astype(np.float32) * table.scale[ids][:, None]

    def quantise(self, x: F32) -> Quantised:
        """NUMERICS 2."""
        return quantise_rows(x)

    def rmsnorm_quantise(self, x: F32, weight: F32, eps: float) -> Quantised:
        """NUMERICS 3, then 2."""
        return quantise_rows(rms_rows(x, weight, eps))

    def dequantise(
        self, acc: I32, row_scale: F32, column_scale: F32, bias: F32 | None, into: F32 | None
    ) -> F32:
        """NUMERICS 2, the way back."""
        y = dequantise_rows(acc, row_scale, column_scale)
        if bias is not None:
            y = y + bias
        if into is None:
            return y
        into[...] = into + y
        return into

    def residual_rmsnorm_quantise(
        self, acc: I32, row_scale: F32, column_scale: F32, weight: F32, eps: float, x: F32
    ) -> Quantised:
        """Residual add, RMSNorm, quantise."""
        x[...] = x + dequantise_rows(acc, row_scale, column_scale)
        return quantise_rows(rms_rows(x, weight, eps))

    def silu_mul_quantise(self, acc: I32, row_scale: F32, column_scale: F32) -> Quantised:
        """NUMERICS 5."""
        y = dequantise_rows(acc, row_scale, column_scale)
        n = y.shape[1] // 2
        gate, up = y[:, :n], y[:, n:]
        e = exp_stated(-np.abs(gate))
        sigmoid = np.where(gate >= 0, _F(1), e) / (_F(1) + e)
        return quantise_rows((gate * sigmoid) * up)

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
        """NUMERICS 6."""
        y = dequantise_rows(acc, row_scale, column_scale)
        if bias is not None:
            y = y + bias
        y = y.reshape(len(y), shape.heads + 2 * shape.kv_heads, shape.head_dim)
        q = y[:, : shape.heads]
        k = y[:, shape.heads : shape.heads + shape.kv_heads]
        v = y[:, shape.heads + shape.kv_heads :]
        if q_norm is not None:
            q = rms_rows(q, q_norm, eps)
        if k_norm is not None:
            k = rms_rows(k, k_norm, eps)
        if rotary is not None:
            q, k = _rotate(q, rotary, position), _rotate(k, rotary, position)
        layout.store(cache, slot, _quantise_heads(k), _quantise_heads(v))
        return np.ascontiguousarray(q)

    def attention_quantise(
        self,
        q: F32,
        cache: KVLayer,
        path: PathIndex,
        softmax_scale: float,
        shape: HeadShape,
    ) -> Quantised:
        """NUMERICS 7, one row at a time."""
        group = shape.heads // shape.kv_heads
        out = np.empty((len(q), shape.heads, shape.head_dim), np.float32)
        for row in range(len(q)):
            tail = path.tail[path.tail_offsets[row] : path.tail_offsets[row + 1]]
            logical = np.concatenate([np.arange(path.prefix[row], dtype=np.int32), tail])
            block = path.table[path.table_offsets[row] + logical // BLOCK_POSITIONS]
            slot = block.astype(np.int64) * BLOCK_POSITIONS + logical % BLOCK_POSITIONS
            keys, values = layout.load(cache, slot, shape.head_dim)
            query = _quantise_heads(q[row : row + 1] * _F(softmax_scale))
            for head in range(shape.heads):
                own = head // group
                out[row, head] = _attend(
                    query.integers[0, head],
                    query.scale[0, head],
                    keys.integers[:, own],
                    keys.scale[:, own],
                    values.integers[:, own],
                    values.scale[:, own],
                )
        return quantise_rows(out.reshape(len(q), -1))

    def gathered_head(
        self, hidden: Quantised, table: QuantisedWeight, want_row: I32, want_token: I32
    ) -> F32:
        """NUMERICS 8."""
        rows = len(hidden.scale)
        w = table.values[want_token].astype(np.int64)
        high = (hidden.planes[want_row].astype(np.int64) * w).sum(axis=1)
        low = (hidden.planes[rows + want_row].astype(np.int64) * w).sum(axis=1)
        t = high.astype(np.float32) * _F(256) + low.astype(np.float32)
        logits: F32 = t * (hidden.scale[want_row] * table.scale[want_token])
        return logits

    def layernorm_quantise(self, x: F32, weight: F32, bias: F32, eps: float) -> Quantised:
        """NUMERICS 9."""
        x[...] = layernorm_rows(x, weight, bias, eps)
        return quantise_rows(x)

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
        """NUMERICS 9."""
        x[...] = layernorm_rows(
            x + (dequantise_rows(acc, row_scale, column_scale) + bias), weight, norm_bias, eps
        )
        return quantise_rows(x)

    def gelu_quantise(self, acc: I32, row_scale: F32, column_scale: F32, bias: F32) -> Quantised:
        """NUMERICS 9."""
        return quantise_rows(gelu_stated(dequantise_rows(acc, row_scale, column_scale) + bias))

    def exp(self, x: F32) -> F32:
        """NUMERICS 4."""
        return exp_stated(x)

    def gelu(self, x: F32) -> F32:
        """NUMERICS 9."""
        return gelu_stated(x)


def _quantise_heads(x: F32) -> HeadIntegers:
    """Quantise each head of x (rows, heads, d) on its own."""
    rows, heads, d = x.shape
    flat = quantise_rows(np.ascontiguousarray(x).reshape(rows * heads, d))
    high, low = flat.planes[: rows * heads], flat.planes[rows * heads :]
    integers = high.astype(np.int32) * 256 + low
    return HeadIntegers(integers.reshape(rows, heads, d), flat.scale.reshape(rows, heads))


def _joined(left: I32, right: I32) -> F32:
    """Sum left (..., n) times right (n, m) of 16-bit integers, joined from its planes (..., m)."""
    left_high = (left + 128) >> 8
    right_high = (right + 128) >> 8
    left_low, right_low = left - left_high * 256, right - right_high * 256

    def exact(a: I32, b: I32) -> NDArray[np.int64]:
        # Through f64: every partial sum is an integer far below 2^53.
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)

    outer = exact(left_high, right_high).astype(np.float32)
    middle = (exact(left_high, right_low) + exact(left_low, right_high)).astype(np.float32)
    inner = exact(left_low, right_low).astype(np.float32)
    return (outer * _F(65536) + middle * _F(256)) + inner


def _attend(  # one query vector (d,) over n positions
    query: I32, query_scale: np.float32, keys: I32, key_scale: F32, values: I32, value_scale: F32
) -> F32:
    score = _joined(query[None], np.ascontiguousarray(keys.T))[0] * (query_scale * key_scale)
    p = exp_stated(score - score.max())
    sound = np.where(np.isnan(p), _F(0), p)  # a row that is not finite is lost anyway
    total = np.float32(float(round_even(sound * PROBABILITY_ONE).astype(np.int64).sum()) * 2**-22)
    weights = quantise_rows((p * value_scale)[None])
    integers = weights.planes[:1].astype(np.int32) * 256 + weights.planes[1:]
    y: F32 = _joined(integers, values)[0] * weights.scale[0] / total
    return y


def _rotate(x: F32, rotary: tuple[F32, F32], position: I32) -> F32:
    """Rotate half-split pairs: (rows, heads, d) by tables (positions, d/2)."""
    cosine, sine = rotary[0][position][:, None, :], rotary[1][position][:, None, :]
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)
