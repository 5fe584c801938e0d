"""The best few are the head of the whole order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoder.kernels import make_kernels
from router.retrieval.ranking import best_first
from router.retrieval.semantic import ROW_SCALE, SemanticIndex, to_rows

SCORES = st.lists(st.sampled_from([-7.5, -0.0, 0.0, 0.25, 1.0, 3.0]) | st.floats(-50, 50))


@given(SCORES, st.integers(0, 40))
def test_the_best_few_are_the_head_of_a_stable_sort(values: list[float], count: int):
    """Ties, signed zeros and too large a count included."""
    scores = np.array(values, dtype=np.float64)
    whole = np.argsort(-scores, kind="stable")
    assert best_first(scores, count).tolist() == whole[:count].tolist()


def test_equal_scores_are_ranked_by_position_in_a_large_catalog():
    """A request without a known word scores every tool alike: the first ones are the best."""
    assert best_first(np.zeros(50_000), 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_cosines_are_exact_in_a_large_catalog():
    """Whole numbers are added without rounding, by the kernels that are served."""
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((3_000, 384)).astype(np.float32)
    rows = to_rows(vectors / np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)))
    index = SemanticIndex(rows, np.zeros(len(rows), np.uint64))
    exact = rows.astype(np.int64) @ rows[7].astype(np.int64)
    assert (index.score(rows[7], make_kernels("native", threads=2)) == exact / ROW_SCALE**2).all()
