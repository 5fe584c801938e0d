"""The combination: probabilities that sum, no dependence on company, and honest weights files."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.retrieval.shortlist import Evidence, RetrievalWeights
from router.scoring import (
    ModelReading,
    ModelWeights,
    NoneWeights,
    ScoringWeights,
    WeightsError,
    combine,
    load_weights,
    log_sum_exp,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

WEIGHTS = ScoringWeights(
    RetrievalWeights(cosine=10.0, bm25=0.2, verbatim=6.0),
    ModelWeights(log_probability=0.5),
    NoneWeights(bias=-1.0, best_cosine=-6.0, second_cosine=-1.0, confidence=-0.3, model_none=0.2),
)
scores_lists = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


def evidence_of(scores: list[float]) -> Evidence:
    """Make evidence of given scores."""
    values = np.array(scores, dtype=np.float64)
    count = len(values)
    return Evidence(
        tools=np.arange(count, dtype=np.int64),
        cosine=np.tanh(values),
        bm25=np.zeros(count),
        verbatim=np.zeros(count, dtype=bool),
        worded=np.zeros(count, dtype=bool),
        score=values,
    )


def reading_of(listed: list[int], raw: list[float], none: float) -> ModelReading:
    """Make a reading from unnormalised values."""
    whole = np.array([*raw, none], dtype=np.float64)
    whole -= np.log(np.exp(whole - whole.max()).sum()) + whole.max()
    return ModelReading(np.array(listed, dtype=np.int64), whole[:-1], float(whole[-1]))


@given(scores_lists, st.randoms(use_true_random=False))
def test_the_sum_of_exponentials_has_one_value_in_any_order(
    values: list[float], random: random.Random
):
    """Shuffling the tools cannot change a bit of the normaliser."""
    array = np.array(values)
    shuffled = list(values)
    random.shuffle(shuffled)
    assert log_sum_exp(array) == log_sum_exp(np.array(shuffled))
    assert log_sum_exp(array) == pytest.approx(math.log(sum(map(math.exp, values))), abs=1e-9)


@given(scores_lists, st.data())
def test_probabilities_sum_to_one_and_the_list_keeps_its_share(
    values: list[float], data: st.DataObject
):
    """The model deals out the share of the listed tools among them and touches no other."""
    evidence = evidence_of(values)
    listed = evidence.best(data.draw(st.integers(1, len(values)))).tolist()
    raw = data.draw(st.lists(st.floats(-9, 0), min_size=len(listed), max_size=len(listed)))
    with_model = combine(WEIGHTS, evidence, reading_of(listed, raw, -1.0))
    alone = combine(WEIGHTS, evidence)
    total = math.fsum(with_model.probabilities.tolist()) + with_model.none_probability
    assert total == pytest.approx(1.0, abs=1e-9)
    assert log_sum_exp(with_model.log_scores[listed]) == pytest.approx(
        log_sum_exp(alone.log_scores[listed]), abs=1e-9
    )
    others = np.setdiff1d(np.arange(len(values)), listed)
    assert (with_model.log_scores[others] == alone.log_scores[others]).all()


def test_the_model_can_overturn_the_prior_within_its_list():
    """A model sure of the second tool lifts it over the first."""
    evidence = evidence_of([1.0, 0.9, 0.2])
    scores = combine(WEIGHTS, evidence, reading_of([0, 1], [-8.0, 0.0], -9.0))
    assert scores.best(1).tolist()[0] == 1
    assert evidence.best(1).tolist()[0] == 0


def test_a_model_that_prefers_none_raises_its_probability():
    """The none leaf is evidence; so are low cosines."""
    evidence = evidence_of([0.5, 0.1])
    low = combine(WEIGHTS, evidence, reading_of([0, 1], [0.0, 0.0], -5.0)).none_probability
    high = combine(WEIGHTS, evidence, reading_of([0, 1], [-5.0, -5.0], 0.0)).none_probability
    assert high > low
    far = combine(WEIGHTS, evidence_of([-3.0, -4.0])).none_probability
    assert far > combine(WEIGHTS, evidence).none_probability


def test_one_tool_is_enough():
    """A catalog or a rule of one tool has a prior of one and no second cosine."""
    scores = combine(WEIGHTS, evidence_of([0.3]), reading_of([0], [-0.1], -2.0))
    assert scores.log_scores[0] == pytest.approx(0.0, abs=1e-9)
    assert scores.best(1).tolist() == [0]


def test_the_shipped_weights_are_sound_and_hold_no_rows():
    """Better similarity must never count against a tool, and the file carries numbers only."""
    weights = load_weights()
    assert weights.retrieval.cosine > 0
    assert weights.retrieval.bm25 > 0
    assert weights.retrieval.verbatim > 0
    assert weights.model.log_probability >= 0
    assert weights.none.best_cosine + weights.none.second_cosine < 0


def document() -> dict[str, Any]:
    """Make a sound weights file."""
    return {
        "format": 1,
        "weights": {
            "retrieval": {"cosine": 1.0, "bm25": 1.0, "verbatim": 1.0},
            "model": {"log_probability": 1.0},
            "none": {
                "bias": 0.0,
                "best_cosine": 0.0,
                "second_cosine": 0.0,
                "confidence": 0.0,
                "model_none": 0.0,
            },
        },
    }


def test_a_weights_file_is_read_back(tmp_path: Path):
    """What is written is what is used."""
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(document()))
    weights = load_weights(path)
    assert weights.retrieval == RetrievalWeights(1.0, 1.0, 1.0)
    assert weights.model == ModelWeights(1.0)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format=2),
        lambda d: d.pop("weights"),
        lambda d: d["weights"].pop("none"),
        lambda d: d["weights"].update(extra={"x": 1.0}),
        lambda d: d["weights"]["model"].update(unknown=1.0),
        lambda d: d["weights"]["model"].update(log_probability=float("nan")),
        lambda d: d["weights"]["model"].update(log_probability="high"),
        lambda d: d["weights"].update(model=[1, 2]),
    ],
)
def test_a_foreign_weights_file_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
):
    """Nothing missing, unknown or not finite is accepted."""
    content = document()
    change(content)
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(content))
    with pytest.raises(WeightsError):
        load_weights(path)


def test_a_weights_file_that_is_not_json_is_named(tmp_path: Path):
    """The message says which file."""
    path = tmp_path / "weights.json"
    path.write_text("{")
    with pytest.raises(WeightsError, match=r"weights\.json"):
        load_weights(path)
