"""What the model reads: the shortlist, the request and the form of the answer.

Owns the wording and the budgets; `router.chat` keeps untrusted text from becoming a control token.
Never chooses the tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from router.chat import CHARS_PER_TOKEN, ChatText, PromptError
from router.retrieval.words import clip_at_word, first_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    from tokenizers import Tokenizer

    from catalog_compiler.model import Tool

SYSTEM_TEXT: Final = (
    "You choose the one tool that serves the user's request. Answer with the tool's name only."
)
NONE_DESCRIPTION: Final = "no tool fits"


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
    """Writes prompts for one model and one way of spelling answers.

    Attributes:
        config: the token budget.
        chat: tokenises untrusted text, and the template's parts.

    """

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
        self.chat = ChatText(tokenizer, chat_template, bos=bos)
        self._opening = self.chat.opening + self.encode_text(SYSTEM_TEXT)
        self._middle = self.chat.middle + self.encode_text("Tools:\n")
        self._none_line = self.encode_text(f"- {none_text}: {NONE_DESCRIPTION}\n")
        self._closing = self.chat.closing + self.encode_text(answer_prefix)

    def encode_text(self, text: str) -> list[int]:
        """Tokenise untrusted text: no id of an added token ever comes out."""
        return self.chat.encode(text)

    def line(self, tool: Tool) -> ToolLine:
        """Write the line of one tool, at most `line_tokens` long.

        The name is cut only where it alone exceeds the budget; the model then still answers with
        the whole name, since it walks the name grammar.
        """
        budget = self.config.line_tokens
        reach = budget * CHARS_PER_TOKEN
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
            tokens += self.chat.tail(previous, self.config.previous_tokens)
        tokens += self.encode_text("\nRequest: ")
        tokens += self.chat.head_and_tail(text, self.config.request_tokens)
        tokens += self._closing
        return np.array(tokens, dtype=np.int32)
