"""What the model reads: the shortlist, the request and the form of the answer.

Owns the wording, the clipping and the safe use of the model's chat template. Text that comes from
a caller or a catalog can never become a control token: the template's own parts are tokenised with
special tokens, everything else without, and spellings of added tokens are split apart. Never
chooses the tools.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import jinja2
import jinja2.sandbox
import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from router.retrieval.words import clip_at_word, first_sentence, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog_compiler.model import Tool

SYSTEM_TEXT: Final = (
    "You choose the one tool that serves the user's request. Answer with the tool's name only."
)
NONE_DESCRIPTION: Final = "no tool fits"

PLAIN_TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Answer: {% endif %}"
)
"""Stands in for the chat template of a model that has none (a base model)."""

_MARKS: Final = ("\ue000system\ue001", "\ue000user\ue001")
"""Private-use spellings that stand for the two contents while the template is rendered."""

_CHARS_PER_TOKEN = 8
"""Texts are cut to this many characters a token before they are tokenised, so that tokenising
costs no more than the budget warrants, whatever was sent."""


class PromptError(ValueError):
    """The chat template cannot be used, or a budget cannot hold what must stand in the prompt."""


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """The token budget of a prompt, template and wording aside (about 50 tokens).

    Attributes:
        list_tokens: tokens for all tool lines together.
        line_tokens: tokens for one tool line; its description is cut to fit.
        request_tokens: tokens of the request: three quarters from its start, the rest from its end.
        previous_tokens: tokens of the previous turn, from its end.
        max_tools: most tools listed, unless the whole catalog fits `list_tokens`.

    """

    list_tokens: int = 240
    line_tokens: int = 40
    request_tokens: int = 128
    previous_tokens: int = 48
    max_tools: int = 6

    def __post_init__(self) -> None:
        """Refuse budgets that cannot hold one line and one request."""
        smallest = min(self.line_tokens, self.request_tokens, self.previous_tokens)
        if smallest < 4 or self.list_tokens < self.line_tokens or self.max_tools < 1:
            raise PromptError(
                "PromptConfig: each text needs at least 4 tokens, the list at least one line, "
                "and max_tools must be at least 1"
            )


@dataclass(frozen=True, slots=True)
class ToolLine:
    """One line of the list: its tokens, the line break included."""

    tokens: tuple[int, ...]


class PromptWriter:
    """Writes prompts for one model and one way of spelling answers."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        chat_template: str | None,
        *,
        answer_prefix: str,
        none_text: str,
        bos: str = "",
        config: PromptConfig | None = None,
    ) -> None:
        """Render the template once and tokenise its parts.

        Args:
            tokenizer: the model's; it is copied, never changed.
            chat_template: the model's Jinja template, or None for a base model.
            answer_prefix: what stands in the answer before the name (the artifact's placement).
            none_text: how "no tool fits" is spelt (the artifact's placement).
            bos: the text of the token that opens a text, for templates that write it.
            config: the token budget.

        Raises:
            PromptError: the template does not render, or loses or repeats a message.

        """
        self.config = config or PromptConfig()
        self._trusted = tokenizer
        self._text = Tokenizer.from_str(tokenizer.to_str())
        self._text.no_truncation()
        self._text.no_padding()
        self._text.encode_special_tokens = True
        self._added = _added_tokens_pattern(tokenizer)
        opening, middle, closing = _template_parts(chat_template or PLAIN_TEMPLATE, bos)
        self._opening = self._encode_trusted(opening) + self.encode_text(SYSTEM_TEXT)
        self._middle = self._encode_trusted(middle) + self.encode_text("Tools:\n")
        self._none_line = self.encode_text(f"- {none_text}: {NONE_DESCRIPTION}\n")
        self._closing = self._encode_trusted(closing) + self.encode_text(answer_prefix)

    def encode_text(self, text: str) -> list[int]:
        """Tokenise untrusted text: no id of an added token ever comes out."""
        text = well_formed(text)
        if self._added is None:
            return self._encode_plain(text)
        cuts = [match.start() + 1 for match in self._added.finditer(text)]
        pieces = [text[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return [token for piece in pieces if piece for token in self._encode_plain(piece)]

    def line(self, tool: Tool) -> ToolLine:
        """Write the line of one tool, at most `line_tokens` long.

        The name is cut only where it alone exceeds the budget; the model then still answers with
        the whole name, since it walks the name grammar.
        """
        budget = self.config.line_tokens
        reach = budget * _CHARS_PER_TOKEN
        sentence = first_sentence(tool.description or tool.title, reach)
        name = clip_at_word(tool.name, reach)
        head = self.encode_text(f"- {name}: " if sentence else f"- {name}")
        tokens = (head + self.encode_text(sentence))[: budget - 1]
        return ToolLine((*tokens, *self.encode_text("\n")))

    def fits_whole(self, tools: Iterable[Tool]) -> list[ToolLine] | None:
        """Write the lines of all tools, or return None where they exceed `list_tokens`."""
        lines = []
        left = self.config.list_tokens
        for tool in tools:
            lines.append(self.line(tool))
            left -= len(lines[-1].tokens)
            if left < 0:
                return None
        return lines

    def prompt(
        self, lines: Sequence[ToolLine], text: str, previous: str = ""
    ) -> npt.NDArray[np.int32]:
        """Write the whole prompt: (n,) int32 token ids, ending where the name begins."""
        tokens = [*self._opening, *self._middle]
        for line in lines:
            tokens += line.tokens
        tokens += self._none_line
        if previous.strip():
            tokens += self.encode_text("\nBefore: ")
            tokens += self._tail(previous, self.config.previous_tokens)
        tokens += self.encode_text("\nRequest: ")
        tokens += self._head_and_tail(text, self.config.request_tokens)
        tokens += self._closing
        return np.array(tokens, dtype=np.int32)

    def _encode_trusted(self, text: str) -> list[int]:
        ids: list[int] = self._trusted.encode(text, add_special_tokens=False).ids
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self._text.encode(text, add_special_tokens=False).ids
        return ids

    def _tail(self, text: str, budget: int) -> list[int]:
        return self.encode_text(text.strip()[-budget * _CHARS_PER_TOKEN :])[-budget:]

    def _head_and_tail(self, text: str, budget: int) -> list[int]:
        text = text.strip()
        tail = budget // 4
        head = budget - tail
        if len(text) <= budget * _CHARS_PER_TOKEN:
            tokens = self.encode_text(text)
            if len(tokens) <= budget:
                return tokens
            return tokens[:head] + tokens[-tail:]
        front = self.encode_text(text[: head * _CHARS_PER_TOKEN])[:head]
        return front + self._tail(text, tail)


def _added_tokens_pattern(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """Match at every place where an added token of two characters or more is spelt."""
    spellings = sorted(
        {token.content for token in tokenizer.get_added_tokens_decoder().values()},
        key=lambda spelling: (-len(spelling), spelling),
    )
    spellings = [spelling for spelling in spellings if len(spelling) > 1]
    if not spellings:
        return None
    return re.compile(f"(?={'|'.join(map(re.escape, spellings))})")


def _template_parts(template: str, bos: str) -> tuple[str, str, str]:
    """Render the template and cut it at the two contents."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    try:
        rendered = environment.from_string(template).render(
            messages=[
                {"role": "system", "content": _MARKS[0]},
                {"role": "user", "content": _MARKS[1]},
            ],
            add_generation_prompt=True,
            bos_token=bos,
            enable_thinking=False,
        )
    except Exception as error:  # a template is a program and may raise anything
        raise PromptError(f"the model's chat template does not render: {error}") from error
    if any(rendered.count(mark) != 1 for mark in _MARKS) or rendered.index(
        _MARKS[0]
    ) > rendered.index(_MARKS[1]):
        raise PromptError(
            "the model's chat template does not carry a system and a user message once each, "
            "in this order; routing needs one that does"
        )
    opening, rest = rendered.split(_MARKS[0])
    middle, closing = rest.split(_MARKS[1])
    return opening, middle, closing
