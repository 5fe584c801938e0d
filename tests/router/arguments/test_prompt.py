"""The prompt that arguments are written from: wording, budget, and no control tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.arguments.parameters import Parameters
from router.arguments.prompt import ArgumentPromptConfig, ArgumentPromptWriter
from router.chat import ChatText, PromptError
from tests.router.arguments.making import make_tool
from tests.router.choosing.conftest import make_byte_tokenizer
from tests.router.choosing.test_prompt import CHATML

if TYPE_CHECKING:
    from catalog_compiler.model import Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["to"],
    "properties": {
        "paper": {"enum": ["A4", "A5"], "description": "What it is\n printed on"},
        "to": {
            "type": "object",
            "required": ["name"],
            "description": "Whom",
            "properties": {"name": {"type": "string", "format": "email"}},
        },
        "lines": {"type": ["array", "null"], "items": {"properties": {"text": {}}}},
    },
}
WIDE = ArgumentPromptConfig(400, 400, 4_000, 400, 400)


def written(
    tool: Tool,
    text: str,
    previous: str = "",
    closed: tuple[str, ...] = (),
    config: ArgumentPromptConfig = WIDE,
) -> str:
    """Write a prompt and read it back."""
    tokenizer = make_byte_tokenizer()
    writer = ArgumentPromptWriter(ChatText(tokenizer, CHATML), config)
    parameters = Parameters(tool.input_schema)
    shut = frozenset(member for member in parameters.top if member.key in closed)
    ids = writer.prompt(tool, parameters, shut, text, previous).tolist()
    decoded: str = tokenizer.decode(ids, skip_special_tokens=False)
    return decoded


def test_the_prompt_reads_as_stated() -> None:
    """The whole wording, so that a change of it is seen."""
    assert written(make_tool(SCHEMA), " To ann@example.org ", "Hello.") == (
        "<|im_start|>system\nYou write the arguments of one tool call as a JSON object. "
        "Take every value from the user's request.<|im_end|>\n"
        "<|im_start|>user\nTool: send: Sends a letter.\n"
        "Parameters:\n"
        '- paper (one of "A4", "A5"): What it is printed on\n'
        "- to (object, required): Whom\n"
        "- to.name (string, email, required)\n"
        "- lines (array or null)\n"
        "- lines[].text (any value)\n"
        "\nBefore: Hello."
        "\nRequest: To ann@example.org<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_what_can_not_be_written_is_not_told() -> None:
    """Closed parameters and all below them."""
    text = written(make_tool(SCHEMA), "To Ann", closed=("lines", "paper"))
    assert "Parameters:\n- to (object, required): Whom\n- to.name" in text
    assert "lines" not in text
    assert "paper" not in text


def test_a_tool_without_parameters_says_so() -> None:
    """The model is not left to guess them."""
    assert "\nParameters: none\n" in written(make_tool({"type": "object"}), "Send it")


def test_the_list_keeps_its_budget_and_the_required_ones() -> None:
    """First the descriptions go, then optional lines."""
    config = ArgumentPromptConfig(400, 60, 80, 400, 400)
    text = written(make_tool(SCHEMA), "To Ann", config=config)
    assert "- to (object, required)\n- to.name (string, email, required)\n" in text
    assert "Whom" not in text
    assert "paper" not in text


@settings(max_examples=50)
@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_budgets_hold_whatever_is_sent(name: str, description: str, text: str) -> None:
    """However long tool, parameters and request are."""
    tokenizer = make_byte_tokenizer()
    config = ArgumentPromptConfig(16, 24, 60, 40, 8)
    writer = ArgumentPromptWriter(ChatText(tokenizer, CHATML), config)
    schema = {"properties": {f"{name}{i}": {"description": description} for i in range(9)}}
    tool = make_tool(schema, name, description)
    bare = len(written(make_tool({}, "", ""), "", config=WIDE).encode())
    prompt = writer.prompt(tool, Parameters(schema), frozenset(), text, text)
    assert len(prompt) <= bare + 16 + 60 + 40 + 8 + len("\nBefore: ")


@given(st.sampled_from(["<|im_end|>", "<|im_start|>", "<tool_call>"]))
def test_nothing_sent_becomes_a_control_token(mark: str) -> None:
    """Neither in the tool, nor in its parameters, nor in the request."""
    tokenizer = make_byte_tokenizer()
    schema = {"properties": {mark: {"description": mark, "enum": [mark]}}}
    writer = ArgumentPromptWriter(ChatText(tokenizer, CHATML), WIDE)
    control = set(tokenizer.get_added_tokens_decoder())

    def count(tool: Tool, text: str) -> int:
        ids = writer.prompt(tool, Parameters(tool.input_schema), frozenset(), text, text).tolist()
        return sum(token in control for token in ids)

    assert count(make_tool(schema, mark, mark), mark) == count(make_tool({}, "a", "b"), "c")


@pytest.mark.parametrize("budget", [{"tool_tokens": 7}, {"list_tokens": 10}])
def test_a_budget_that_holds_nothing_is_refused(budget: dict[str, int]) -> None:
    """When it is made."""
    with pytest.raises(PromptError, match="ArgumentPromptConfig"):
        ArgumentPromptConfig(**budget)
