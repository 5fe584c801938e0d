"""Compiled catalogs made ready: the indices travel in the file, and strangers are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_compiler.artifact import CompiledCatalog, write_artifact
from catalog_compiler.compile import compile_catalog
from catalog_compiler.grammar import chat_placement
from catalog_compiler.model import Tool, ToolSet
from decoder.tokenizer import LoadedTokenizer
from router.catalogs import CatalogMismatchError, LoadedCatalog
from router.retrieval.extras import extras_builder, extras_key
from router.retrieval.shortlist import RetrievalWeights

from .conftest import CATALOG, WordEmbedder, make_byte_tokenizer, make_tool

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = RetrievalWeights(cosine=10.0, bm25=0.3, verbatim=6.0)


def loaded_tokenizer(digest: str = "t1") -> LoadedTokenizer:
    """Make the byte tokenizer look like a model's."""
    return LoadedTokenizer(make_byte_tokenizer(), None, "<|im_end|>", "", digest)


def compiled(
    tools: tuple[Tool, ...] = CATALOG,
    embedder: WordEmbedder | None = None,
    previous: CompiledCatalog | None = None,
    *,
    with_index: bool = True,
) -> bytes:
    """Compile the small catalog, with or without indices."""
    tokenizer = make_byte_tokenizer()
    return compile_catalog(
        ToolSet(tools, ()),
        tokenizer,
        chat_placement(tokenizer),
        tokenizer_digest="t1",
        extras=extras_builder(embedder or WordEmbedder()) if with_index else None,
        extras_key=extras_key("e1"),
        previous=previous,
    )


def test_a_catalog_opens_with_the_indices_it_carries(tmp_path: Path):
    """Opening embeds nothing, and evidence is that of a fresh build."""
    path = write_artifact(compiled(), tmp_path / "small.catalog")
    embedder = WordEmbedder()
    opened = LoadedCatalog.open(path, loaded_tokenizer(), embedder, "e1")
    assert embedder.embedded == []
    fresh = LoadedCatalog.from_compiled(
        CompiledCatalog.from_bytes(compiled(with_index=False)), loaded_tokenizer(), embedder, "e1"
    )
    assert len(embedder.embedded) == len(CATALOG)
    for text in ("boil water", "lampSwitchOff", "天气"):
        one = opened.retriever.search(text, embedder, WEIGHTS)
        two = fresh.retriever.search(text, embedder, WEIGHTS)
        assert (one.score == two.score).all()


def test_indices_of_another_encoder_are_not_used():
    """They would mean nothing; the tools are embedded anew."""
    embedder = WordEmbedder()
    LoadedCatalog.from_compiled(
        CompiledCatalog.from_bytes(compiled()), loaded_tokenizer(), embedder, "e2"
    )
    assert len(embedder.embedded) == len(CATALOG)


def test_every_leaf_leads_to_its_tool_and_back():
    """Leaves and tools are the same set seen twice."""
    loaded = LoadedCatalog.from_compiled(
        CompiledCatalog.from_bytes(compiled()), loaded_tokenizer(), WordEmbedder(), "e1"
    )
    assert loaded.leaf_tool[loaded.tool_leaf].tolist() == list(range(len(loaded.tools)))
    assert loaded.leaf_tool[loaded.none_leaf] == -1


def test_a_catalog_for_another_tokenizer_is_refused():
    """Its grammar would spell other names."""
    with pytest.raises(CatalogMismatchError, match="compile it anew"):
        LoadedCatalog.from_compiled(
            CompiledCatalog.from_bytes(compiled()), loaded_tokenizer("t2"), WordEmbedder(), "e1"
        )


def test_broken_indices_are_refused():
    """Rows that do not fit the tools are never read past."""
    source = CompiledCatalog.from_bytes(compiled())
    source.extras = {k: v[:-1] if k == "semantic.rows" else v for k, v in source.extras.items()}
    with pytest.raises(CatalogMismatchError, match="semantic index"):
        LoadedCatalog.from_compiled(source, loaded_tokenizer(), WordEmbedder(), "e1")


def test_a_warm_compile_embeds_only_the_new_tool_and_gives_the_same_bytes():
    """Reuse saves time and changes no bit."""
    changed = (*CATALOG[1:], make_tool("zz_new", "Something new."))
    embedder = WordEmbedder()
    warm = compiled(changed, embedder, CompiledCatalog.from_bytes(compiled()))
    assert embedder.embedded == ["zz new: Something new."]
    assert warm == compiled(changed)
