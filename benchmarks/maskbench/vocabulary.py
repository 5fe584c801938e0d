"""The tokenizer that every system is given, in a file that workers start from quickly.

Owns choosing it and the file. Never tokenises.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.maskbench.systems import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path


def choose(path: Path | None) -> Vocabulary:
    """Return a model's or a ``tokenizer.json``'s vocabulary, by default the embedded model's."""
    from decoder.arguments import vocabulary_of  # noqa: PLC0415
    from router.compiling import file_tokenizer, model_tokenizer  # noqa: PLC0415

    if path is not None and path.suffix == ".json":
        loaded = file_tokenizer(path, None)
    else:
        loaded = model_tokenizer(path)
    end = loaded.tokenizer.token_to_id(loaded.end_of_turn)
    assert end is not None
    spellings = tuple(vocabulary_of(loaded.tokenizer))
    return Vocabulary(loaded.tokenizer.to_str(), spellings, end)


def save(vocabulary: Vocabulary, path: Path) -> None:
    """Write it as JSON."""
    spellings = [None if each is None else each.hex() for each in vocabulary.spellings]
    path.write_text(json.dumps([vocabulary.tokenizer, spellings, vocabulary.end_token]))


def load(path: Path) -> Vocabulary:
    """Read what `save` wrote."""
    tokenizer, spellings, end = json.loads(path.read_text())
    return Vocabulary(
        tokenizer, tuple(None if each is None else bytes.fromhex(each) for each in spellings), end
    )
