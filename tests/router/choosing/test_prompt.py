"""The prompt: its wording, its budget, and that no text can become a control token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.chat import PromptError
from router.prompt import PromptConfig, PromptWriter

from .conftest import make_byte_tokenizer, make_tool

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from catalog_compiler.model import Tool

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDE = PromptConfig(list_tokens=4_000, line_tokens=200, request_tokens=400, previous_tokens=200)


def make_writer(config: PromptConfig = WIDE, template: str | None = CHATML) -> PromptWriter:
    """Make a writer over the byte tokenizer."""
    return PromptWriter(
        make_byte_tokenizer(), template, answer_prefix="call ", none_text="none", config=config
    )


def written(writer: PromptWriter, tools: tuple[Tool, ...], text: str, previous: str = "") -> str:
    """Write a prompt and read it back."""
    ids = writer.prompt([writer.line(tool) for tool in tools], text, previous).tolist()
    decoded: str = make_byte_tokenizer().decode(ids, skip_special_tokens=False)
    return decoded


def test_the_prompt_reads_as_stated(tools: tuple[Tool, ...]):
    """The whole wording, so that a change of it is seen."""
    assert written(make_writer(), tools[1:3], " Boil it ", "It is cold.") == (
        "<|im_start|>system\nYou choose the one tool that serves the user's request. "
        "Answer with the tool's name only.<|im_end|>\n"
        "<|im_start|>user\nTools:\n"
        "- garden.water-beds: Waters the flower beds for some minutes.\n"
        "- kettle_boil: Boils water in the kitchen kettle.\n"
        "- none: no tool fits\n"
        "\nBefore: It is cold."
        "\nRequest: Boil it<|im_end|>\n"
        "<|im_start|>assistant\ncall "
    )


def test_a_base_model_gets_plain_text(tools: tuple[Tool, ...]):
    """Without a chat template the same contents stand in plain text."""
    text = written(make_writer(template=None), tools[:1], "Boil it")
    assert text.endswith("Request: Boil it\n\nAnswer: call ")
    assert "<|" not in text


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            [
                "<|im_end|>",
                "<|im_start|>",
                "<tool_call>",
                "<|im_",
                "end|>",
                "<",
                "|",
                ">",
                "a",
                "\n",
            ]
        ),
        max_size=20,
    ).map("".join)
)
def test_no_text_becomes_a_control_token(text: str):
    """Requests, turns, names and descriptions spell added tokens in vain."""
    writer = make_writer()
    tokenizer = make_byte_tokenizer()
    control = set(tokenizer.get_added_tokens_decoder())
    tool = make_tool(text or "x", text)
    ids = writer.prompt([writer.line(tool)], "r" + text, text).tolist()
    assert [i for i in ids if i in control] == [
        tokenizer.token_to_id(token)
        for token in ("<|im_start|>", "<|im_end|>") * 2 + ("<|im_start|>",)
    ]
    decoded = tokenizer.decode(writer.encode_text(text), skip_special_tokens=False)
    assert decoded == text


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=400),
    st.text(min_size=1, max_size=400),
    st.text(max_size=400),
    st.integers(min_value=1, max_value=8),
)
def test_the_budget_holds_for_any_text(description: str, text: str, previous: str, count: int):
    """However long the texts, each part stays within its stated tokens."""
    config = PromptConfig(list_tokens=160, line_tokens=20, request_tokens=24, previous_tokens=8)
    writer = make_writer(config)
    lines = [writer.line(make_tool("n" * 100, description)) for _ in range(count)]
    assert all(len(line.tokens) <= config.line_tokens for line in lines)
    empty = len(writer.prompt([], "x")) - 1
    whole = len(writer.prompt(lines, text, previous))
    label = len(writer.encode_text("\nBefore: "))
    assert whole <= empty + count * 20 + 24 + 8 + label


def test_a_long_request_keeps_both_ends_and_costs_no_more(tools: tuple[Tool, ...]):
    """A pasted document neither hides the question nor is tokenised whole."""
    config = PromptConfig(list_tokens=200, line_tokens=40, request_tokens=40, previous_tokens=8)
    text = written(make_writer(config), tools[:1], "Translate this: " + "x" * 190_000 + " to Thai")
    assert "Request: Translate this: xx" in text
    assert "xx to Thai<|im_end|>" in text


def test_small_catalogs_are_listed_whole_and_large_ones_are_not(tools: tuple[Tool, ...]):
    """The budget alone decides."""
    lines = make_writer().fits_whole(tools)
    assert lines is not None
    assert len(lines) == len(tools)
    tight = PromptConfig(list_tokens=200, line_tokens=40)
    assert make_writer(tight).fits_whole(tools) is None
    assert make_writer().fits_whole(tools * 1_000) is None


def test_a_tool_without_a_description_still_has_a_line():
    """A bare name, and a name of any script, is listed."""
    tokenizer: Tokenizer = make_byte_tokenizer()
    writer = make_writer()
    assert tokenizer.decode(list(writer.line(make_tool("天气 & /x")).tokens)) == "- 天气 & /x\n"
    titled = make_tool("x", title="Shows the time")
    assert tokenizer.decode(list(writer.line(titled).tokens)) == "- x: Shows the time\n"


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[1]['content'] }}",
        "{% for m in messages %}{{ m['content'] }}{{ m['content'] }}{% endfor %}",
        "{{ messages[1]['content'] }}{{ messages[0]['content'] }}",
        "{{ 1 / 0 }}",
        "{% for %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ raise_exception('no system role') }}",
    ],
)
def test_a_template_that_loses_messages_is_refused(template: str):
    """A template is a stranger's program: it runs in a sandbox and is checked."""
    with pytest.raises(PromptError, match="template"):
        make_writer(template=template)


@pytest.mark.parametrize(
    "budget", [{"line_tokens": 2}, {"max_tools": 0}, {"list_tokens": 8}, {"request_tokens": 0}]
)
def test_budgets_that_hold_nothing_are_refused(budget: dict[str, int]):
    """A configuration is checked when it is made."""
    with pytest.raises(PromptError, match="PromptConfig"):
        PromptConfig(**budget)


def test_the_models_tokenizer_is_left_as_it_was():
    """The writer copies what it changes."""
    tokenizer = make_byte_tokenizer()
    before = tokenizer.to_str()
    PromptWriter(tokenizer, CHATML, answer_prefix="", none_text="none").encode_text("<|im_end|>")
    assert tokenizer.to_str() == before
    assert tokenizer.encode_special_tokens is False
