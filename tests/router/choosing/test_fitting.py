"""The two regressions recover what made the data, and refuse data that cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from router.fitting import ChoiceRow, FitError, fit_binary, fit_choices


def choice_rows(weights: np.ndarray, count: int) -> list[ChoiceRow]:
    """Draw choices among five from known weights."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(count):
        features = rng.normal(size=(5, len(weights))) * [1.0, 30.0][: len(weights)]
        offset = rng.normal(size=5)
        score = features @ weights + offset
        share = np.exp(score - score.max())
        rows.append(ChoiceRow(features, offset, int(rng.choice(5, p=share / share.sum())), 1.0))
    return rows


def test_choices_give_back_the_weights_that_made_them():
    """Within sampling error, whatever the features' scale, and the offset is respected."""
    truth = np.array([1.5, -0.05])
    assert fit_choices(choice_rows(truth, 4_000), 1e-6) == pytest.approx(truth, rel=0.12)


def test_a_feature_that_never_varies_gets_no_weight():
    """A constant says nothing, and does not break the solution."""
    rows = [
        ChoiceRow(np.column_stack((r.features[:, 0], np.ones(5))), r.offset, r.chosen, 1.0)
        for r in choice_rows(np.array([1.0]), 300)
    ]
    assert fit_choices(rows, 1e-4)[1] == pytest.approx(0.0, abs=1e-9)


def test_separable_choices_stay_finite():
    """The ridge bounds weights that the data would push to infinity."""
    rows = [ChoiceRow(np.array([[1.0], [0.0]]), np.zeros(2), 0, 1.0)] * 10
    assert 0 < fit_choices(rows, 1e-4)[0] < 1_000


def test_binary_outcomes_give_back_their_weights():
    """Slopes and constant, with features far from centred."""
    rng = np.random.default_rng(2)
    features = rng.normal(size=(20_000, 2)) * [1.0, 0.1] + [5.0, -3.0]
    chance = 1 / (1 + np.exp(-(features @ [1.0, -8.0] - 29.0)))
    labels = rng.random(len(chance)) < chance
    fitted = fit_binary(features, labels, np.ones(len(labels)), 1e-8)
    assert fitted == pytest.approx([1.0, -8.0, -29.0], rel=0.1)


def test_data_that_cannot_tell_is_refused():
    """No rows, or one class only."""
    with pytest.raises(FitError):
        fit_choices([], 1e-4)
    with pytest.raises(FitError):
        fit_binary(np.ones((3, 1)), np.array([True] * 3), np.ones(3), 1e-4)
