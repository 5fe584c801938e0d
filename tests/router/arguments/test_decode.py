"""From a chosen tool to a plan, and from what was written to arguments that can be trusted."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.arguments.member import accepts
from router.arguments.catalog import ArgumentCatalog, ToolArguments
from router.arguments.decode import (
    SHORT_STRING_TOKENS,
    STRING_MARGIN_TOKENS,
    ArgumentPlan,
    Written,
    budget_too_small,
    finish,
    plan,
    spell,
)
from router.arguments.prompt import ArgumentPromptWriter
from router.arguments.values import (
    ArgumentOutcome,
    Arguments,
    ArgumentWish,
    MissingPolicy,
)
from router.chat import ChatText
from tests.router.arguments.making import (
    FakeCompiled,
    FakeNote,
    FakeNotes,
    make_tool,
    no_object,
    texts_of,
)
from tests.router.choosing.conftest import make_byte_tokenizer
from tests.router.choosing.test_prompt import CHATML

if TYPE_CHECKING:
    from catalog_compiler.arguments.nodes import ArgumentGrammar

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {"type": "string"},
        "title": {"type": "string"},
        "paper": {"type": "string"},
    },
}
GRAMMAR = texts_of("to", "title", "paper", required=["to"])
REPORT = ArgumentWish(MissingPolicy.REPORT)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


def even_length(value: Any) -> list[str]:
    """Stand in for a validator: the name must have an even length."""
    return [f"{value['to']!r} is odd"] if len(value["to"]) % 2 else []


def arguments_of(
    grammar: ArgumentGrammar | None = GRAMMAR, notes: FakeNotes | None = None
) -> ToolArguments:
    """Return a tool's arguments as a catalog has them."""
    tools = [make_tool(SCHEMA)]
    compiled = FakeCompiled([grammar], [notes or FakeNotes()])
    return ArgumentCatalog(compiled, tools, lambda _: even_length).tool(0)


def planned(
    text: str,
    wish: ArgumentWish | None = None,
    tool: ToolArguments | None = None,
    context_tokens: int = 10_000,
) -> ArgumentPlan | Arguments:
    """Plan with the byte tokenizer."""
    writer = ArgumentPromptWriter(ChatText(make_byte_tokenizer(), CHATML))
    return plan(tool or arguments_of(), writer, wish or ArgumentWish(), text, "", context_tokens)


def ended(
    text: str,
    value: object,
    wish: ArgumentWish | None = None,
    tool: ToolArguments | None = None,
    *,
    cut: bool = False,
    spent: bool = False,
) -> Arguments:
    """Plan, and finish with a written value."""
    asked = planned(text, wish, tool)
    assert isinstance(asked, ArgumentPlan)
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return finish(asked, Written(raw, 7, -0.5, cut, spent))


def test_what_the_request_does_not_speak_of_is_closed() -> None:
    """It is not in what is left of the grammar, and it is not told to the model."""
    asked = planned("Send it to Ann with a title")
    assert isinstance(asked, ArgumentPlan)
    assert {member.key for member in asked.narrowed.closed} == {"paper"}
    assert accepts(asked.narrowed.grammar, {"to": "Ann", "title": "x"})
    assert not accepts(asked.narrowed.grammar, {"to": "Ann", "paper": "x"})
    told = make_byte_tokenizer().decode(asked.prompt.tolist())
    assert "- title" in told
    assert "- paper" not in told


def test_nothing_is_closed_where_too_little_would_be_left() -> None:
    """The schema asks for three members; without free ones all must stay open."""
    tool = arguments_of(texts_of("to", "title", "paper", required=["to"], min_properties=3))
    asked = planned("Send it to Ann", tool=tool)
    assert isinstance(asked, ArgumentPlan)
    assert asked.narrowed.closed == frozenset()


def test_a_root_without_keys_of_its_own_has_nothing_to_close() -> None:
    """Such as a union of objects."""
    asked = planned("Send it", tool=arguments_of(no_object()))
    assert isinstance(asked, ArgumentPlan)
    assert asked.narrowed.closed == frozenset()


def test_a_text_may_be_as_long_as_the_request() -> None:
    """So that all of it can be copied."""
    short, long = planned("Send it"), planned("Send " + "x" * 500)
    assert isinstance(short, ArgumentPlan)
    assert isinstance(long, ArgumentPlan)
    assert short.max_string_tokens == SHORT_STRING_TOKENS
    assert long.max_string_tokens == 505 + STRING_MARGIN_TOKENS


def test_the_budget_ends_with_the_models_context() -> None:
    """Less is written; where there is no room at all, that is told."""
    whole = planned("Send it", ArgumentWish(max_tokens=100))
    assert isinstance(whole, ArgumentPlan)
    assert whole.max_tokens == 100
    some = planned("Send it", context_tokens=len(whole.prompt) + 40)
    assert isinstance(some, ArgumentPlan)
    assert some.max_tokens == 40
    none = planned("Send it", context_tokens=len(whole.prompt))
    assert isinstance(none, Arguments)
    assert none.outcome is ArgumentOutcome.OVER_BUDGET


def test_a_refused_tool_says_why() -> None:
    """The compiler's code and place; nothing is written."""
    refusal = FakeNote("too-large", "/properties/to", "its pattern has too many states")
    said = planned("Send it", tool=arguments_of(None, FakeNotes(refusal)))
    assert said == Arguments(
        ArgumentOutcome.UNAVAILABLE,
        code="too-large",
        reason="/properties/to: its pattern has too many states",
    )


def test_what_was_written_is_given_in_canonical_spelling() -> None:
    """Escapes are undone, numbers keep their digits, and the cost is told."""
    text = b'{"to": "\\u00dcbel \\/", "n": 1.50, "big": 123456789012345678901234567890}'
    arguments = ended("Send", text)
    assert arguments == Arguments(
        ArgumentOutcome.DECODED,
        json='{"to": "Übel /", "n": 1.50, "big": 123456789012345678901234567890}',
        tokens=7,
        logprob=-0.5,
    )


def test_filling_invents_and_reporting_does_not() -> None:
    """The same text under the two policies."""
    value = {"to": "Bob", "title": "Ann"}
    assert ended("Send it, title Ann", value).outcome is ArgumentOutcome.DECODED
    reported = ended("Send it, title Ann", value, REPORT)
    assert reported.outcome is ArgumentOutcome.MISSING
    assert (reported.missing, reported.json) == (("/to",), '{"title": "Ann"}')
    assert ended("Send it to Bob, title Ann", value, REPORT).outcome is ArgumentOutcome.DECODED


def test_what_fails_its_check_is_never_given_out() -> None:
    """Only a tool whose grammar leaves something out is checked; no value is quoted."""
    notes = FakeNotes(checked_after=[FakeNote("even", "/properties/to", "even length")])
    tool = arguments_of(notes=notes)
    assert ended("To Anna", {"to": "Anna"}, tool=tool).outcome is ArgumentOutcome.DECODED
    failed = ended("To Ann", {"to": "Ann"}, tool=tool)
    assert (failed.outcome, failed.json) == (ArgumentOutcome.INVALID, "")
    assert "even at /properties/to" in failed.reason
    assert "Ann" not in failed.reason
    assert failed.tokens == 7


@pytest.mark.parametrize("wish", [ArgumentWish(), REPORT])
def test_what_a_budget_closed_is_never_given_out(wish: ArgumentWish) -> None:
    """Neither where the whole ran out, nor where one text went on and on."""
    for spent in (False, True):
        arguments = ended("To Ann", {"to": "Ann"}, wish, cut=True, spent=spent)
        assert (arguments.outcome, arguments.json) == (ArgumentOutcome.OVER_BUDGET, "")
        assert arguments.tokens == 7


def test_a_missing_value_that_went_on_and_on_is_missing() -> None:
    """What the model makes up has no end; it is left out anyway."""
    arguments = ended("Send it", {"to": "Bob " * 90}, REPORT, cut=True)
    assert (arguments.outcome, arguments.json) == (ArgumentOutcome.MISSING, "{}")
    spent = ended("Send it", {"to": "Bob " * 90}, REPORT, cut=True, spent=True)
    assert spent.outcome is ArgumentOutcome.OVER_BUDGET


def test_the_shortest_that_does_not_fit_is_over_budget() -> None:
    """With the budget that was too small."""
    asked = planned("Send it", ArgumentWish(max_tokens=3))
    assert isinstance(asked, ArgumentPlan)
    assert "more than 3 tokens" in budget_too_small(asked).reason


def test_what_can_not_be_read_is_invalid() -> None:
    """A number of more digits than Python reads at once, say."""
    arguments = ended("Send", b'{"to": ' + b"9" * 5000 + b"}")
    assert (arguments.outcome, arguments.code) == (ArgumentOutcome.INVALID, "unreadable")


@given(JSON)
def test_spelling_is_that_of_the_grammar(value: Any) -> None:
    """The standard library's, save that it is not ASCII only."""
    assert spell(value) == json.dumps(value, ensure_ascii=False)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_spelt_numbers_are_json_and_keep_their_value(number: Decimal) -> None:
    """Every digit of them."""
    assert Decimal(str(json.loads(spell(number), parse_float=Decimal))) == number


def test_look_ups_are_kept() -> None:
    """A tool is read once."""
    compiled = FakeCompiled([GRAMMAR], [FakeNotes()])
    catalog = ArgumentCatalog(compiled, [make_tool(SCHEMA)], lambda _: even_length)
    assert catalog.tool(0) is catalog.tool(0)
    assert catalog.tool(0).errors is None
