"""Log-probabilities over the children of a node (NUMERICS.md section 8).

Owns the renormalisation over allowed children. The sum of exponentials is taken in fixed point,
so it is exact and has no order; the logarithm is a stated series, since a platform's own differs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from decoder.kernels.reference import exp_stated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from decoder.kernels.base import F32

FIXED_POINT = float(2**40)
_LN2 = 0.6931471805599453


def log_softmax(logits: F32) -> NDArray[np.float64]:
    """Return log-probabilities (n,) f64 of finite logits (n,) f32, n < 2^23."""
    gap = logits - logits.max()
    fixed = np.rint(exp_stated(gap).astype(np.float64) * FIXED_POINT).astype(np.int64)
    total = int(fixed.sum()) / FIXED_POINT
    result: NDArray[np.float64] = gap.astype(np.float64) - log_stated(total)
    return result


def log_stated(x: float) -> float:
    """Return ln x for finite x > 0, within 4 ulp, by 2*artanh((m-1)/(m+1)) of the mantissa."""
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    z = (mantissa - 1.0) / (mantissa + 1.0)
    square = z * z
    series = 0.0
    for k in range(23, 0, -2):
        series = series * square + 1.0 / k
    return exponent * _LN2 + 2.0 * z * series
