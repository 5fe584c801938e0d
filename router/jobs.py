"""What a route is asked and what it answers, as plain values.

Owns the typed, validated values that travel between the service process and the engine process
(`RouteJob` in, `RankedTools` out) and the errors a job can cause. They hold only built-in types,
so they pickle. Never computes an answer and never touches a catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.arguments.values import Arguments, ArgumentWish

MAX_TEXT_CHARS = 200_000
"""Longest request text or previous turn a job may carry, in characters. The prompt clips it to its
own token budget; this bound keeps hostile input from reaching the tokenizer at all."""

MAX_K = 100
"""Most candidates a job may ask for."""

MAX_RULE_ENTRIES = 100_000
"""Most entries each list of an `AllowRule` may hold."""


class JobError(Exception):
    """Base of every error that a job itself causes: the caller can mend it."""


class InvalidJobError(JobError, ValueError):
    """A field of the job is outside its stated bounds."""


class UnknownCatalogError(JobError):
    """The job names a catalog that is not loaded here."""


class NothingAllowedError(JobError):
    """The job's `AllowRule` leaves no tool of the catalog."""


class NothingVisibleError(JobError):
    """Of what the job's `AllowRule` leaves, the caller may see nothing."""


class TooLongError(JobError):
    """The job's texts have more tokens than the engine reads."""


@dataclass(frozen=True, slots=True)
class AllowRule:
    """Which tools a caller may be answered with.

    Within one list a match with any entry is enough; a tool must pass every list that is not
    empty. An entry that matches nothing in the catalog is no error (one rule may serve many
    catalogs); a rule that leaves no tool at all is `NothingAllowedError` when it is applied.

    Attributes:
        names: routed names or aliases, compared exactly; empty means no restriction by name.
        namespaces: namespaces, compared exactly; empty means no restriction by namespace.
        tags: a tool passes with at least one of them; empty means no restriction by tag.

    """

    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse anything but tuples of strings within `MAX_RULE_ENTRIES`."""
        for field_name in ("names", "namespaces", "tags"):
            entries = getattr(self, field_name)
            if not isinstance(entries, tuple) or not all(isinstance(e, str) for e in entries):
                raise InvalidJobError(f"AllowRule.{field_name} must be a tuple of strings")
            if len(entries) > MAX_RULE_ENTRIES:
                raise InvalidJobError(
                    f"AllowRule.{field_name} holds {len(entries)} entries; "
                    f"at most {MAX_RULE_ENTRIES} are taken"
                )

    @property
    def restricts(self) -> bool:
        """Whether the rule excludes anything at all."""
        return bool(self.names or self.namespaces or self.tags)


@dataclass(frozen=True, slots=True)
class RouteJob:
    """One request to be routed.

    Attributes:
        request_id: the caller's id, handed back untouched; never read by the ranking.
        catalog_digest: the compiled catalog the request was admitted on.
        text: what the user or agent asks for; not blank, at most `MAX_TEXT_CHARS` characters.
        previous: the turn before, or ""; at most `MAX_TEXT_CHARS` characters.
        allowed: the caller's subset, or None for the whole catalog.
        k: how many candidates to return at most, 1 to `MAX_K`.
        visible: what the caller may be answered with at all, whatever it asks for; None for all.
        arguments: what is asked of the tool's arguments; None where none are wanted.

    """

    request_id: str
    catalog_digest: str
    text: str
    previous: str = ""
    allowed: AllowRule | None = None
    k: int = 1
    visible: AllowRule | None = None
    arguments: ArgumentWish | None = None

    def __post_init__(self) -> None:
        """Refuse blank or over-long texts and a `k` out of bounds."""
        if not self.text.strip():
            raise InvalidJobError("RouteJob.text is blank; say what is asked for")
        for field_name in ("text", "previous"):
            length = len(getattr(self, field_name))
            if length > MAX_TEXT_CHARS:
                raise InvalidJobError(
                    f"RouteJob.{field_name} has {length} characters; "
                    f"at most {MAX_TEXT_CHARS} are taken"
                )
        if not 1 <= self.k <= MAX_K:
            raise InvalidJobError(f"RouteJob.k is {self.k}; it must lie in 1..{MAX_K}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible answer.

    Attributes:
        tool_index: index into the catalog's sorted tools, or None for "no tool fits".
        name: the routed name, or None for "no tool fits".
        probability: calibrated; over all tools the caller may be answered with and "no tool
            fits" they sum to at most 1 (tools outside the shortlist share what is left).
        log_score: the combined log-linear score before calibration, in nats; comparable only
            within one answer. For "no tool fits" it is the log-odds that nothing fits.

    """

    tool_index: int | None
    name: str | None
    probability: float
    log_score: float


@dataclass(frozen=True, slots=True)
class RouteUsage:
    """What an answer cost.

    Attributes:
        prompt_tokens: tokens the model read to choose.
        scored_tokens: children of trie nodes the model scored.
        passes: forward passes the walk took, and the arguments after it.
        shortlist_size: tools the model could choose among.
        catalog_size: tools of the whole catalog.
        allowed_size: tools the caller's rule left.
        argument_prompt_tokens: tokens the model read to write the arguments.
        argument_tokens: tokens of the arguments.

    """

    prompt_tokens: int
    scored_tokens: int
    passes: int
    shortlist_size: int
    catalog_size: int
    allowed_size: int
    argument_prompt_tokens: int = 0
    argument_tokens: int = 0

    @property
    def most_held_tokens(self) -> int:
        """Tokens of KV memory held at once at most: the walk's are given back before arguments."""
        return max(self.prompt_tokens, self.argument_prompt_tokens + self.argument_tokens)


@dataclass(frozen=True, slots=True)
class RouteTimings:
    """Where the time went, in seconds of a monotonic clock. Never part of the answer's bits.

    Attributes:
        retrieval_s: embedding the text, BM25, cosine, shortlist.
        prompt_s: writing and tokenising the prompt.
        finish_s: combining and calibrating.
        arguments_s: writing the arguments, from the choice to their check.

    """

    retrieval_s: float
    prompt_s: float
    finish_s: float
    arguments_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RankedTools:
    """The answer to a job.

    Attributes:
        request_id: that of the job.
        catalog_digest: that of the job.
        candidates: best first, at most `k`, never empty. "No tool fits" comes first where its
            probability is at least one half; else it stands where its probability ranks it
            among the tools, but after the best of them.
        none_probability: calibrated probability that no tool fits, whether or not it is listed.
        usage: what the answer cost.
        timings: where the time went.
        arguments: those of the first candidate; None where none were wanted or it is no tool.

    """

    request_id: str
    catalog_digest: str
    candidates: tuple[Candidate, ...]
    none_probability: float
    usage: RouteUsage
    timings: RouteTimings
    arguments: Arguments | None = None
