"""From evidence and model log-probabilities to calibrated probabilities.

Owns the log-linear combination, its weights (`scoring_weights.json`, written by
`python -m router.fit_scoring`) and the probability that no tool fits. Everything is per request:
nothing of another request, nor of a batch, enters a number. Never retrieves and never runs a model.

The combination, for the allowed tools of one request:

1. *prior*: a softmax over all of them of ``cosine * w1 + bm25 * w2 + verbatim * w3``;
2. *model*: within the tools the model read, their joint share of the prior is dealt out anew by a
   softmax of ``log prior + w4 * log p(model)``; the others keep theirs;
3. *none*: a logistic regression on the best cosines, the prior's confidence and the model's own
   log-probability of "no tool fits"; the tools share what it leaves.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from router.retrieval.ranking import best_first
from router.retrieval.shortlist import RetrievalWeights

if TYPE_CHECKING:
    import numpy.typing as npt

    from router.retrieval.shortlist import Evidence

WEIGHTS_FORMAT: Final = 1
SHIPPED_WEIGHTS: Final = Path(__file__).with_name("scoring_weights.json")

NONE_THRESHOLD: Final = 0.5
"""From this probability on "no tool fits" is the answer. Below it some tool more likely fits than
none, and the best one is answered even where its own share is smaller."""

_FIXED_POINT: Final = float(1 << 40)
"""Resolution of a summed probability: whole numbers add in any order without rounding."""


class WeightsError(ValueError):
    """The weights file is not what this program reads."""


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """What the language model's reading of the list is worth.

    Attributes:
        log_probability: times its log-probability of the name among the listed tools.

    """

    log_probability: float


@dataclass(frozen=True, slots=True)
class NoneWeights:
    """Logistic regression for "no tool fits": positive means it fits less.

    Attributes:
        bias: constant, moved to the stated base rate.
        best_cosine: times the highest cosine of an allowed tool.
        second_cosine: times the second highest (0 when there is one tool).
        confidence: times the log-probability of the best tool under the prior.
        model_none: times the model's log-odds of "no tool fits" against all listed tools.

    """

    bias: float
    best_cosine: float
    second_cosine: float
    confidence: float
    model_none: float


@dataclass(frozen=True, slots=True)
class ScoringWeights:
    """All weights of the combination, in nats."""

    retrieval: RetrievalWeights
    model: ModelWeights
    none: NoneWeights

    @classmethod
    def from_json(cls, document: Any) -> ScoringWeights:
        """Read the ``weights`` of a weights file.

        Raises:
            WeightsError: a part is missing, unknown, or no finite number.

        """
        if not isinstance(document, dict) or document.get("format") != WEIGHTS_FORMAT:
            raise WeightsError(
                f"scoring weights: format {WEIGHTS_FORMAT} is read; "
                "write the file anew with `python -m router.fit_scoring`"
            )
        parts: dict[str, dict[str, float]] = document.get("weights") or {}
        try:
            weights = cls(
                RetrievalWeights(**parts["retrieval"]),
                ModelWeights(**parts["model"]),
                NoneWeights(**parts["none"]),
            )
            numbers = [float(value) for part in parts.values() for value in part.values()]
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise WeightsError(f"scoring weights: {error!r}") from error
        if set(parts) != {"retrieval", "model", "none"} or not all(map(math.isfinite, numbers)):
            raise WeightsError("scoring weights: unknown parts or numbers that are not finite")
        return weights


def load_weights(path: Path | None = None) -> ScoringWeights:
    """Load a weights file, by default the one shipped.

    Raises:
        WeightsError: the file is not JSON or not what this program reads.

    """
    source = path or SHIPPED_WEIGHTS
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsError(f"scoring weights {source}: not JSON ({error})") from error
    return ScoringWeights.from_json(document)


@dataclass(frozen=True, slots=True)
class ModelReading:
    """What the model made of the list.

    Attributes:
        listed: (m,) int64 positions into the evidence, in the order of the list.
        log_probabilities: (m,) f64 of the listed names, under the distribution that also holds
            "no tool fits".
        none_log_probability: of "no tool fits".

    """

    listed: npt.NDArray[np.int64]
    log_probabilities: npt.NDArray[np.float64]
    none_log_probability: float

    def none_log_odds(self) -> float:
        """Log-odds of "no tool fits" against all listed tools together."""
        return self.none_log_probability - log_sum_exp(self.log_probabilities)


@dataclass(frozen=True, slots=True)
class Scores:
    """Calibrated outcome for every allowed tool of one request.

    Attributes:
        log_scores: (n,) f64 log-probability given that some tool fits.
        probabilities: (n,) f64; with `none_probability` they sum to 1 (within 1e-9).
        none_probability: that no tool fits.
        none_log_odds: the same in nats.

    """

    log_scores: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]
    none_probability: float
    none_log_odds: float

    def best(self, count: int) -> npt.NDArray[np.int64]:
        """Return at most `count` positions, most probable first, ties by tool index."""
        return best_first(self.log_scores, count)


def log_sum_exp(values: npt.NDArray[np.float64]) -> float:
    """Return log(sum(exp(values))), the same bits for every order of the values."""
    top = float(values.max())
    total = int(np.floor(np.exp(values - top) * _FIXED_POINT).astype(np.int64).sum())
    return top + math.log(total / _FIXED_POINT)


def log_softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return (n,) log-probabilities proportional to exp(values)."""
    return values - log_sum_exp(values)


def none_features(
    evidence: Evidence, prior: npt.NDArray[np.float64], reading: ModelReading | None
) -> tuple[float, float, float, float]:
    """Return the four inputs of the "no tool fits" regression, in the order of `NoneWeights`."""
    best = evidence.cosine[best_first(evidence.cosine, 2)].tolist()
    return (
        best[0],
        best[1] if len(best) > 1 else 0.0,
        float(prior.max()),
        0.0 if reading is None else reading.none_log_odds(),
    )


def combine(
    weights: ScoringWeights, evidence: Evidence, reading: ModelReading | None = None
) -> Scores:
    """Score every allowed tool; without `reading` the prior alone speaks.

    `evidence` must be gathered with ``weights.retrieval`` and hold at least one tool.
    """
    prior = log_softmax(evidence.score)
    log_scores = prior.copy()
    if reading is not None:
        share = prior[reading.listed]
        dealt = share + weights.model.log_probability * reading.log_probabilities
        log_scores[reading.listed] = log_sum_exp(share) + log_softmax(dealt)
    best, second, confidence, model_none = none_features(evidence, prior, reading)
    log_odds = (
        weights.none.bias
        + weights.none.best_cosine * best
        + weights.none.second_cosine * second
        + weights.none.confidence * confidence
        + weights.none.model_none * model_none
    )
    none_probability = 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, log_odds))))
    return Scores(
        log_scores=log_scores,
        probabilities=np.exp(log_scores) * (1.0 - none_probability),
        none_probability=none_probability,
        none_log_odds=log_odds,
    )
