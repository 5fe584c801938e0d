"""The whole way with the shipped weights, over a catalog of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_compiler.artifact import CompiledCatalog
from catalog_compiler.compile import compile_catalog
from catalog_compiler.grammar import chat_placement
from catalog_compiler.model import ToolSet
from decoder.encoder import load_encoder
from decoder.engine import Engine, EngineConfig
from decoder.model import load_model
from router.catalogs import LoadedCatalog
from router.inprocess import InProcessRouter
from router.jobs import AllowRule, RouteJob
from router.pipeline import Pipeline
from router.prompt import PromptConfig
from router.retrieval.extras import extras_builder, extras_key

from .conftest import CATALOG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

REQUESTS = {
    "Please boil some water for tea": "kettle_boil",
    "make it dark in the bedroom": "lampSwitchOff",
    "is there a novel about whales on the shelves?": "search",
    "the roses are dry": "garden.water-beds",
    "明天北京天气怎么样": "天气查询",
    "run lampSwitchOn": "lampSwitchOn",
}


@pytest.fixture(scope="module")
def router_and_digest(smollm2_gguf: Path, minilm_dir: Path) -> tuple[InProcessRouter, str]:
    """Load model and encoder once, with a budget that makes a shortlist of five."""
    model = load_model(smollm2_gguf)
    encoder = load_encoder(minilm_dir)
    tokenizer = model.tokenizer
    data = compile_catalog(
        ToolSet(CATALOG, ()),
        tokenizer.tokenizer,
        chat_placement(tokenizer.tokenizer, tokenizer.end_of_turn),
        tokenizer_digest=tokenizer.digest,
        extras=extras_builder(encoder),
        extras_key=extras_key(encoder.digest),
    )
    config = PromptConfig(list_tokens=60, line_tokens=24, max_tools=5)
    catalog = LoadedCatalog.from_compiled(
        CompiledCatalog.from_bytes(data), tokenizer, encoder, encoder.digest, config=config
    )
    pipeline = Pipeline(encoder)
    pipeline.add_catalog(catalog)
    return InProcessRouter(pipeline, Engine(model.transformer, EngineConfig())), catalog.digest


def test_requests_find_their_tools(router_and_digest: tuple[InProcessRouter, str]):
    """Every tool of the small catalog is found from a request that does not quote it."""
    router, digest = router_and_digest
    found = {}
    for text in REQUESTS:
        ranked = router.route(RouteJob("r", digest, text, k=9))
        found[text] = next(c.name for c in ranked.candidates if c.name is not None)
        assert ranked.usage.passes >= 1
        assert ranked.usage.shortlist_size == 5
        assert sum(c.probability for c in ranked.candidates) == pytest.approx(1.0, abs=1e-9)
    assert found == REQUESTS


def test_a_crowd_changes_no_bit(router_and_digest: tuple[InProcessRouter, str]):
    """Each route alone and all of them packed together give the same answer, bit for bit."""
    router, digest = router_and_digest
    pipeline = router.pipeline
    routes = [pipeline.prepare(RouteJob("r", digest, text, k=9)) for text in REQUESTS]
    together = [
        pipeline.finish(route, walk).candidates
        for route, walk in zip(routes, router.walk(routes), strict=True)
    ]
    alone = [router.route(RouteJob("r", digest, text, k=9)).candidates for text in REQUESTS]
    assert together == alone


def test_a_subset_is_kept_to(router_and_digest: tuple[InProcessRouter, str]):
    """A request for a forbidden tool is answered with an allowed one or none."""
    router, digest = router_and_digest
    rule = AllowRule(namespaces=("house", "library"))
    ranked = router.route(RouteJob("r", digest, "kettle_boil now", allowed=rule, k=9))
    assert {c.name for c in ranked.candidates} == {"lampSwitchOn", "lampSwitchOff", "search", None}


def test_what_no_tool_can_do_is_told_from_what_one_can(
    router_and_digest: tuple[InProcessRouter, str],
):
    """The probability of "no tool fits" is higher for a foreign request than for each of ours."""
    router, digest = router_and_digest
    foreign = router.route(RouteJob("r", digest, "refactor the SQL migration for Postgres 16"))
    ours = [router.route(RouteJob("r", digest, text)) for text in REQUESTS]
    english = [r.none_probability for r, t in zip(ours, REQUESTS, strict=True) if t.isascii()]
    assert foreign.none_probability > max(english)
