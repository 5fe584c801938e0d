"""Where a name stands in the model's output.

Owns the texts around a name and the choice of them for a chat model. Never tokenises a name.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from catalog_compiler.errors import GrammarError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NONE_TEXTS: Final = ("none", "no_tool_fits", "no tool fits", "(none)", "(no tool fits)")
"""Spellings of "no tool fits", tried in this order: the first that is no tool's name or alias and
that the tokenizer can spell. After them come ``no_tool_fits_2``, ``no_tool_fits_3`` and so on."""

_CHAT_FORMS: Final = (
    ("<|im_end|>", "<|im_start|>assistant\n"),
    ("<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    ("<end_of_turn>", "<start_of_turn>model\n"),
    ("<|end|>", "<|assistant|>\n"),
    ("<|eot|>", ""),
    ("[/INST]", ""),
    ("</s>", ""),
    ("<|endoftext|>", ""),
)
"""(end-of-turn token, how the turn it ends is opened), most specific first."""


@dataclass(frozen=True, slots=True)
class Placement:
    r"""The texts around a name. Special tokens in `context` and `delimiter` count as such.

    Attributes:
        prefix: text of the model's own output before the name; mostly "".
        delimiter: text that closes the name; for ChatML the end-of-turn token ``<|im_end|>``.
        none_text: how "no tool fits" is spelt; "" leaves the choice to the compiler (`NONE_TEXTS`).
        context: how the prompt ends just before the output (``<|im_start|>assistant\n``). It is
            never part of an answer; names are tokenised after it, as the model would see them.

    """

    prefix: str = ""
    delimiter: str = "<|im_end|>"
    none_text: str = ""
    context: str = "<|im_start|>assistant\n"

    def __post_init__(self) -> None:
        """Refuse an empty delimiter: a name could then be the beginning of another."""
        for field_name in ("prefix", "delimiter", "none_text", "context"):
            if not isinstance(getattr(self, field_name), str):
                raise GrammarError(f"Placement.{field_name} must be a string")
        if not self.delimiter:
            raise GrammarError(
                "Placement.delimiter is empty; give the text that closes an answer, "
                "for a chat model its end-of-turn token"
            )

    def to_json(self) -> str:
        """Return the canonical JSON text (keys sorted, ASCII)."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Placement:
        """Read back what `to_json` wrote.

        Raises:
            GrammarError: it is not JSON of exactly these fields.

        """
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise GrammarError(f"not a placement: {error}") from error


def chat_placement(tokenizer: Tokenizer, end_of_turn: str | None = None) -> Placement:
    """Return the placement of an answer that is one whole turn of a chat model.

    Args:
        tokenizer: the model's; only its added tokens are read.
        end_of_turn: the model's end-of-turn token where it is known; else it is recognised.

    Raises:
        GrammarError: no end-of-turn token is known or recognised.

    """
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    forms = dict(_CHAT_FORMS)
    if end_of_turn is not None:
        return Placement(delimiter=end_of_turn, context=forms.get(end_of_turn, ""))
    for delimiter, context in _CHAT_FORMS:
        if delimiter in added:
            return Placement(delimiter=delimiter, context=context)
    raise GrammarError(
        "the tokenizer has no end-of-turn token that is recognised; name the text that closes an "
        f"answer as the delimiter (added tokens: {', '.join(sorted(added)[:8]) or 'none'})"
    )
