"""The stated logarithm, log-softmax and rotary tables against high-precision truth."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.errors import UnsupportedModelError
from decoder.logprob import log_softmax, log_stated
from decoder.rope_scaling import RopeScaling, frequencies
from decoder.rotary import rotary_tables


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_log_is_within_a_few_ulp(x: float) -> None:
    """Against decimals of 40 digits."""
    with decimal.localcontext(prec=40):
        true = decimal.Decimal(x).ln()
        error = abs(decimal.Decimal(log_stated(x)) - true)
    assert error <= decimal.Decimal(4 * math.ulp(max(abs(float(true)), 0.05)))


@given(st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=300))
def test_log_softmax_is_a_distribution_in_any_order(values: list[float]) -> None:
    """Probabilities sum to one, and a permutation of the children permutes the bits."""
    logits = np.array(values, np.float32)
    found = log_softmax(logits)
    assert abs(np.exp(found).sum() - 1) < 1e-5
    order = np.random.default_rng(len(values)).permutation(len(values))
    assert log_softmax(logits[order]).tobytes() == found[order].tobytes()


def test_rotary_tables_are_cosines_and_sines() -> None:
    """Within half an ulp of binary32 of the standard library's, at 8,192 positions."""
    cosine, sine = rotary_tables(8192, 64, 100000.0)
    assert cosine.shape == sine.shape == (8192, 32)
    frequency = np.array(frequencies(64, 100000.0, None))
    expected = [100000.0 ** (-2 * i / 64) for i in range(32)]
    assert np.allclose(frequency, expected, rtol=1e-15, atol=0)
    angle = np.arange(8192)[:, None] * frequency[None, :]
    assert np.abs(cosine - np.cos(angle)).max() < 6.1e-8
    assert np.abs(sine - np.sin(angle)).max() < 6.1e-8


@pytest.mark.parametrize(
    ("theta", "scaling", "named"),
    [
        (1e4, RopeScaling("linear", 1e-9), "radians"),
        (1e4, RopeScaling("factors", factors=(1e-300,) * 4), "radians"),
        (1e4, RopeScaling("factors", factors=(1.0,) * 3), "3 factors"),
        (1.0, RopeScaling("yarn", 4.0, 64), "rope_theta"),
        (1e-300, None, "radians"),
    ],
)
def test_rotations_that_lose_their_bits_are_refused(
    theta: float, scaling: RopeScaling | None, named: str
) -> None:
    """Angles beyond exact reduction never become a table."""
    with pytest.raises(UnsupportedModelError, match=named):
        rotary_tables(64, 8, theta, scaling)
