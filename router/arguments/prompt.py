"""What the model reads before it writes arguments: the tool, what may be written, the request.

Owns the wording and the budgets; `router.chat` keeps untrusted text from becoming a control token.
Never decides which parameters may be written.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from router.chat import CHARS_PER_TOKEN, PromptError
from router.retrieval.words import clip_at_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from catalog_compiler.model import Json, Tool
    from router.arguments.parameters import Parameter, Parameters
    from router.chat import ChatText

SYSTEM_TEXT: Final = (
    "You write the arguments of one tool call as a JSON object. Take every value from the user's "
    "request."
)
MAX_DEPTH: Final = 3
"""Levels of members that are told; deeper ones are left to the grammar."""

MAX_TOLD: Final = 256
"""Most parameters that are told; the budget of tokens has room for fewer."""

_SHOWN_CHOICES: Final = 12


@dataclass(frozen=True, slots=True)
class ArgumentPromptConfig:
    """The token budget of an argument prompt, template and wording aside (about 50 tokens).

    Attributes:
        tool_tokens: tokens of the tool's name and description together.
        line_tokens: tokens of one parameter's line; its description is cut to fit.
        list_tokens: tokens of all parameters' lines; beyond it descriptions go first, then lines,
            optional parameters' before required ones'.
        request_tokens: tokens of the request: three quarters from its start, the rest from its end.
            Values are copied from it, so more is read than for the choice of a tool.
        previous_tokens: tokens of the previous turn, from its end.

    """

    tool_tokens: int = 64
    line_tokens: int = 48
    list_tokens: int = 512
    request_tokens: int = 1024
    previous_tokens: int = 256

    def __post_init__(self) -> None:
        """Refuse budgets that cannot hold one line and one request."""
        if (
            min(self.tool_tokens, self.line_tokens, self.request_tokens, self.previous_tokens) < 8
            or self.list_tokens < self.line_tokens
        ):
            raise PromptError(
                "ArgumentPromptConfig: each text needs at least 8 tokens, the list one line"
            )


class ArgumentPromptWriter:
    """Writes argument prompts for one model.

    Attributes:
        chat: tokenises untrusted text, and the template's parts.
        config: the token budget.

    """

    def __init__(self, chat: ChatText, config: ArgumentPromptConfig | None = None) -> None:
        self.chat = chat
        self.config = config or ArgumentPromptConfig()
        self._opening = chat.opening + chat.encode(SYSTEM_TEXT) + chat.middle

    def prompt(
        self,
        tool: Tool,
        parameters: Parameters,
        closed: frozenset[Parameter],
        text: str,
        previous: str = "",
    ) -> npt.NDArray[np.int32]:
        """Write the whole prompt: (n,) int32 token ids, ending where the JSON begins.

        Args:
            tool: the chosen tool.
            parameters: those of its schema.
            closed: parameters that can't be written, and are not told.
            text: the request.
            previous: the turn before, or "".

        """
        encode = self.chat.encode
        tokens = [*self._opening, *self._tool(tool)]
        lines = self._lines(parameters, closed)
        tokens += encode("Parameters:\n" if lines else "Parameters: none\n")
        for line in lines:
            tokens += line
        if previous.strip():
            tokens += encode("\nBefore: ")
            tokens += self.chat.tail(previous, self.config.previous_tokens)
        tokens += encode("\nRequest: ")
        tokens += self.chat.head_and_tail(text, self.config.request_tokens)
        tokens += self.chat.closing
        return np.array(tokens, dtype=np.int32)

    def _tool(self, tool: Tool) -> list[int]:
        budget = self.config.tool_tokens
        reach = budget * CHARS_PER_TOKEN
        head = self.chat.encode(f"Tool: {clip_at_word(tool.name, reach)}")
        description = clip_at_word(tool.description or tool.title, reach)
        rest = self.chat.encode(f": {description}") if description else []
        return [*(head + rest)[: budget - 1], *self.chat.encode("\n")]

    def _lines(self, parameters: Parameters, closed: frozenset[Parameter]) -> list[list[int]]:
        """Write a line for each parameter, in order, as far as the budget goes."""
        told = _told(parameters, closed)
        lines = [self._line(path, each, each.description) for path, each in told]
        if sum(map(len, lines)) > self.config.list_tokens:
            lines = [self._line(path, each, "") for path, each in told]
        left = self.config.list_tokens
        kept = set()
        for required in (True, False):
            for place, (_, each) in enumerate(told):
                if each.required is required and len(lines[place]) <= left:
                    kept.add(place)
                    left -= len(lines[place])
        return [line for place, line in enumerate(lines) if place in kept]

    def _line(self, path: str, parameter: Parameter, description: str) -> list[int]:
        budget = self.config.line_tokens
        reach = budget * CHARS_PER_TOKEN
        head = self.chat.encode(clip_at_word(f"- {path} ({_kind(parameter)})", reach))
        text = clip_at_word(description, reach)
        tokens = head + (self.chat.encode(f": {text}") if text else [])
        return [*tokens[: budget - 1], *self.chat.encode("\n")]


def _told(parameters: Parameters, closed: frozenset[Parameter]) -> list[tuple[str, Parameter]]:
    """Return parameters with their paths: members after their object, items as `list[].member`.

    Where there are more than MAX_TOLD, upper levels come before deeper ones.
    """
    waiting: deque[tuple[tuple[int, ...], str, Sequence[Parameter]]] = deque()
    waiting.append(((), "", parameters.top))
    found: list[tuple[tuple[int, ...], str, Parameter]] = []
    while waiting and len(found) < MAX_TOLD:
        order, prefix, members = waiting.popleft()
        for place, member in enumerate(members):
            if member in closed:
                continue
            here, path = (*order, place), prefix + member.key
            found.append((here, path, member))
            if len(found) == MAX_TOLD:
                break
            if len(here) < 2 * MAX_DEPTH - 1:
                waiting.append(((*here, 0), f"{path}.", parameters.members(member)))
                items = parameters.members(parameters.items(member))
                waiting.append(((*here, 1), f"{path}[].", items))
    found.sort(key=lambda each: each[0])
    return [(path, member) for _, path, member in found]


def _kind(parameter: Parameter) -> str:
    """Tell type, choices, format and whether it must be there."""
    parts = []
    if parameter.choices:
        shown = [_shown(choice) for choice in parameter.choices[:_SHOWN_CHOICES]]
        more = ", ..." if len(parameter.choices) > _SHOWN_CHOICES else ""
        parts.append(f"one of {', '.join(shown)}{more}")
    elif parameter.types:
        parts.append(" or ".join(parameter.types))
    if parameter.text_format:
        parts.append(parameter.text_format)
    if parameter.required:
        parts.append("required")
    return ", ".join(parts) or "any value"


def _shown(choice: Json) -> str:
    return clip_at_word(json.dumps(choice, ensure_ascii=False), 80)
