"""Rotary tables, from basic operations only, so that every machine has the same bits.

Owns NUMERICS.md section 6's tables. A platform's `cos`, `sin` and `pow` differ in the last bit;
here the frequencies come from decimals and the series from IEEE additions and products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from decoder.errors import UnsupportedModelError
from decoder.rope_scaling import RopeScaling, frequencies

if TYPE_CHECKING:
    from decoder.kernels.base import F32

F64 = NDArray[np.float64]

# pi/2 in three parts of 33 bits or fewer, so that n * part is exact for n < 2^20 (Cody and Waite).
_HALF_PI_1 = 1.57079632673412561417e00
_HALF_PI_2 = 6.07710050630396597660e-11
_HALF_PI_3 = 2.02226624879595063154e-21
_TWO_OVER_PI = 0.63661977236758138243
_MOST_RADIANS = float(1 << 20)
_ROUND_MAGIC = 6755399441055744.0  # 1.5 * 2^52

_SINE = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000)
_COSINE = (
    -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200,
    1 / 20922789888000,
)  # fmt: skip


def rotary_tables(
    positions: int, head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> tuple[F32, F32]:
    """Return (cosine, sine), each (positions, head_dim/2) f32, of position * theta^(-2i/head_dim).

    With a scaling, of its frequencies, times its attention factor.

    Raises:
        UnsupportedModelError: an angle is too wide to be reduced exactly.

    Source: Su et al., RoFormer (2021), equation 15.

    """
    frequency = np.array(frequencies(head_dim, theta, scaling), np.float64)
    angle = np.arange(positions, dtype=np.float64)[:, None] * frequency[None, :]
    if angle.max(initial=0.0) > _MOST_RADIANS:
        raise UnsupportedModelError(
            f"position {positions - 1} turns by {angle.max()} radians, more than {_MOST_RADIANS}; "
            "check rope_theta and the rope scaling's factors"
        )
    n = (angle * _TWO_OVER_PI + _ROUND_MAGIC) - _ROUND_MAGIC
    r = angle - n * _HALF_PI_1
    r = r - n * _HALF_PI_2
    r = r - n * _HALF_PI_3
    square = r * r
    sine = r + (r * square) * _horner(_SINE, square)
    cosine = 1.0 + square * _horner(_COSINE, square)
    quadrant = n.astype(np.int64) & 3
    cosine_out = np.select(
        [quadrant == 0, quadrant == 1, quadrant == 2], [cosine, -sine, -cosine], sine
    )
    sine_out = np.select(
        [quadrant == 0, quadrant == 1, quadrant == 2], [sine, cosine, -sine], -cosine
    )
    if scaling is not None and scaling.attention_factor != 1.0:
        cosine_out = cosine_out * scaling.attention_factor
        sine_out = sine_out * scaling.attention_factor
    return cosine_out.astype(np.float32), sine_out.astype(np.float32)


def _horner(coefficients: tuple[float, ...], x: F64) -> F64:
    total = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
