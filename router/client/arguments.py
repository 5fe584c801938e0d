"""The arguments of an answer's tool, as a client sees them.

Owns the value and its reading. Never calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from router.rpc import router_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICIES: Final[Mapping[str, pb.MissingPolicy.ValueType]] = {
    "fill": pb.MISSING_POLICY_FILL,
    "report": pb.MISSING_POLICY_REPORT,
}


def outcome_name(number: pb.ArgumentOutcome.ValueType) -> str:
    """Return an outcome's name; a newer server's unknown one by its number."""
    known = pb.ArgumentOutcome.DESCRIPTOR.values_by_number.get(number)
    return str(number) if known is None else known.name.removeprefix("ARGUMENT_OUTCOME_").lower()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of the chosen tool, or why there are none.

    Attributes:
        outcome: "decoded": whole and valid; "missing": what is known, without the required values
            that the request does not mention; "unavailable": the compiler refused the tool's
            schema; "invalid": what was decoded failed its check; "over_budget": they did not end
            within their tokens. A newer server's unknown outcome by its number.
        json: canonical JSON text of an object; "" unless decoded or missing.
        missing: JSON pointers of required values that the request does not mention.
        code: why there are none, a stable identifier.
        reason: the same for people.
        tokens: tokens decoded.
        logprob: of what was decoded among what the schema allows, in nats.

    """

    outcome: str
    json: str
    missing: tuple[str, ...]
    code: str
    reason: str
    tokens: int
    logprob: float

    @property
    def value(self) -> dict[str, Any] | None:
        """The arguments as Python values, or None where there are none to be used or asked about.

        Numbers with a fraction are floats; where that loses digits, read `json` in another way.
        """
        if not self.json:
            return None
        value: dict[str, Any] = json.loads(self.json)
        return value

    @property
    def complete(self) -> bool:
        """Whether the tool can be called with them as they are."""
        return self.outcome == "decoded"

    @classmethod
    def from_message(cls, message: pb.Arguments) -> Arguments:
        """Read what the server sent."""
        return cls(
            outcome=outcome_name(message.outcome),
            json=message.json,
            missing=tuple(message.missing),
            code=message.code,
            reason=message.reason,
            tokens=message.tokens,
            logprob=message.logprob,
        )
