"""Untrusted text in a model's chat form.

Owns the safe use of the model's tokenizer and chat template, and cutting by tokens. Text that comes
from a caller or a catalog can never become a control token: the template's own parts are tokenised
with special tokens, everything else without, and spellings of added tokens are split apart. Never
words a prompt.
"""

from __future__ import annotations

import re
from typing import Final

import jinja2
import jinja2.sandbox
from tokenizers import Tokenizer

from router.retrieval.words import well_formed

PLAIN_TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Answer: {% endif %}"
)
"""Stands in for the chat template of a model that has none (a base model)."""

_MARKS: Final = ("\ue000system\ue001", "\ue000user\ue001")
"""Private-use spellings that stand for the two contents while the template is rendered."""

CHARS_PER_TOKEN: Final = 8
"""Texts are cut to this many characters a token before they are tokenised, so that tokenising
costs no more than the budget warrants, whatever was sent."""


class PromptError(ValueError):
    """The chat template cannot be used, or a budget cannot hold what must stand in the prompt."""


class ChatText:
    """Tokenises the parts of a chat with one system and one user message.

    Attributes:
        opening, middle, closing: tokens of the template before the system message, between the two
            messages, and from the user message to where the answer begins.

    """

    def __init__(self, tokenizer: Tokenizer, chat_template: str | None, *, bos: str = "") -> None:
        """Render the template once and tokenise its parts.

        Args:
            tokenizer: the model's; it is copied, never changed.
            chat_template: the model's Jinja template, or None for a base model.
            bos: the text of the token that opens a text, for templates that write it.

        Raises:
            PromptError: the template does not render, or loses or repeats a message.

        """
        self._trusted = tokenizer
        self._text = Tokenizer.from_str(tokenizer.to_str())
        self._text.no_truncation()
        self._text.no_padding()
        self._text.encode_special_tokens = True
        self._added = _added_tokens_pattern(tokenizer)
        parts = _template_parts(chat_template or PLAIN_TEMPLATE, bos)
        self.opening, self.middle, self.closing = map(self._encode_trusted, parts)

    def encode(self, text: str) -> list[int]:
        """Tokenise untrusted text: no id of an added token ever comes out."""
        text = well_formed(text)
        if self._added is None:
            return self._encode_plain(text)
        cuts = [match.start() + 1 for match in self._added.finditer(text)]
        pieces = [text[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return [token for piece in pieces if piece for token in self._encode_plain(piece)]

    def tail(self, text: str, budget: int) -> list[int]:
        """Tokenise the end of a text, at most `budget` tokens."""
        return self.encode(text.strip()[-budget * CHARS_PER_TOKEN :])[-budget:]

    def head_and_tail(self, text: str, budget: int) -> list[int]:
        """Tokenise a text, or of one too long three quarters from its start, the rest from its end.

        At most `budget` tokens.
        """
        text = text.strip()
        tail = budget // 4
        head = budget - tail
        if len(text) <= budget * CHARS_PER_TOKEN:
            tokens = self.encode(text)
            if len(tokens) <= budget:
                return tokens
            return tokens[:head] + tokens[-tail:]
        front = self.encode(text[: head * CHARS_PER_TOKEN])[:head]
        return front + self.tail(text, tail)

    def _encode_trusted(self, text: str) -> list[int]:
        ids: list[int] = self._trusted.encode(text, add_special_tokens=False).ids
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self._text.encode(text, add_special_tokens=False).ids
        return ids


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
