"""A route's two halves around a scripted walk: what the model is asked, and what is answered."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from decoder.trie import Trie
from router.catalogs import VISIBLE_KEPT, CatalogMismatchError, LoadedCatalog
from router.jobs import (
    AllowRule,
    NothingAllowedError,
    NothingVisibleError,
    RouteJob,
    UnknownCatalogError,
)
from router.pipeline import Pipeline, PreparedRoute
from router.prompt import PromptConfig, PromptWriter
from router.retrieval.shortlist import RetrievalWeights, Retriever
from router.scoring import ModelWeights, NoneWeights, ScoringWeights

from .conftest import CATALOG, WordEmbedder, make_byte_tokenizer, make_tool

if TYPE_CHECKING:
    import numpy.typing as npt

    from catalog_compiler.model import Tool

WEIGHTS = ScoringWeights(
    RetrievalWeights(cosine=10.0, bm25=0.3, verbatim=6.0),
    ModelWeights(log_probability=1.0),
    NoneWeights(bias=2.0, best_cosine=-6.0, second_cosine=0.0, confidence=0.0, model_none=0.5),
)
SMALL = PromptConfig(list_tokens=60, line_tokens=60, max_tools=3)
WIDE = PromptConfig(list_tokens=2_000, line_tokens=100)


@dataclasses.dataclass
class ScriptedWalk:
    """What a decoder would hand back."""

    leaves: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float64]
    prompt_tokens: int = 70
    scored_tokens: int = 9
    passes: int = 1


def flat_trie(leaves: int) -> Trie:
    """Make a trie whose root has one edge a leaf."""
    count = np.arange(leaves, dtype=np.int32)
    nodes = leaves + 1
    return Trie(
        root_run=np.zeros(0, dtype=np.int32),
        edge_offsets=np.array([0] + [leaves] * nodes, dtype=np.int32),
        edge_tokens=count,
        edge_nodes=count + 1,
        run_offsets=np.zeros(leaves + 1, dtype=np.int32),
        run_tokens=np.zeros(0, dtype=np.int32),
        leaf_lo=np.concatenate(([0], count)).astype(np.int32),
        leaf_hi=np.concatenate(([leaves], count + 1)).astype(np.int32),
    )


def load(tools: tuple[Tool, ...], config: PromptConfig = WIDE) -> LoadedCatalog:
    """Make a loaded catalog whose leaves stand in reverse order of its tools."""
    leaves = np.array([*range(len(tools) - 1, -1, -1), -1], dtype=np.int32)
    return LoadedCatalog.assemble(
        digest="d1",
        tools=tools,
        retriever=Retriever.build(tools, WordEmbedder()),
        trie=flat_trie(len(leaves)),
        leaf_tool=leaves,
        writer=PromptWriter(
            make_byte_tokenizer(), None, answer_prefix="", none_text="none", config=config
        ),
    )


def pipeline_for(catalog: LoadedCatalog) -> Pipeline:
    """Make a pipeline that has one catalog."""
    pipeline = Pipeline(WordEmbedder(), WEIGHTS)
    pipeline.add_catalog(catalog)
    return pipeline


def walk_of(prepared: PreparedRoute, favourite: str | None) -> ScriptedWalk:
    """Make a walk that gives one name most of the probability and the others the same."""
    leaves = np.flatnonzero(prepared.request.allowed).astype(np.int32)
    tools = prepared.catalog.leaf_tool[leaves]
    wanted = (
        -1
        if favourite is None
        else next(i for i, t in enumerate(prepared.catalog.tools) if t.name == favourite)
    )
    logprobs = np.where(tools == wanted, np.log(0.9), np.log(0.1 / max(1, len(leaves) - 1)))
    order = np.argsort(-logprobs, kind="stable")
    return ScriptedWalk(leaves[order], logprobs[order])


def job(text: str = "boil the water", **fields: object) -> RouteJob:
    """Make a job on the catalog."""
    return RouteJob("r1", "d1", text, **fields)  # type: ignore[arg-type]


def test_a_small_catalog_is_read_whole():
    """Every tool is listed, best first, and every leaf may be reached."""
    prepared = pipeline_for(load(CATALOG)).prepare(job())
    assert len(prepared.listed) == len(CATALOG)
    assert prepared.request.allowed is not None
    assert prepared.request.allowed.all()
    assert prepared.request.top_k == len(CATALOG) + 1
    assert (prepared.listed == prepared.evidence.best(len(CATALOG))).all()


def test_a_large_catalog_is_shortlisted_and_only_that_may_be_walked():
    """The mask is the shortlist and "no tool fits", nothing else."""
    catalog = load(CATALOG, SMALL)
    prepared = pipeline_for(catalog).prepare(job())
    assert len(prepared.listed) == 3
    assert prepared.request.allowed is not None
    reached = catalog.leaf_tool[prepared.request.allowed].tolist()
    assert sorted(reached) == sorted([-1, *prepared.evidence.tools[prepared.listed].tolist()])
    text = make_byte_tokenizer().decode(prepared.request.prompt.tolist())
    for index in prepared.evidence.tools[prepared.listed].tolist():
        assert f"- {CATALOG[index].name}:" in text


def test_the_answer_joins_prior_and_model():
    """The model's favourite among the listed wins; the rest keep their order and the sum is one."""
    pipeline = pipeline_for(load(CATALOG))
    prepared = pipeline.prepare(job("turn on the lamp in the room", k=100))
    ranked = pipeline.finish(prepared, walk_of(prepared, "lampSwitchOff"))
    assert ranked.candidates[0].name == "lampSwitchOff"
    assert (ranked.request_id, ranked.catalog_digest) == ("r1", "d1")
    assert len(ranked.candidates) == len(CATALOG) + 1
    assert sum(c.probability for c in ranked.candidates) == pytest.approx(1.0, abs=1e-9)
    listed = [c.probability for c in ranked.candidates]
    assert listed == sorted(listed, reverse=True)
    assert ranked.usage.shortlist_size == ranked.usage.catalog_size == len(CATALOG)
    assert ranked.usage.prompt_tokens == 70


def test_no_tool_fits_can_be_the_answer():
    """A request unlike any tool, with a model that says none, is answered so."""
    pipeline = pipeline_for(load(CATALOG))
    prepared = pipeline.prepare(job("quarterly bond yields", k=1))
    ranked = pipeline.finish(prepared, walk_of(prepared, None))
    assert [(c.name, c.tool_index) for c in ranked.candidates] == [(None, None)]
    assert ranked.candidates[0].probability == ranked.none_probability > 0.5


def test_the_best_tool_is_answered_while_some_tool_more_likely_fits():
    """Below one half "no tool fits" never stands first, however thinly the tools share the rest."""
    twins = tuple(make_tool(f"twin_{i}", "Counts plums in a bowl.") for i in range(6))
    shy = dataclasses.replace(WEIGHTS, none=dataclasses.replace(WEIGHTS.none, bias=3.8))
    pipeline = Pipeline(WordEmbedder(), shy)
    pipeline.add_catalog(load(twins))
    prepared = pipeline.prepare(job("count plums", k=7))
    leaves = np.flatnonzero(prepared.request.allowed).astype(np.int32)  # type: ignore[arg-type]
    even = ScriptedWalk(leaves, np.full(len(leaves), -np.log(len(leaves))))
    ranked = pipeline.finish(prepared, even)
    best = ranked.candidates[0]
    assert best.name is not None
    assert best.probability < ranked.none_probability < 0.5
    assert ranked.candidates[1].name is None


def test_k_bounds_the_list_and_none_takes_a_place_only_where_it_ranks():
    """A likely tool is answered alone when one is asked for."""
    pipeline = pipeline_for(load(CATALOG))
    prepared = pipeline.prepare(job("kettle_boil the water in the kitchen kettle", k=2))
    ranked = pipeline.finish(prepared, walk_of(prepared, "kettle_boil"))
    assert len(ranked.candidates) == 2
    assert ranked.candidates[0].name == "kettle_boil"


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        (AllowRule(names=("search", "irrigate_beds", "gone")), {"search", "garden.water-beds"}),
        (AllowRule(namespaces=("kitchen",)), {"kettle_boil", "kettle_stop"}),
        (AllowRule(tags=("cold", "outdoor")), {"kettle_stop", "garden.water-beds"}),
        (AllowRule(namespaces=("kitchen",), tags=("cold",)), {"kettle_stop"}),
    ],
)
def test_only_allowed_tools_are_ever_answered(rule: AllowRule, left: set[str]):
    """The subset is applied before ranking, by name, alias, namespace and tag."""
    catalog = load(CATALOG)
    pipeline = pipeline_for(catalog)
    prepared = pipeline.prepare(job("turn on the lamp", allowed=rule, k=50))
    ranked = pipeline.finish(prepared, walk_of(prepared, None))
    assert {c.name for c in ranked.candidates} == left | {None}
    assert prepared.request.allowed is not None
    assert prepared.request.allowed.sum() == len(left) + 1
    assert ranked.usage.allowed_size == len(left)


def test_a_rule_that_leaves_nothing_and_a_foreign_catalog_are_refused():
    """Both say what to do."""
    pipeline = pipeline_for(load(CATALOG))
    with pytest.raises(NothingAllowedError, match="knows no 'gone'; name at least one"):
        pipeline.prepare(job(allowed=AllowRule(names=("gone",))))
    many = AllowRule(names=tuple(f"n{number}" for number in range(9)))
    with pytest.raises(NothingAllowedError, match="knows no 'n0', 'n1', 'n2' and 6 more;"):
        pipeline.prepare(job(allowed=many))
    apart = AllowRule(names=("search",), namespaces=("kitchen",))
    with pytest.raises(NothingAllowedError, match="no tool passes all its lists"):
        pipeline.prepare(job(allowed=apart))
    with pytest.raises(UnknownCatalogError, match="d1"):
        pipeline.prepare(RouteJob("r", "other", "x"))


@pytest.mark.parametrize(
    ("asked", "visible", "left"),
    [
        (None, AllowRule(tags=("cold",)), {"kettle_stop", "garden.water-beds"}),
        (AllowRule(namespaces=("kitchen",)), AllowRule(tags=("cold",)), {"kettle_stop"}),
        (AllowRule(names=("search",)), AllowRule(), {"search"}),
    ],
)
def test_what_a_client_may_see_bounds_what_it_asks_for(
    asked: AllowRule | None, visible: AllowRule, left: set[str]
):
    """Both rules hold, the mask of the second is kept, and neither changes the other."""
    catalog = load(CATALOG)
    pipeline = pipeline_for(catalog)
    for _ in range(2):
        prepared = pipeline.prepare(job("stop", allowed=asked, visible=visible, k=50))
        ranked = pipeline.finish(prepared, walk_of(prepared, None))
        assert {c.name for c in ranked.candidates} == left | {None}
    assert len(catalog.visible_masks) == int(visible.restricts)
    hidden = AllowRule(names=("kettle_stop",))
    with pytest.raises(NothingVisibleError):
        pipeline.prepare(job(allowed=AllowRule(names=("lampSwitchOn",)), visible=hidden))
    with pytest.raises(NothingAllowedError):  # not there at all: nothing was hidden
        pipeline.prepare(job(allowed=AllowRule(names=("gone",)), visible=hidden))


def test_masks_of_many_clients_are_bounded():
    """The oldest goes; what comes again is made again, the same."""
    catalog = load(CATALOG)
    for number in range(VISIBLE_KEPT + 9):
        rule = AllowRule(names=("search", f"n{number}"))
        assert catalog.visible_tools(rule).tolist() == [
            index for index, tool in enumerate(CATALOG) if tool.name == "search"
        ]
    assert len(catalog.visible_masks) == VISIBLE_KEPT


def test_an_empty_rule_restricts_nothing():
    """A rule without entries is no rule."""
    prepared = pipeline_for(load(CATALOG)).prepare(job(allowed=AllowRule()))
    assert len(prepared.evidence.tools) == len(CATALOG)


def test_one_tool_is_a_catalog():
    """The smallest catalog routes."""
    pipeline = pipeline_for(load((make_tool("only", "Does the one thing."),)))
    prepared = pipeline.prepare(job(k=5))
    ranked = pipeline.finish(prepared, walk_of(prepared, "only"))
    assert {c.name for c in ranked.candidates} == {"only", None}


def test_a_route_finishes_on_its_catalog_after_it_was_removed():
    """A swap between the halves changes nothing for routes under way."""
    pipeline = pipeline_for(load(CATALOG))
    prepared = pipeline.prepare(job())
    walk = walk_of(prepared, "kettle_boil")
    before = pipeline.finish(prepared, walk)
    pipeline.remove_catalog("d1")
    after = pipeline.finish(prepared, walk)
    assert after.candidates == before.candidates
    with pytest.raises(UnknownCatalogError):
        pipeline.prepare(job())
    with pytest.raises(UnknownCatalogError):
        pipeline.remove_catalog("d1")


def test_a_walk_of_another_route_is_refused():
    """Leaves that were not asked for, or too few, are an error and never an answer."""
    pipeline = pipeline_for(load(CATALOG, SMALL))
    prepared = pipeline.prepare(job())
    walk = walk_of(prepared, "kettle_boil")
    with pytest.raises(ValueError, match="leaves"):
        pipeline.finish(prepared, ScriptedWalk(walk.leaves[:-1], walk.logprobs[:-1]))
    foreign = walk.leaves.copy()
    foreign[0] = next(leaf for leaf in range(9) if leaf not in walk.leaves)
    with pytest.raises(ValueError, match="leaves"):
        pipeline.finish(prepared, ScriptedWalk(foreign, walk.logprobs))


def test_the_previous_turn_counts_less_than_the_request():
    """It breaks a tie, stands in the prompt, and does not overrule."""
    pipeline = pipeline_for(load(CATALOG))
    vague = pipeline.prepare(job("and now stop it", previous="boil the kettle"))
    assert CATALOG[vague.evidence.tools[vague.evidence.best(1)[0]]].name.startswith("kettle")
    clear = pipeline.prepare(job("find a book in the library", previous="boil the kettle"))
    assert CATALOG[clear.evidence.tools[clear.evidence.best(1)[0]]].name == "search"
    assert "Before: boil the kettle" in make_byte_tokenizer().decode(clear.request.prompt.tolist())


def test_the_same_job_gives_the_same_bits_in_any_company():
    """Other jobs before and between leave no trace."""
    pipeline = pipeline_for(load(CATALOG, SMALL))
    alone = pipeline.prepare(job())
    for text in ("lamp", "天气", "x" * 5_000):
        pipeline.prepare(job(text))
    again = pipeline.prepare(job())
    assert (again.request.prompt == alone.request.prompt).all()
    assert (again.evidence.score == alone.evidence.score).all()
    walk = walk_of(alone, "kettle_stop")
    assert pipeline.finish(again, walk).candidates == pipeline.finish(alone, walk).candidates


def test_leaves_that_are_not_the_tools_are_refused():
    """A grammar of another catalog is noticed when it is loaded."""
    good = load(CATALOG)
    with pytest.raises(CatalogMismatchError, match="leaves"):
        LoadedCatalog.assemble(
            digest="d2",
            tools=CATALOG[:-1],
            retriever=good.retriever,
            trie=good.trie,
            leaf_tool=good.leaf_tool,
            writer=good.writer,
        )
