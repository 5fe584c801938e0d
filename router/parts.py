"""What routing in one process needs: model, engine, encoder, and catalogs compiled on the spot.

Owns loading them for the commands that work without a service (evaluation, fitting, benchmarks).
Never serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_compiler.artifact import SUFFIX, CompiledCatalog
from catalog_compiler.compile import compile_catalog
from catalog_compiler.frontend import load_toolset
from catalog_compiler.grammar import chat_placement
from decoder.encoder import load_encoder
from decoder.engine import Engine, EngineConfig
from decoder.model import load_model
from router import assets
from router.catalogs import LoadedCatalog
from router.retrieval.extras import extras_builder, extras_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from decoder.encoder import Encoder
    from decoder.model import LoadedModel

DEFAULT_THREADS = 2


@dataclass(frozen=True, slots=True)
class RoutingParts:
    """A loaded model with its engine, and the sentence encoder."""

    model: LoadedModel
    engine: Engine
    embedder: Encoder

    @property
    def model_digest(self) -> str:
        """SHA-256, hex, of the model's files."""
        return self.model.digest

    def open_or_compile(self, path: Path) -> LoadedCatalog:
        """Open a compiled catalog, or compile a tools file in memory.

        Raises:
            CatalogError: the file cannot be read, compiled or opened.
            CatalogMismatchError: it was compiled for another tokenizer.

        """
        if path.suffix == SUFFIX:
            return LoadedCatalog.open(
                path, self.model.tokenizer, self.embedder, self.embedder.digest
            )
        return self.compile([path])

    def compile(self, paths: Sequence[Path]) -> LoadedCatalog:
        """Compile tools files of any format in memory.

        Raises:
            CatalogError: no tool can be read or routed.

        """
        tokenizer = self.model.tokenizer
        data = compile_catalog(
            load_toolset([str(path) for path in paths]),
            tokenizer.tokenizer,
            chat_placement(tokenizer.tokenizer, tokenizer.end_of_turn),
            tokenizer_digest=tokenizer.digest,
            extras=extras_builder(self.embedder),
            extras_key=extras_key(self.embedder.digest),
        )
        compiled = CompiledCatalog.from_bytes(data)
        return LoadedCatalog.from_compiled(compiled, tokenizer, self.embedder, self.embedder.digest)


def load_parts(model_path: Path | None, threads: int = DEFAULT_THREADS) -> RoutingParts:
    """Load a model (by default the embedded one), its engine and the encoder.

    Raises:
        AssetError: the shipped weights cannot be fetched or verified.
        ModelError: the model is missing, damaged or unsupported.

    """
    model = load_model(model_path or assets.smollm2_gguf(), threads=threads)
    return RoutingParts(
        model=model,
        engine=Engine(model.transformer, EngineConfig()),
        embedder=load_encoder(assets.minilm_dir(), threads=threads),
    )
