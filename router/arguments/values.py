"""What is asked of arguments and what comes of them, as plain values.

Owns the types that jobs and answers carry between the service and the engine. They hold built-in
types only. Never decodes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

DEFAULT_ARGUMENT_TOKENS: Final = 512
"""Most tokens of arguments where the client names no number."""

MAX_ARGUMENT_TOKENS: Final = 4096
"""Most tokens of arguments that a client may ask for."""


class MissingPolicy(enum.StrEnum):
    """What becomes of required values that the request does not mention."""

    FILL = "fill"
    REPORT = "report"


class ArgumentOutcome(enum.StrEnum):
    """What came of decoding; see `ArgumentOutcome` in the .proto."""

    DECODED = "decoded"
    MISSING = "missing"
    UNAVAILABLE = "unavailable"
    INVALID = "invalid"
    OVER_BUDGET = "over_budget"


GIVEN_OUT: Final = frozenset({ArgumentOutcome.DECODED, ArgumentOutcome.MISSING})
"""Outcomes with a text; any other has none, so that nothing unproved is ever given out."""


@dataclass(frozen=True, slots=True)
class ArgumentWish:
    """What a job asks of the arguments.

    Attributes:
        missing: what becomes of required values that the request does not mention.
        max_tokens: most tokens they may take, 1 to `MAX_ARGUMENT_TOKENS`.

    """

    missing: MissingPolicy = MissingPolicy.FILL
    max_tokens: int = DEFAULT_ARGUMENT_TOKENS

    def __post_init__(self) -> None:
        """Refuse a number of tokens out of bounds."""
        if not 1 <= self.max_tokens <= MAX_ARGUMENT_TOKENS:
            raise ValueError(
                f"ArgumentWish.max_tokens is {self.max_tokens}; it must lie in "
                f"1..{MAX_ARGUMENT_TOKENS}"
            )


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of the chosen tool, or why there are none.

    Attributes:
        outcome: what came of them.
        json: canonical JSON text of an object; "" unless the outcome is in `GIVEN_OUT`.
        missing: JSON pointers of required values that the request does not mention; only, and
            always, with MISSING.
        code: why there are none, kebab-case; "" where there are.
        reason: the same for people.
        tokens: tokens decoded.
        logprob: of the decoded text under the constrained distribution, in nats.

    """

    outcome: ArgumentOutcome
    json: str = ""
    missing: tuple[str, ...] = ()
    code: str = ""
    reason: str = ""
    tokens: int = 0
    logprob: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what contradicts the outcome."""
        given = self.outcome in GIVEN_OUT
        if bool(self.json) != given or bool(self.code) == given or bool(self.reason) == given:
            raise ValueError(
                f"Arguments that are {self.outcome} have "
                f"{'a text and no code or reason' if given else 'a code, a reason and no text'}"
            )
        if bool(self.missing) != (self.outcome is ArgumentOutcome.MISSING):
            raise ValueError(f"Arguments that are {self.outcome} with missing={self.missing}")
