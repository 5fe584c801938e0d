"""The numerical part of fitting the scoring weights: two small convex problems.

Owns a conditional (softmax) and a binary logistic regression by Newton's method with a ridge.
Never reads data and never runs a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    import numpy.typing as npt

    _Vector: TypeAlias = npt.NDArray[np.float64]
    _Derivatives: TypeAlias = Callable[[_Vector], tuple[float, _Vector, _Vector]]

MAX_STEPS = 100
TOLERANCE = 1e-9


class FitError(RuntimeError):
    """The data cannot determine the weights."""


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """One observed choice among alternatives.

    Attributes:
        features: (alternatives, f) f64.
        offset: (alternatives,) f64 added to the weighted sum, not fitted.
        chosen: index of the right alternative.
        weight: what the row counts.

    """

    features: _Vector
    offset: _Vector
    chosen: int
    weight: float


def fit_choices(rows: Sequence[ChoiceRow], ridge: float) -> _Vector:
    """Return the (f,) weights of a softmax over alternatives that explain the choices best.

    Minimises the weighted mean of -log p(chosen) plus ``ridge * |w|^2 / 2`` in units where every
    feature has unit spread within its alternatives.

    Raises:
        FitError: there are no rows, or Newton's method does not settle.

    """
    if not rows:
        raise FitError("no rows to fit on")
    spread = _spread([row.features - row.features.mean(axis=0) for row in rows])
    total = sum(row.weight for row in rows)

    def derivatives(
        weights: _Vector,
    ) -> tuple[float, _Vector, _Vector]:
        loss = 0.5 * ridge * float(weights @ weights)
        gradient = ridge * weights
        curvature = ridge * np.eye(len(weights))
        for row in rows:
            scaled = row.features / spread
            score = scaled @ weights + row.offset
            score = score - score.max()
            share = np.exp(score)
            normaliser = share.sum()
            share = share / normaliser
            mean = share @ scaled
            part = row.weight / total
            loss -= part * float(score[row.chosen] - np.log(normaliser))
            gradient = gradient - part * (scaled[row.chosen] - mean)
            curvature = curvature + part * (
                (scaled * share[:, None]).T @ scaled - np.outer(mean, mean)
            )
        return loss, gradient, curvature

    return _newton(derivatives, rows[0].features.shape[1]) / spread


def fit_binary(
    features: _Vector,
    labels: npt.NDArray[np.bool_],
    weights: _Vector,
    ridge: float,
) -> _Vector:
    """Return (f + 1,) logistic weights, the constant last (it bears no ridge).

    `features` (n, f), `labels` (n,) and row `weights` (n,).

    Raises:
        FitError: one class is missing, or Newton's method does not settle.

    """
    if labels.all() or not labels.any():
        raise FitError("both classes are needed")
    centre = features.mean(axis=0)
    spread = _spread([features - centre])
    design = np.column_stack(((features - centre) / spread, np.ones(len(features))))
    share = weights / weights.sum()
    penalty = np.append(np.full(features.shape[1], ridge), 1e-9)

    def derivatives(
        beta: _Vector,
    ) -> tuple[float, _Vector, _Vector]:
        score = design @ beta
        signed = np.where(labels, score, -score)
        loss = float((share * np.logaddexp(0, -signed)).sum() + 0.5 * (penalty * beta**2).sum())
        chance = 1 / (1 + np.exp(-score))
        gradient = design.T @ (share * (chance - labels)) + penalty * beta
        curvature = (design * (share * chance * (1 - chance))[:, None]).T @ design
        return loss, gradient, curvature + np.diag(penalty)

    beta = _newton(derivatives, design.shape[1])
    slopes = beta[:-1] / spread
    return np.append(slopes, beta[-1] - float(slopes @ centre))


def _spread(parts: Sequence[_Vector]) -> _Vector:
    squares = sum((part**2).sum(axis=0) for part in parts)
    count = sum(len(part) for part in parts)
    spread: _Vector = np.sqrt(squares / max(count, 1))
    return np.where(spread > 0, spread, 1.0)


def _newton(derivatives: _Derivatives, dimensions: int) -> _Vector:
    """Minimise a smooth convex function by Newton steps, halved until they descend."""
    point = np.zeros(dimensions)
    loss, gradient, curvature = derivatives(point)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(curvature, gradient)
        decrease = float(gradient @ step)
        if decrease < TOLERANCE:
            return point
        size = 1.0
        while size > 1e-6:
            trial = point - size * step
            new = derivatives(trial)
            if new[0] < loss - 1e-4 * size * decrease:
                break
            size /= 2
        else:
            return point
        point, (loss, gradient, curvature) = trial, new
    raise FitError(f"Newton's method did not settle in {MAX_STEPS} steps")
