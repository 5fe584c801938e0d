"""From a request on the wire to a job, and from an answer back.

Owns the checks of a request's fields and the layout of a response. Never waits.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from router.arguments.values import (
    DEFAULT_ARGUMENT_TOKENS,
    MAX_ARGUMENT_TOKENS,
    ArgumentOutcome,
    ArgumentWish,
    MissingPolicy,
)
from router.jobs import MAX_K, MAX_TEXT_CHARS, AllowRule, InvalidJobError, RouteJob
from router.rpc import router_pb2 as pb
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from router.arguments.values import Arguments
    from router.engine.facts import Answer

MAX_REQUEST_ID_CHARS: Final = 128
MAX_REQUEST_BYTES: Final = 4 << 20
"""Longest request as a message. Twice the longest text fits, and a long allow rule; more would keep
the event loop from everybody else."""

_POLICIES: Final = {
    pb.MISSING_POLICY_UNSPECIFIED: MissingPolicy.FILL,
    pb.MISSING_POLICY_FILL: MissingPolicy.FILL,
    pb.MISSING_POLICY_REPORT: MissingPolicy.REPORT,
}
_OUTCOMES: Final = {
    ArgumentOutcome.DECODED: pb.ARGUMENT_OUTCOME_DECODED,
    ArgumentOutcome.MISSING: pb.ARGUMENT_OUTCOME_MISSING,
    ArgumentOutcome.UNAVAILABLE: pb.ARGUMENT_OUTCOME_UNAVAILABLE,
    ArgumentOutcome.INVALID: pb.ARGUMENT_OUTCOME_INVALID,
    ArgumentOutcome.OVER_BUDGET: pb.ARGUMENT_OUTCOME_OVER_BUDGET,
}


def check_size(request: pb.RouteRequest) -> None:
    """Refuse a request that is too large to be looked at."""
    size = request.ByteSize()
    if size > MAX_REQUEST_BYTES:
        raise NoAnswerError(
            pb.REFUSAL_REASON_TOO_LONG,
            f"the request has {size} bytes; at most {MAX_REQUEST_BYTES} are taken",
        )


def check_request_id(request_id: str) -> None:
    """Refuse an id that is too long or holds control characters (it is logged and recorded)."""
    if len(request_id) > MAX_REQUEST_ID_CHARS:
        raise NoAnswerError(
            pb.REFUSAL_REASON_TOO_LONG,
            f"request_id has {len(request_id)} characters; at most {MAX_REQUEST_ID_CHARS} are "
            "taken",
        )
    if not request_id.isprintable():
        raise NoAnswerError(
            pb.REFUSAL_REASON_INVALID, "request_id holds unprintable characters; use plain text"
        )


def fingerprint(request: pb.RouteRequest) -> bytes:
    """Return a digest of everything but the id, for telling a repeat from a mistaken reuse."""
    content = pb.RouteRequest()
    content.CopyFrom(request)
    content.ClearField("request_id")
    return hashlib.sha256(content.SerializeToString(deterministic=True)).digest()


def make_job(
    request: pb.RouteRequest, request_id: str, catalog_digest: str, visible: AllowRule | None = None
) -> RouteJob:
    """Check a request and write it as a job.

    Raises:
        NoAnswerError: TOO_LONG or INVALID.

    """
    for name in ("text", "previous_turn"):
        length = len(getattr(request, name))
        if length > MAX_TEXT_CHARS:
            raise NoAnswerError(
                pb.REFUSAL_REASON_TOO_LONG,
                f"{name} has {length} characters; at most {MAX_TEXT_CHARS} are taken",
            )
    if not request.text.strip():
        raise NoAnswerError(pb.REFUSAL_REASON_INVALID, "text is blank; say what is asked for")
    if request.k > MAX_K:
        raise NoAnswerError(
            pb.REFUSAL_REASON_INVALID, f"k is {request.k}; it must lie in 1..{MAX_K}, 0 means 1"
        )
    wish = _wish(request)
    allowed = None
    try:
        if request.HasField("allow"):
            rule = request.allow
            allowed = AllowRule(tuple(rule.names), tuple(rule.namespaces), tuple(rule.tags))
        return RouteJob(
            request_id=request_id,
            catalog_digest=catalog_digest,
            text=request.text,
            previous=request.previous_turn,
            allowed=allowed,
            k=request.k or 1,
            visible=visible,
            arguments=wish,
        )
    except InvalidJobError as error:
        raise NoAnswerError(pb.REFUSAL_REASON_INVALID, str(error)) from error


def check_arguments_served(request: pb.RouteRequest, *, served: bool) -> None:
    """Refuse a wish for arguments where the server was started without them."""
    if request.want_arguments and not served:
        raise NoAnswerError(
            pb.REFUSAL_REASON_ARGUMENTS_UNAVAILABLE,
            "this server was started without arguments; ask without want_arguments",
        )


def _wish(request: pb.RouteRequest) -> ArgumentWish | None:
    """Read what is asked of the arguments; what has no use without them is refused."""
    if not request.want_arguments:
        for name in ("missing", "max_argument_tokens"):
            if getattr(request, name):
                raise NoAnswerError(
                    pb.REFUSAL_REASON_INVALID, f"{name} is set without want_arguments; set that too"
                )
        return None
    policy = _POLICIES.get(request.missing)
    if policy is None:
        raise NoAnswerError(
            pb.REFUSAL_REASON_INVALID,
            f"missing is {request.missing}, which this server does not know; it knows FILL and "
            "REPORT",
        )
    if request.max_argument_tokens > MAX_ARGUMENT_TOKENS:
        raise NoAnswerError(
            pb.REFUSAL_REASON_INVALID,
            f"max_argument_tokens is {request.max_argument_tokens}; it must lie in "
            f"1..{MAX_ARGUMENT_TOKENS}, 0 means {DEFAULT_ARGUMENT_TOKENS}",
        )
    return ArgumentWish(policy, request.max_argument_tokens or DEFAULT_ARGUMENT_TOKENS)


def make_response(
    answer: Answer, model_digest: str, *, queue_s: float, total_s: float
) -> pb.RouteResponse:
    """Lay an answer out for the wire."""
    ranked = answer.ranked
    usage, timings = ranked.usage, ranked.timings
    tools = [
        pb.Candidate(name=c.name, probability=c.probability, log_score=c.log_score)
        for c in ranked.candidates
        if c.name is not None
    ]
    best_is_tool = ranked.candidates[0].name is not None
    return pb.RouteResponse(
        request_id=ranked.request_id,
        tool=tools[0] if best_is_tool else None,
        none=None if best_is_tool else pb.NoToolFits(),
        candidates=tools,
        none_probability=ranked.none_probability,
        catalog_digest=ranked.catalog_digest,
        model_digest=model_digest,
        usage=pb.Usage(
            prompt_tokens=usage.prompt_tokens,
            scored_tokens=usage.scored_tokens,
            passes=usage.passes,
            shortlist_size=usage.shortlist_size,
            catalog_size=usage.catalog_size,
            allowed_size=usage.allowed_size,
            offered_tokens=answer.offered_tokens,
            tokens_saved=answer.offered_tokens - usage.prompt_tokens - usage.argument_prompt_tokens,
            argument_prompt_tokens=usage.argument_prompt_tokens,
            argument_tokens=usage.argument_tokens,
        ),
        timings=pb.Timings(
            total_micros=_micros(total_s),
            queue_micros=_micros(queue_s),
            retrieval_micros=_micros(timings.retrieval_s),
            prompt_micros=_micros(timings.prompt_s),
            model_micros=_micros(answer.model_s),
            finish_micros=_micros(timings.finish_s),
            argument_micros=_micros(timings.arguments_s),
        ),
        arguments=None if ranked.arguments is None else _arguments(ranked.arguments),
    )


def outcome_name(outcome: pb.ArgumentOutcome.ValueType) -> str:
    """Return an outcome of arguments as logs, metrics and spans call it."""
    return pb.ArgumentOutcome.Name(outcome).removeprefix("ARGUMENT_OUTCOME_").lower()


def _arguments(arguments: Arguments) -> pb.Arguments:
    return pb.Arguments(
        outcome=_OUTCOMES[arguments.outcome],
        json=arguments.json,
        missing=arguments.missing,
        code=arguments.code,
        reason=arguments.reason,
        tokens=arguments.tokens,
        logprob=arguments.logprob,
    )


def _micros(seconds: float) -> int:
    return max(round(1e6 * seconds), 0)
