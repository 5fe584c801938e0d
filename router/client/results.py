"""What a client is asked and hands back: frozen values, read from messages.

Owns the values and their reading. Never calls.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from router.client.arguments import POLICIES, Arguments, outcome_name
from router.rpc import router_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping


def new_request_id() -> str:
    """Return an id that no other request has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class RouteQuery:
    """One request.

    Attributes:
        text: what is asked for.
        catalog: name or digest; "" is the server's default.
        previous: the turn before, or "".
        names, namespaces, tags: the allowed subset; a tool must pass every list that is not empty.
        k: most candidates.
        want_arguments: whether the tool's arguments are wanted too.
        missing: "fill" lets the model make up required values that the request does not mention,
            "report" names and leaves them out; only with `want_arguments`.
        max_argument_tokens: most tokens of arguments; 0 leaves it to the server.
        request_id: an id of its own by default; the same id again gets the same answer again.

    """

    text: str
    catalog: str = ""
    previous: str = ""
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    k: int = 1
    want_arguments: bool = False
    missing: str = "fill"
    max_argument_tokens: int = 0
    request_id: str = field(default_factory=new_request_id)

    def __post_init__(self) -> None:
        """Refuse what the wire can't carry."""
        for name in ("names", "namespaces", "tags"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"RouteQuery.{name} is a text; give a tuple of texts")
            _encodable(name, *getattr(self, name))
        for name in ("text", "catalog", "previous", "request_id"):
            _encodable(name, getattr(self, name))
        if not 1 <= self.k < 2**32:
            raise ValueError(f"RouteQuery.k is {self.k}; give 1 to {2**32 - 1}")
        if self.missing not in POLICIES:
            raise ValueError(
                f"RouteQuery.missing {self.missing!r} is none of {', '.join(POLICIES)}"
            )
        if not 0 <= self.max_argument_tokens < 2**32:
            raise ValueError(
                f"RouteQuery.max_argument_tokens is {self.max_argument_tokens}; "
                f"give 0 to {2**32 - 1}"
            )
        if not self.want_arguments and (self.missing != "fill" or self.max_argument_tokens):
            raise ValueError(
                "RouteQuery.missing and max_argument_tokens have no use without want_arguments"
            )

    def to_message(self) -> pb.RouteRequest:
        """Write it for the wire."""
        allow = None
        if self.names or self.namespaces or self.tags:
            allow = pb.AllowRule(names=self.names, namespaces=self.namespaces, tags=self.tags)
        return pb.RouteRequest(
            request_id=self.request_id,
            catalog=self.catalog,
            text=self.text,
            previous_turn=self.previous,
            allow=allow,
            k=self.k,
            want_arguments=self.want_arguments,
            missing=POLICIES[self.missing]
            if self.want_arguments
            else pb.MISSING_POLICY_UNSPECIFIED,
            max_argument_tokens=self.max_argument_tokens,
        )


def _encodable(name: str, *texts: str) -> None:
    """Refuse what UTF-8, and so the wire, has no spelling for; raises ValueError."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"RouteQuery.{name} has half of a surrogate pair or a byte that is not UTF-8 at "
                f"character {error.start}; give Unicode text"
            ) from error


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool that may be meant: `probability` is calibrated, `log_score` in nats is not."""

    name: str
    probability: float
    log_score: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost; see `Usage` in the .proto."""

    prompt_tokens: int
    scored_tokens: int
    passes: int
    shortlist_size: int
    catalog_size: int
    allowed_size: int
    offered_tokens: int
    tokens_saved: int
    argument_prompt_tokens: int = 0
    argument_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the server's time went, in microseconds."""

    total_micros: int
    queue_micros: int
    retrieval_micros: int
    prompt_micros: int
    model_micros: int
    finish_micros: int
    argument_micros: int = 0


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """The answer to a request.

    Attributes:
        request_id: of the request.
        tool: routed name of the tool, or None where no tool fits.
        probability: of that outcome, calibrated.
        candidates: tools, best first.
        none_probability: calibrated probability that no tool fits.
        catalog_digest: the catalog used.
        model_digest: the model used.
        usage: what it cost.
        timings: where the time went; the only part that differs from one time to the next.
        arguments: the tool's; None where none were wanted or no tool fits.

    """

    request_id: str
    tool: str | None
    probability: float
    candidates: tuple[Candidate, ...]
    none_probability: float
    catalog_digest: str
    model_digest: str
    usage: Usage
    timings: Timings
    arguments: Arguments | None = None

    @classmethod
    def from_message(cls, message: pb.RouteResponse) -> RouteAnswer:
        """Read a response."""
        chosen = message.HasField("tool")
        return cls(
            request_id=message.request_id,
            tool=message.tool.name if chosen else None,
            probability=message.tool.probability if chosen else message.none_probability,
            candidates=tuple(
                Candidate(c.name, c.probability, c.log_score) for c in message.candidates
            ),
            none_probability=message.none_probability,
            catalog_digest=message.catalog_digest,
            model_digest=message.model_digest,
            usage=Usage(*(getattr(message.usage, name) for name in Usage.__slots__)),
            timings=Timings(*(getattr(message.timings, name) for name in Timings.__slots__)),
            arguments=Arguments.from_message(message.arguments)
            if message.HasField("arguments")
            else None,
        )


@dataclass(frozen=True, slots=True)
class CatalogInfo:
    """A catalog; see `Catalog` in the .proto."""

    name: str
    digest: str
    tool_count: int
    definition_tokens: int
    is_default: bool
    earlier_digests: tuple[str, ...]

    @classmethod
    def from_message(cls, message: pb.Catalog) -> CatalogInfo:
        """Read a catalog."""
        return cls(
            name=message.name,
            digest=message.digest,
            tool_count=message.tool_count,
            definition_tokens=message.definition_tokens,
            is_default=message.is_default,
            earlier_digests=tuple(message.earlier_digests),
        )


@dataclass(frozen=True, slots=True)
class ToolSummary:
    """A tool of a catalog; `description` is shortened."""

    name: str
    namespace: str
    description: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """A catalog and a page of its tools; `next_page_token` is "" on the last page."""

    catalog: CatalogInfo
    tools: tuple[ToolSummary, ...]
    next_page_token: str

    @classmethod
    def from_message(cls, message: pb.GetCatalogResponse) -> CatalogPage:
        """Read a page."""
        return cls(
            catalog=CatalogInfo.from_message(message.catalog),
            tools=tuple(
                ToolSummary(t.name, t.namespace, t.description, tuple(t.tags))
                for t in message.tools
            ),
            next_page_token=message.next_page_token,
        )


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding of the compiler; `severity` is "error", "warning" or "info"."""

    severity: str
    code: str
    message: str
    mend: str
    pointer: str
    tool: str
    related: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompiledCatalog:
    """A compiled catalog, ready to be activated by its digest.

    Attributes:
        digest: its identity.
        tool_count: how many tools.
        definition_tokens: tokens of all definitions in an agent's prompt.
        diagnostics: findings, worst first; at most 1000.
        diagnostic_count: how many there are in all.

    """

    digest: str
    tool_count: int
    definition_tokens: int
    diagnostics: tuple[Diagnostic, ...]
    diagnostic_count: int

    @classmethod
    def from_message(cls, message: pb.CompileCatalogResponse) -> CompiledCatalog:
        """Read what a compilation came to."""
        return cls(
            digest=message.catalog.digest,
            tool_count=message.catalog.tool_count,
            definition_tokens=message.catalog.definition_tokens,
            diagnostics=tuple(
                Diagnostic(
                    severity=pb.Severity.Name(d.severity).removeprefix("SEVERITY_").lower(),
                    code=d.code,
                    message=d.message,
                    mend=d.mend,
                    pointer=d.pointer,
                    tool=d.tool,
                    related=tuple(d.related),
                )
                for d in message.diagnostics
            ),
            diagnostic_count=message.diagnostic_count,
        )


@dataclass(frozen=True, slots=True)
class Accounts:
    """What was handed out and came back; at rest every part has come back."""

    slots_granted: int
    slots_returned: int
    tokens_reserved: int
    tokens_used: int
    tokens_unused: int

    @property
    def closed(self) -> bool:
        """Whether nothing is outstanding."""
        return (
            self.slots_granted == self.slots_returned
            and self.tokens_reserved == self.tokens_used + self.tokens_unused
        )


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """One client's part in the ledger."""

    offered: int
    answered: int
    refused: int


@dataclass(frozen=True, slots=True)
class RecentAnswers:
    """The latest answers.

    Attributes:
        answers: how many there are: as many as were asked for, or all.
        tools: by catalog digest, how often each of its tools was one; "" counts "no tool fits".

    """

    answers: int
    tools: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ServerStats:
    """The server's counters; see `StatsResponse` in the .proto.

    Attributes:
        offered, answered, refused, cancelled, failed, repeated, open: the ledger.
        reasons: count by reason name, without its prefix.
        slots, queue, alive, queued, alive_peak, queued_peak: how full it is and was.
        latency_samples, p50_micros, p90_micros, p99_micros: over the latest answers.
        tools: count by tool name, most first; "" counts "no tool fits".
        arguments: answers with arguments, by what came of them.
        tools_counted: how many different ones there are; `tools` may hold fewer.
        serving: whether the engine answers.
        engine_state: where it stands: starting, serving, silent, down or stopped.
        model_digest: the engine's model.
        engine_starts: how often it was started.
        uptime_s: seconds since the start.
        accounts: slots and tokens handed out and given back.
        clients: counts by client id, most offered first.
        recent: the latest answers, or None where they were not asked for.

    """

    offered: int
    answered: int
    refused: int
    cancelled: int
    failed: int
    repeated: int
    open: int
    reasons: Mapping[str, int]
    slots: int
    queue: int
    alive: int
    queued: int
    alive_peak: int
    queued_peak: int
    latency_samples: int
    p50_micros: int
    p90_micros: int
    p99_micros: int
    tools: Mapping[str, int]
    tools_counted: int
    arguments: Mapping[str, int]
    serving: bool
    engine_state: str
    model_digest: str
    engine_starts: int
    uptime_s: float
    accounts: Accounts
    clients: Mapping[str, ClientCounts]
    recent: RecentAnswers | None

    @classmethod
    def from_message(cls, message: pb.StatsResponse) -> ServerStats:
        """Read the counters."""
        ledger, load, latency = message.ledger, message.load, message.latency
        return cls(
            offered=ledger.offered,
            answered=ledger.answered,
            refused=ledger.refused,
            cancelled=ledger.cancelled,
            failed=ledger.failed,
            repeated=ledger.repeated,
            open=ledger.open,
            reasons={_reason_name(entry.reason): entry.count for entry in ledger.reasons},
            slots=load.slots,
            queue=load.queue,
            alive=load.alive,
            queued=load.queued,
            alive_peak=load.alive_peak,
            queued_peak=load.queued_peak,
            latency_samples=latency.samples,
            p50_micros=latency.p50_micros,
            p90_micros=latency.p90_micros,
            p99_micros=latency.p99_micros,
            tools={entry.name: entry.count for entry in message.tools},
            tools_counted=message.tools_counted,
            arguments={outcome_name(entry.outcome): entry.count for entry in message.arguments},
            serving=message.engine.serving,
            engine_state=message.engine.state,
            model_digest=message.engine.model_digest,
            engine_starts=message.engine.starts,
            uptime_s=message.uptime_seconds,
            accounts=Accounts(
                message.accounts.slots_granted,
                message.accounts.slots_returned,
                message.accounts.tokens_reserved,
                message.accounts.tokens_used,
                message.accounts.tokens_unused,
            ),
            clients={
                entry.client: ClientCounts(entry.offered, entry.answered, entry.refused)
                for entry in message.clients
            },
            recent=_recent(message.recent) if message.HasField("recent") else None,
        )


def _recent(message: pb.RecentAnswers) -> RecentAnswers:
    tools = {
        entry.digest: {tool.name: tool.count for tool in entry.tools} for entry in message.catalogs
    }
    return RecentAnswers(message.answers, tools)


def _reason_name(number: pb.RefusalReason.ValueType) -> str:
    """Return a reason's name; a newer server's unknown one by its number."""
    known = pb.RefusalReason.DESCRIPTOR.values_by_number.get(number)
    return str(number) if known is None else known.name.removeprefix("REFUSAL_REASON_")


FORMATS: Mapping[str, pb.SourceFormat.ValueType] = {
    "auto": pb.SOURCE_FORMAT_UNSPECIFIED,
    "mcp": pb.SOURCE_FORMAT_MCP,
    "openai": pb.SOURCE_FORMAT_OPENAI,
    "anthropic": pb.SOURCE_FORMAT_ANTHROPIC,
    "openapi": pb.SOURCE_FORMAT_OPENAPI,
}


def compile_message(
    content: bytes, source_format: str, *, strict: bool
) -> pb.CompileCatalogRequest:
    """Write a request to compile; raises ValueError for an unknown format."""
    if source_format not in FORMATS:
        raise ValueError(f"format {source_format!r} is none of {', '.join(FORMATS)}")
    return pb.CompileCatalogRequest(content=content, format=FORMATS[source_format], strict=strict)
