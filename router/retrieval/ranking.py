"""The best few of many scores.

Owns the one order that ranks tools everywhere: higher score first, ties by position. Never sorts
what nobody will look at: putting a whole catalog in order costs more than scoring it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def best_first(scores: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Return the positions of the `count` highest scores, best first, ties by position.

    Args:
        scores: (n,) f64 without NaN.
        count: how many; all n where there are fewer.

    Returns:
        (min(count, n),) int64, the same as the head of a whole stable sort.

    """
    rest = len(scores) - max(count, 0)
    if rest <= 0:
        return np.argsort(-scores, kind="stable")
    if rest == len(scores):
        return np.empty(0, np.int64)
    least = np.partition(scores, rest)[rest]
    near = np.flatnonzero(scores >= least)
    found: npt.NDArray[np.int64] = near[np.argsort(-scores[near], kind="stable")][:count]
    return found
