"""Messages between the service process and the engine process.

Owns the framing (a big-endian u32 length, then that many bytes of UTF-8 JSON, one object with the
key "op") and the way the typed values of `router.jobs` and `router.engine.facts` are written. JSON
keeps every f64's bits (shortest round-trip digits) and can't run code. Never reads a descriptor
by itself beyond `read_message`.

To the engine: start, route, cancel, open, close, tools, ping, stop.
To the service: ready, fatal, answer, error, cancelled, opened, tools, pong.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from router.arguments.values import ArgumentOutcome, Arguments, ArgumentWish, MissingPolicy
from router.engine.errors import WireError
from router.engine.facts import Answer, CatalogFacts, ToolFacts
from router.jobs import AllowRule, Candidate, RankedTools, RouteJob, RouteTimings, RouteUsage

if TYPE_CHECKING:
    import asyncio

Message: TypeAlias = dict[str, Any]

LENGTH = struct.Struct(">I")
MAX_MESSAGE_BYTES = 256 << 20
"""Longest message; a longer length means that the stream is out of step."""


def encode(message: Message) -> bytes:
    """Return a message with its length before it."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(body)} bytes is over {MAX_MESSAGE_BYTES}")
    return LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """Return the message in a frame's body.

    Raises:
        WireError: it is none.

    """
    try:
        message = json.loads(body)
    except ValueError as error:
        raise WireError(f"a frame holds no JSON ({error})") from error
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        raise WireError('a frame holds no object with a text under "op"')
    return message


def body_length(header: bytes) -> int:
    """Return the length a frame's header announces.

    Raises:
        WireError: it is over `MAX_MESSAGE_BYTES`.

    """
    length: int = LENGTH.unpack(header)[0]
    if length > MAX_MESSAGE_BYTES:
        raise WireError(f"a frame announces {length} bytes, over {MAX_MESSAGE_BYTES}")
    return length


def read_message(stream: IO[bytes]) -> Message | None:
    """Read one message, blocking; None at the end of the stream.

    Raises:
        WireError: the stream ends within a message, or holds something else.

    """
    header = _read_exactly(stream, LENGTH.size)
    if not header:
        return None
    body = _read_exactly(stream, body_length(header))
    return decode(body)


async def receive(reader: asyncio.StreamReader) -> Message:
    """Read one message.

    Raises:
        asyncio.IncompleteReadError: the stream ended.
        WireError: it holds something else.

    """
    header = await reader.readexactly(LENGTH.size)
    return decode(await reader.readexactly(body_length(header)))


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    parts = []
    missing = count
    while missing:
        part = stream.read(missing)
        if not part:
            if missing == count:
                return b""
            raise WireError(f"the stream ends {missing} bytes short of a frame")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def job_to_wire(job: RouteJob) -> Message:
    """Write a job."""
    return dataclasses.asdict(job)


def job_from_wire(raw: Message) -> RouteJob:
    """Read a job; raises InvalidJobError as `RouteJob` does."""
    rules = {key: rule_from_wire(raw[key]) for key in ("allowed", "visible")}
    return RouteJob(**{**raw, **rules, "arguments": _wish_from_wire(raw["arguments"])})


def _wish_from_wire(raw: Message | None) -> ArgumentWish | None:
    return None if raw is None else ArgumentWish(MissingPolicy(raw["missing"]), raw["max_tokens"])


def rule_to_wire(rule: AllowRule | None) -> Message | None:
    """Write a rule."""
    return None if rule is None else dataclasses.asdict(rule)


def rule_from_wire(raw: Message | None) -> AllowRule | None:
    """Read a rule; raises InvalidJobError as `AllowRule` does."""
    if raw is None:
        return None
    return AllowRule(tuple(raw["names"]), tuple(raw["namespaces"]), tuple(raw["tags"]))


def answer_to_wire(answer: Answer) -> Message:
    """Write an answer."""
    return dataclasses.asdict(answer)


def answer_from_wire(raw: Message) -> Answer:
    """Read an answer."""
    ranked = raw["ranked"]
    return Answer(
        ranked=RankedTools(
            request_id=ranked["request_id"],
            catalog_digest=ranked["catalog_digest"],
            candidates=tuple(Candidate(**candidate) for candidate in ranked["candidates"]),
            none_probability=ranked["none_probability"],
            usage=RouteUsage(**ranked["usage"]),
            timings=RouteTimings(**ranked["timings"]),
            arguments=_arguments_from_wire(ranked["arguments"]),
        ),
        offered_tokens=raw["offered_tokens"],
        model_s=raw["model_s"],
    )


def _arguments_from_wire(raw: Message | None) -> Arguments | None:
    if raw is None:
        return None
    typed = {"outcome": ArgumentOutcome(raw["outcome"]), "missing": tuple(raw["missing"])}
    return Arguments(**{**raw, **typed})


def catalog_from_wire(raw: Message) -> CatalogFacts:
    """Read what is known of a catalog."""
    return CatalogFacts(**raw)


def tool_from_wire(raw: Message) -> ToolFacts:
    """Read what is known of a tool."""
    return ToolFacts(**{**raw, "tags": tuple(raw["tags"])})
