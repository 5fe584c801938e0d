"""The three indices and the shortlist: what is found, and that no crowd changes a bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.retrieval.lexical import (
    LexicalConfig,
    LexicalIndex,
    build_lexical_index,
    parameter_texts,
)
from router.retrieval.names import build_name_index
from router.retrieval.semantic import (
    ROW_SCALE,
    SemanticIndex,
    build_semantic_index,
    to_rows,
    tool_text,
)
from router.retrieval.shortlist import RetrievalWeights, Retriever
from router.retrieval.words import stem, terms_of

from .conftest import CATALOG, WordEmbedder, make_tool

if TYPE_CHECKING:
    from catalog_compiler.model import Tool

WEIGHTS = RetrievalWeights(cosine=10.0, bm25=0.3, verbatim=6.0)


def reference_bm25(tools: tuple[Tool, ...], text: str, config: LexicalConfig) -> list[float]:
    """BM25 as the textbook writes it, tool by tool, in plain floats."""
    documents = []
    for tool in tools:
        prose = " ".join((tool.title, tool.description, tool.namespace, *tool.aliases))
        documents.append(
            (
                terms_of(tool.name),
                terms_of(prose),
                terms_of(" ".join(parameter_texts(tool.input_schema))),
            )
        )
    weights = (config.name_weight, 1.0, config.parameter_weight)
    lengths = [
        sum(w * len(part) for w, part in zip(weights, document, strict=True))
        for document in documents
    ]
    mean = sum(lengths) / len(lengths)
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        score = 0.0
        for term in set(terms_of(text)):
            count = sum(w * part.count(term) for w, part in zip(weights, document, strict=True))
            if not count:
                continue
            holders = sum(term in d[0] or term in d[1] for d in documents)
            holders = holders or sum(term in d[2] for d in documents)
            rarity = np.log1p((len(tools) - holders + 0.5) / (holders + 0.5))
            norm = config.saturation * (
                1 - config.length_penalty + config.length_penalty * length / mean
            )
            score += rarity * count * (config.saturation + 1) / (count + norm)
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    "text", ["boil the kettle", "turquoise water", "turn on lamps in rooms", "zzz", "天气", ""]
)
def test_the_index_scores_what_the_formula_says(tools: tuple[Tool, ...], text: str):
    """The sparse integers are the textbook sum, to their stated resolution."""
    config = LexicalConfig()
    scores = build_lexical_index(tools, config).score(text)
    expected = reference_bm25(tools, text, config)
    assert scores == pytest.approx(expected, abs=0.01)


def test_parameter_names_descriptions_and_enums_are_found(
    tools: tuple[Tool, ...], index_of: dict[str, int]
):
    """A word that stands only in a schema finds its tool and no other."""
    scores = build_lexical_index(tools).score("turquoise litre")
    assert scores.argmax() == index_of["kettle_boil"]
    assert np.count_nonzero(scores) == 1


def test_an_odd_or_endless_schema_is_read_in_bounded_time():
    """Schemas that are not schemas, and deep ones, give what texts they have."""
    deep: dict[str, object] = {"description": "bottom"}
    for _ in range(5_000):
        deep = {"properties": {"a": deep}, "enum": [1, None, "word"]}
    assert list(parameter_texts(None)) == []
    assert list(parameter_texts(["x", 3])) == []
    assert 1_000 < sum(1 for _ in parameter_texts(deep)) < 10_000


def test_the_lexical_index_survives_its_arrays(tools: tuple[Tool, ...]):
    """What a compiled catalog carries scores the same bits."""
    index = build_lexical_index(tools)
    again = LexicalIndex.from_arrays(index.to_arrays(), len(tools))
    for text in ("water the beds", "天气 lamp", "<litres>"):
        assert (again.score(text) == index.score(text)).all()


@pytest.mark.parametrize("broken", ["lexical.tools", "lexical.offsets", "lexical.term_offsets"])
def test_contradicting_arrays_are_refused(tools: tuple[Tool, ...], broken: str):
    """A missing or short array is named, never read past."""
    arrays = build_lexical_index(tools).to_arrays()
    with pytest.raises(ValueError, match="lexical index"):
        LexicalIndex.from_arrays({k: v for k, v in arrays.items() if k != broken}, len(tools))
    arrays[broken] = arrays[broken][:-1]
    with pytest.raises(ValueError, match="contradict"):
        LexicalIndex.from_arrays(arrays, len(tools))


@given(
    st.lists(
        st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6).filter(
            lambda row: sum(x * x for x in row) > 1e-3
        ),
        min_size=2,
        max_size=8,
    )
)
def test_products_of_rows_are_whole_numbers_in_any_order(vectors: list[list[float]]):
    """Products are added as integers far inside 32 bits, so order and subset cannot matter."""
    unit = np.array(vectors, dtype=np.float64)
    unit /= np.sqrt((unit * unit).sum(axis=1, keepdims=True))
    rows = to_rows(unit.astype(np.float32))
    exact = rows.astype(np.int64) @ rows[0].astype(np.int64)
    index = SemanticIndex(rows, np.zeros(len(rows), dtype=np.uint64))
    assert (index.score(rows[0], WordEmbedder()) == exact / ROW_SCALE**2).all()
    assert np.abs(exact).max() < 2**24


def test_vectors_that_are_not_unit_are_refused():
    """A broken encoder is noticed, not scaled away."""
    with pytest.raises(ValueError, match="unit"):
        to_rows(np.zeros((1, 4), dtype=np.float32))
    with pytest.raises(ValueError, match="unit"):
        to_rows(np.full((1, 4), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="shape"):
        to_rows(np.zeros((1, 5_000), dtype=np.float32))


def test_tools_are_embedded_by_name_words_and_first_sentence(
    tools: tuple[Tool, ...], index_of: dict[str, int]
):
    """Later sentences, which often speak of other tools, stay out."""
    text = tool_text(tools[index_of["kettle_boil"]])
    assert text == "kettle boil: Boils water in the kitchen kettle."
    assert tool_text(make_tool("lampSwitchOn")) == "lamp switch on"


def test_a_recompile_embeds_only_what_changed(tools: tuple[Tool, ...], embedder: WordEmbedder):
    """Known texts are not embedded again, and the rows are those of a cold build."""
    before = build_semantic_index(tools, embedder)
    changed = (*tools[1:], make_tool("zebra", "New."), make_tool("zebra2", "Other words."))
    embedder.embedded.clear()
    warm = build_semantic_index(changed, embedder, before)
    assert embedder.embedded == ["zebra: New.", "zebra 2: Other words."]
    cold = build_semantic_index(changed, embedder)
    assert (warm.rows == cold.rows).all()
    assert (warm.keys == cold.keys).all()


@pytest.mark.parametrize(
    ("text", "verbatim", "worded"),
    [
        ("please run kettle_boil now", ["kettle_boil"], ["kettle_boil"]),
        ("KETTLE_BOIL!", ["kettle_boil"], ["kettle_boil"]),
        ("xkettle_boil kettle_boily", [], []),
        ("the kettle boil button", [], ["kettle_boil"]),
        ("use irrigate_beds", ["garden.water-beds"], ["garden.water-beds"]),
        ("lampswitchon", [], []),
        ("LampSwitchOn", ["lampSwitchOn"], ["lampSwitchOn"]),
        ("search for a book", [], []),
        ("call `search` for a book", ["search"], ["search"]),
        ("请用天气查询吧", [], ["天气查询"]),
        ("天气查询", ["天气查询"], ["天气查询"]),
        ("strasse offnen", [], ["Straße öffnen"]),
    ],
)
def test_names_spelt_in_a_request_are_found(
    tools: tuple[Tool, ...], text: str, verbatim: list[str], worded: list[str]
):
    """Identifiers count verbatim; the same words in prose count as worded; common words do not."""
    hits = build_name_index(tools).find(text)
    assert [tools[i].name for i in hits.verbatim] == verbatim
    assert [tools[i].name for i in hits.worded] == worded


def test_a_spelt_name_is_always_in_the_shortlist(embedder: WordEmbedder):
    """However well others score, the tool that was named is among those the model reads."""
    crowd = tuple(
        make_tool(f"tool_{i:03}", f"Counts apples and pears and plums, kind {i}.")
        for i in range(200)
    )
    target = make_tool("zz_named_one", "Unrelated.")
    retriever = Retriever.build((*crowd, target), embedder)
    weights = RetrievalWeights(cosine=10.0, bm25=0.3, verbatim=0.0)
    evidence = retriever.search(
        "count apples and pears and plums with zz_named_one", embedder, weights
    )
    listed = evidence.tools[evidence.shortlist(4)].tolist()
    assert len(crowd) in listed
    assert len(listed) == 4
    assert evidence.score[evidence.shortlist(4)].tolist() == sorted(
        evidence.score[evidence.shortlist(4)].tolist(), reverse=True
    )


@settings(max_examples=50)
@given(
    st.lists(st.booleans(), min_size=len(CATALOG), max_size=len(CATALOG)),
    st.sampled_from(["boil water", "lamp off please", "天气", "zzz", "water-beds <room>"]),
)
def test_a_subset_never_changes_a_score(mask: list[bool], text: str):
    """Each allowed tool's evidence is bit for bit that of the whole catalog, in the same order."""
    embedder = WordEmbedder()
    retriever = Retriever.build(CATALOG, embedder)
    whole = retriever.search(text, embedder, WEIGHTS)
    part = retriever.search(text, embedder, WEIGHTS, np.array(mask))
    kept = np.flatnonzero(mask)
    assert (part.tools == kept).all()
    assert (part.score == whole.score[kept]).all()
    ranked = [i for i in whole.tools[whole.best(len(CATALOG))].tolist() if mask[i]]
    assert part.tools[part.best(len(CATALOG))].tolist() == ranked


def test_ties_go_to_the_lower_index(embedder: WordEmbedder):
    """Twins are ranked in catalog order, whatever the request."""
    twins = tuple(make_tool(name, "Same words.") for name in ("a_b", "b_a"))
    evidence = Retriever.build(twins, embedder).search("words", embedder, WEIGHTS)
    assert evidence.score[0] == evidence.score[1]
    assert evidence.best(2).tolist() == [0, 1]


def test_a_catalog_carries_its_indices(tools: tuple[Tool, ...], embedder: WordEmbedder):
    """Evidence from the arrays of a compiled catalog is that of a fresh build, bit for bit."""
    built = Retriever.build(tools, embedder)
    loaded = Retriever.from_arrays(tools, built.to_arrays())
    for text in ("kettle_boil", "turn the lamp off", "天气"):
        one = built.search(text, embedder, WEIGHTS)
        two = loaded.search(text, embedder, WEIGHTS)
        assert (one.score == two.score).all()
        assert (one.best(9) == two.best(9)).all()
    with pytest.raises(ValueError, match="semantic index"):
        SemanticIndex.from_arrays(built.semantic.to_arrays(), len(tools) + 1)


def test_a_request_without_any_word_still_ranks(tools: tuple[Tool, ...], embedder: WordEmbedder):
    """Punctuation, emoji and control characters are no error."""
    evidence = Retriever.build(tools, embedder).search("🤷 \u202e ?!", embedder, WEIGHTS)
    assert len(evidence.best(99)) == len(tools)
    assert not evidence.bm25.any()


def test_stems_agree_between_request_and_tool(tools: tuple[Tool, ...], index_of: dict[str, int]):
    """A request in another inflection finds the tool."""
    assert stem("boils") == stem("boiling")
    scores = build_lexical_index(tools).score("boiling")
    assert scores.argmax() == index_of["kettle_boil"]
