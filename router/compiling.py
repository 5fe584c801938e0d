"""What compiling a catalog takes from the router: a tokenizer, and the retrieval index.

Owns choosing and loading both. Never reads tool schemas and never writes a catalog. The encoder is
loaded only when a tool has to be embedded or its digest is asked for.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from catalog_compiler.errors import SourceError
from catalog_compiler.grammar import chat_placement
from decoder.encoder import load_encoder
from decoder.tokenizer import LoadedTokenizer, load_tokenizer
from router.assets import minilm_dir, smollm2_gguf
from router.retrieval.extras import extras_builder, extras_key

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_compiler.compile import ExtrasBuilder


def model_tokenizer(model: Path | None) -> LoadedTokenizer:
    """Return the tokenizer of a model, by default the embedded one.

    Raises:
        AssetError: the embedded model cannot be fetched or verified.
        ModelError: the model is missing, damaged or unsupported.

    """
    return load_tokenizer(model or smollm2_gguf())


def file_tokenizer(path: Path, end_of_turn: str | None) -> LoadedTokenizer:
    """Return the tokenizer of a lone ``tokenizer.json``.

    Args:
        path: the file.
        end_of_turn: what closes an answer; None where it is to be recognised.

    Raises:
        SourceError: it is no tokenizer file.
        GrammarError: its end-of-turn token is not recognised.

    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise SourceError(
            f"{path} can't be read as a tokenizer ({error}); give a tokenizer.json"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    canonical = json.dumps(json.loads(tokenizer.to_str()), sort_keys=True, ensure_ascii=False)
    return LoadedTokenizer(
        tokenizer=tokenizer,
        chat_template=None,
        end_of_turn=chat_placement(tokenizer, end_of_turn).delimiter,
        bos="",
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
    )


def retrieval_extras() -> tuple[ExtrasBuilder, str]:
    """Return the builder of the retrieval index and the key that names it.

    Raises:
        AssetError: the encoder cannot be fetched or verified.
        ModelError: the encoder is damaged.

    """
    encoder = load_encoder(minilm_dir())
    return extras_builder(encoder), extras_key(encoder.digest)
