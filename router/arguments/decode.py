"""From a chosen tool to what the decoder is asked, and from what it wrote to arguments.

Owns the two halves round the decoder: `plan` and `finish`. What it wrote is given out only where it
is proved: whole, not cut, and checked where the grammar does not enforce everything. Never runs the
model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from router.arguments.mentions import Evidence
from router.arguments.narrowing import Narrowed, narrowed
from router.arguments.values import ArgumentOutcome, Arguments, ArgumentWish, MissingPolicy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from catalog_compiler.model import Json
    from router.arguments.catalog import ToolArguments
    from router.arguments.prompt import ArgumentPromptWriter

SHORT_STRING_TOKENS: Final = 64
"""Tokens that any text among the values may have."""

STRING_MARGIN_TOKENS: Final = 16
"""Tokens that a text may have beyond those of the request, from which it is copied."""

MAX_REASON_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """What the decoder is to write.

    Attributes:
        tool: the chosen tool's arguments.
        wish: what was asked for.
        evidence: what the request speaks of.
        source: the request and the turn before, from which texts are copied.
        prompt: (n,) int32 token ids, ending where the JSON begins.
        narrowed: the tool's grammar without what the request does not speak of.
        max_tokens: most tokens of the text.
        max_string_tokens: most tokens of one text in it; one that is longer is no copy of the
            request.

    """

    tool: ToolArguments
    wish: ArgumentWish
    evidence: Evidence
    source: str
    prompt: npt.NDArray[np.int32]
    narrowed: Narrowed
    max_tokens: int
    max_string_tokens: int


@dataclass(frozen=True, slots=True)
class Written:
    """What the decoder wrote.

    Attributes:
        text: UTF-8.
        tokens: how many.
        logprob: of the text, in nats.
        cut: whether a budget closed it, or a text in it.
        spent: whether that was the budget of the whole.

    """

    text: bytes
    tokens: int
    logprob: float
    cut: bool
    spent: bool


def plan(
    tool: ToolArguments,
    writer: ArgumentPromptWriter,
    wish: ArgumentWish,
    text: str,
    previous: str,
    context_tokens: int,
) -> ArgumentPlan | Arguments:
    """Decide what may be written and write the prompt; where nothing can be, say why.

    Args:
        tool: the chosen tool's arguments.
        writer: writes the prompt.
        wish: what is asked for.
        text: the request.
        previous: the turn before, or "".
        context_tokens: most tokens of prompt and text together.

    """
    if tool.grammar is None:
        assert tool.refusal is not None
        place = f"{tool.refusal.pointer}: " if tool.refusal.pointer else ""
        return Arguments(
            ArgumentOutcome.UNAVAILABLE,
            code=tool.refusal.code,
            reason=f"{place}{tool.refusal.message}"[:MAX_REASON_CHARS],
        )
    evidence = Evidence(text, previous)
    left = narrowed(
        tool.grammar,
        tool.parameters,
        lambda parameter: evidence.mentions(parameter, tool.parameters),
    )
    prompt = writer.prompt(tool.tool, tool.parameters, left.closed, text, previous)
    room = context_tokens - len(prompt)
    if room < 1:
        return _over_budget("the tool and the request leave the model no room to write", 0)
    copied = len(writer.chat.encode(text)) + STRING_MARGIN_TOKENS
    return ArgumentPlan(
        tool=tool,
        wish=wish,
        evidence=evidence,
        source=f"{previous}\n{text}" if previous else text,
        prompt=prompt,
        narrowed=left,
        max_tokens=min(wish.max_tokens, room),
        max_string_tokens=max(SHORT_STRING_TOKENS, copied),
    )


def budget_too_small(asked: ArgumentPlan) -> Arguments:
    """Say that not even the shortest arguments fit."""
    return _over_budget(
        f"the shortest arguments that the schema allows take more than {asked.max_tokens} tokens; "
        "give more",
        0,
    )


def finish(asked: ArgumentPlan, written: Written) -> Arguments:
    """Turn what was written into arguments, or into why there are none."""
    if written.cut and written.spent:
        return _over_budget(
            f"the arguments did not end within {asked.max_tokens} tokens; give more", written.tokens
        )
    try:
        value = json.loads(written.text, parse_float=Decimal)
    except ValueError as error:
        return _invalid("unreadable", f"what was decoded can't be read: {error}", written)
    tool = asked.tool
    if asked.wish.missing is MissingPolicy.REPORT:
        found = asked.evidence.examine(value, tool.parameters)
        if found.missing:
            return Arguments(
                ArgumentOutcome.MISSING,
                json=spell(found.known),
                missing=found.missing,
                tokens=written.tokens,
                logprob=written.logprob,
            )
    if written.cut:
        return _over_budget(
            f"a text among the arguments was still open after {asked.max_string_tokens} tokens, "
            "more than the request has to copy from",
            written.tokens,
        )
    if tool.errors is not None and tool.errors(value):
        # Not in the validator's words: they quote values, which come from the request.
        where = ", ".join(dict.fromkeys(f"{n.code} at {n.pointer or '/'}" for n in tool.checked))
        return _invalid(
            "schema-not-satisfied",
            f"what was decoded does not satisfy what the schema says beyond its grammar: {where}",
            written,
        )
    return Arguments(
        ArgumentOutcome.DECODED, json=spell(value), tokens=written.tokens, logprob=written.logprob
    )


def spell(value: Json) -> str:
    """Write a value in canonical spelling; numbers keep every digit they were read with."""
    match value:
        case dict():
            members = (f"{spell(key)}: {spell(member)}" for key, member in value.items())
            return f"{{{', '.join(members)}}}"
        case list():
            return f"[{', '.join(map(spell, value))}]"
        case Decimal():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


def _over_budget(reason: str, tokens: int) -> Arguments:
    return Arguments(ArgumentOutcome.OVER_BUDGET, code="over-budget", reason=reason, tokens=tokens)


def _invalid(code: str, reason: str, written: Written) -> Arguments:
    return Arguments(
        ArgumentOutcome.INVALID,
        code=code,
        reason=reason[:MAX_REASON_CHARS],
        tokens=written.tokens,
        logprob=written.logprob,
    )
