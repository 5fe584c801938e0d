"""What a catalog's owner is told of tools that requests can hardly tell apart.

Owns the wording. The pairs are found by `router.retrieval.confusable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler import findings
from decoder.encoder import load_encoder
from router import assets
from router.retrieval.confusable import MAX_PAIRS, confusable_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_compiler.model import Diagnostic, Tool
    from router.retrieval.confusable import ConfusablePair
    from router.retrieval.semantic import Embedder


def confusion_findings(
    tools: Sequence[Tool], embedder: Embedder | None = None
) -> tuple[Diagnostic, ...]:
    """Return a finding for each pair, the most alike first, at most 1,000.

    Args:
        tools: of one catalog.
        embedder: by default the encoder that ships.

    Raises:
        AssetError: the encoder cannot be fetched or verified.

    """
    pairs, there_are = confusable_pairs(tools, embedder or load_encoder(assets.minilm_dir()))
    told = [
        findings.HARD_TO_TELL.at(
            tools[pair.first].source,
            tools[pair.first].pointer,
            _message(tools, pair),
            tool=tools[pair.first].name,
            related=(tools[pair.second].name,),
        )
        for pair in pairs
    ]
    if there_are > len(pairs):
        message = f"{there_are:,} pairs are alike; the {MAX_PAIRS:,} most alike are listed"
        told.append(findings.HARD_TO_TELL.at("", "", message))
    return tuple(told)


def _message(tools: Sequence[Tool], pair: ConfusablePair) -> str:
    one, other = tools[pair.first].name, tools[pair.second].name
    parts = [
        f"only {name!r} says {', '.join(words)}"
        for name, words in ((one, pair.first_words), (other, pair.second_words))
        if words
    ]
    apart = "; ".join(parts) or "no word of either tells them apart"
    return f"{one!r} and {other!r} are alike (cosine {pair.likeness:.2f}): {apart}"
