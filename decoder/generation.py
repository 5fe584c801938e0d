"""One text written token by token under a grammar: which token comes next, and when it ends.

Owns the choice (the most probable allowed token; the lower id where two are equal), the tokens
that need no choice, and the budgets. Never runs a model and never touches memory: it is handed
the logits of the tokens that it asks for.

Where only one continuation is possible its text is written without the model, in the tokenizer's
own tokens, so that the model reads what it was trained on. The last of these tokens is left to the
model, since it may go on into what is free (a quote and the letters after it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from decoder.errors import BudgetError, RequestError, RowFaultError
from decoder.logprob import log_softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from decoder.kernels.base import F32, I32

MAX_STRING_TOKENS = 64
"""Tokens after which a string is closed, where the request names no other bound."""

MAX_ROUNDS = 3
"""Times that the same tokens may come round one after the other before another is taken."""

MAX_ROUND_TOKENS = 24
"""Longest round that is looked for."""

MIN_ROUND_BYTES = 10
"""A round without a letter is one from this length on."""

MAX_TRIES = 64
"""Tokens that are passed over for going round once more; past them the best is taken after all."""

SPARE_TOKENS = 8
"""Tokens kept back, beside the shortest ending known, for an ending that grows by one choice."""


class TokenGrammar(Protocol):
    """What has been written so far, and what may follow. Texts are UTF-8."""

    @property
    def accepts(self) -> bool:
        """Whether what is written is whole."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it is whole and nothing may follow."""
        ...

    def allowed(self) -> I32:
        """Return the tokens that may follow: (n,) int32, ascending."""
        ...

    def advance(self, token: int) -> None:
        """Write a token that is allowed."""
        ...

    def forced(self) -> bytes:
        """Return the longest text that every continuation begins with."""
        ...

    def shortest(self) -> bytes:
        """Return a short text that makes what is written whole."""
        ...

    def closing(self) -> bytes:
        """Return the shortest text that ends the string one is in; empty where one is in none."""
        ...


class Speller(Protocol):
    """The way between texts and a model's tokens."""

    def spell(self, text: bytes) -> tuple[int, ...]:
        """Return tokens whose bytes, joined, are the text: the tokenizer's own where it can."""
        ...

    def spelling(self, token: int) -> bytes:
        """Return the bytes of a token."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GenerateRequest:
    """A text to be written after a prompt.

    Attributes:
        prompt: (n,) int32 token ids, n >= 1.
        grammar: nothing written yet; the engine moves it on, nobody else may.
        speller: of the model's tokenizer.
        max_tokens: most tokens of the text. Where it runs out, the text is closed in the shortest
            way.
        max_string_tokens: most tokens of one string in it; then the string is closed.
        end_token: the token that ends an answer, where the grammar can't tell by itself (a
            number); -1 for none.

    """

    prompt: I32
    grammar: TokenGrammar
    speller: Speller
    max_tokens: int
    max_string_tokens: int = MAX_STRING_TOKENS
    end_token: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class GenerateResult:
    """A text that the grammar accepts.

    Attributes:
        text: UTF-8.
        tokens: (m,) int32, its tokens as they were written.
        logprob: sum of the chosen tokens' log-probabilities under the constrained distribution, in
            nats; tokens without a choice add nothing.
        cut: whether a budget ended it, or one of its strings, and not the model.
        prompt_tokens: tokens of the prompt.
        cached_tokens: of these, tokens that an earlier prompt had read.
        scored_tokens: tokens that were given a logit.
        passes: forward passes the request took part in.

    """

    text: bytes
    tokens: I32
    logprob: float
    cut: bool
    prompt_tokens: int
    cached_tokens: int
    scored_tokens: int
    passes: int


@dataclass(slots=True, eq=False)
class Generation:
    """The state of one `GenerateRequest`.

    Attributes:
        request: what is asked.
        tokens: written so far.
        logprob: of the choices so far.
        done: whether the text is whole.
        cut: whether a budget ended it or one of its strings.

    """

    request: GenerateRequest
    tokens: list[int] = field(default_factory=list)
    logprob: float = 0.0
    done: bool = False
    cut: bool = False
    _string_tokens: int = 0
    _asked: I32 | None = None

    def start(self) -> list[int]:
        """Write what needs no model; return its tokens.

        Raises:
            RequestError: a budget below 1.
            BudgetError: the budget holds not even the shortest text.

        """
        request = self.request
        if request.max_tokens < 1 or request.max_string_tokens < 1:
            raise RequestError("max_tokens and max_string_tokens must be at least 1")
        needed = len(request.speller.spell(request.grammar.shortest()))
        if needed > request.max_tokens:
            raise BudgetError(
                f"the shortest text takes {needed} tokens, and max_tokens is "
                f"{request.max_tokens}; give more"
            )
        return self._settle()

    def asked(self) -> I32:
        """Return the tokens whose logits are wanted next: (n,) int32, n >= 1."""
        if self._asked is None:
            allowed = self.request.grammar.allowed()
            if self.request.end_token >= 0 and self.request.grammar.accepts:
                allowed = np.append(allowed, np.int32(self.request.end_token))
            if not len(allowed):
                raise RequestError("the vocabulary has no token for what must follow")
            self._asked = allowed
        return self._asked

    def choose(self, logits: F32) -> list[int]:
        """Write the best of the tokens asked for, and what follows without a choice.

        Args:
            logits: (n,) f32, in the order of `asked`.

        Returns:
            The tokens written; empty where the end was chosen.

        Raises:
            RowFaultError: a logit is not finite.
            BudgetError: what was chosen can't be ended within the budget.

        """
        if not np.isfinite(logits).all():
            raise RowFaultError("the model produced a logit that is not finite for this request")
        asked = self.asked()
        best = self._best(asked, logits)
        self.logprob += float(log_softmax(logits)[best])
        token = int(asked[best])
        if token == self.request.end_token and best == len(asked) - 1:
            self.done = True
            return []
        before = len(self.tokens)
        self._write(token)
        self._settle()
        return self.tokens[before:]

    def _best(self, asked: I32, logits: F32) -> int:
        """Return the place of the best token, the first of equals (the tokens ascend).

        A small model that has begun to go round in circles goes on for ever. So what came round
        `MAX_ROUNDS` times with a word in it is not begun again where anything else may follow.
        """
        best = int(np.argmax(logits))
        again = self._next_round() if len(asked) > 1 else b""
        if not again:
            return best
        # By its text, since the same text has many spellings in tokens.
        others, place = logits.copy(), best
        for _ in range(min(len(asked), MAX_TRIES)):
            text = self.request.speller.spelling(int(asked[place]))
            if not (again.startswith(text) or text.startswith(again)):
                return place
            others[place] = -np.inf
            place = int(np.argmax(others))
        return best

    def _next_round(self) -> bytes:
        """Return the text that would come round once more, or b""."""
        tokens = self.tokens
        for length in range(1, min(MAX_ROUND_TOKENS, len(tokens) // MAX_ROUNDS) + 1):
            last = tokens[-length:]
            if tokens[-MAX_ROUNDS * length :] == last * MAX_ROUNDS and self._has_word(last):
                return b"".join(map(self.request.speller.spelling, last))
        return b""

    def _has_word(self, tokens: list[int]) -> bool:
        """Tell whether it is more than signs and digits, which may repeat (1000000, [0, 0, 0])."""
        text = b"".join(map(self.request.speller.spelling, tokens))
        letters = any(byte >= 0x80 or chr(byte).isalpha() for byte in text)
        return len(tokens) > 1 and (letters or len(text) >= MIN_ROUND_BYTES)

    def _settle(self) -> list[int]:
        """Write until there is a choice again, or the end."""
        grammar, before = self.request.grammar, len(self.tokens)
        while not self.done:
            if grammar.finished or (grammar.accepts and not len(grammar.allowed())):
                self.done = True
            elif self._budget_ends():
                self._write_all(grammar.shortest())
                self.cut = self.done = True
            elif self._string_tokens >= self.request.max_string_tokens:
                self._write_all(grammar.closing())
                self.cut = True
            elif not self._write_forced():
                asked = self.asked()
                if len(asked) > 1 or grammar.accepts:
                    break
                self._write(int(asked[0]))
        return self.tokens[before:]

    def _budget_ends(self) -> bool:
        left = self.request.max_tokens - len(self.tokens)
        shortest = self.request.grammar.shortest()
        if len(shortest) + SPARE_TOKENS < left:  # a token has at least a byte
            return False
        return len(self.request.speller.spell(shortest)) + SPARE_TOKENS >= left

    def _write_forced(self) -> bool:
        """Write the text that must follow, but for its last token; tell whether there was any."""
        grammar = self.request.grammar
        run = grammar.forced()
        if not run:
            return False
        if run == grammar.shortest():  # nothing free follows it
            self._write_all(run)
            return True
        spelt = self.request.speller.spell(run)
        for token in spelt[:-1]:
            self._write(token)
        return len(spelt) > 1

    def _write_all(self, text: bytes) -> None:
        spelt = self.request.speller.spell(text)
        if len(self.tokens) + len(spelt) > self.request.max_tokens:
            raise BudgetError(
                f"the text can't be ended within {self.request.max_tokens} tokens; give more"
            )
        for token in spelt:
            self._write(token)

    def _write(self, token: int) -> None:
        grammar = self.request.grammar
        grammar.advance(token)
        self.tokens.append(token)
        self._asked = None
        self._string_tokens = self._string_tokens + 1 if grammar.closing() else 0

    @property
    def text(self) -> bytes:
        """What is written so far."""
        return b"".join(map(self.request.speller.spelling, self.tokens))


def tokens_array(tokens: Sequence[int]) -> NDArray[np.int32]:
    """Return token ids as the decoder takes them: (n,) int32."""
    return np.array(tokens, np.int32).reshape(len(tokens))
