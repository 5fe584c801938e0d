"""Arguments never contradict their outcome, and wishes stay within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from router.arguments.values import (
    MAX_ARGUMENT_TOKENS,
    ArgumentOutcome,
    Arguments,
    ArgumentWish,
)

WHY = {"code": "c", "reason": "r"}


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        (ArgumentOutcome.DECODED, {}),
        (ArgumentOutcome.DECODED, {"json": "{}", **WHY}),
        (ArgumentOutcome.DECODED, {"json": "{}", "missing": ("/a",)}),
        (ArgumentOutcome.MISSING, {"json": "{}"}),
        (ArgumentOutcome.MISSING, {"missing": ("/a",)}),
        (ArgumentOutcome.UNAVAILABLE, {}),
        (ArgumentOutcome.INVALID, {"json": "{}", **WHY}),
        (ArgumentOutcome.OVER_BUDGET, {"missing": ("/a",), **WHY}),
    ],
)
def test_what_contradicts_the_outcome_is_refused(
    outcome: ArgumentOutcome, fields: dict[str, Any]
) -> None:
    """Above all: a text beside an outcome that gives none out."""
    with pytest.raises(ValueError, match=str(outcome.value)):
        Arguments(outcome, **fields)


@pytest.mark.parametrize("tokens", [0, -1, MAX_ARGUMENT_TOKENS + 1])
def test_a_wish_stays_within_bounds(tokens: int) -> None:
    """At least one token, at most what the server may be asked for."""
    with pytest.raises(ValueError, match=str(MAX_ARGUMENT_TOKENS)):
        ArgumentWish(max_tokens=tokens)
