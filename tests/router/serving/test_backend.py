"""The served backend with the real model: limits in tokens, visibility, memory that returns."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_compiler.artifact import CompiledCatalog, write_artifact
from catalog_compiler.compile import compile_catalog
from catalog_compiler.grammar import chat_placement
from catalog_compiler.model import Tool, ToolSet
from decoder.encoder import load_encoder
from decoder.model import load_model
from router.engine.pipeline_backend import PipelineBackend
from router.jobs import AllowRule, NothingVisibleError, RouteJob, TooLongError
from router.retrieval.extras import extras_builder, extras_key

if TYPE_CHECKING:
    from decoder.encoder import Encoder
    from decoder.model import LoadedModel
    from router.engine.facts import Answer

pytestmark = [pytest.mark.model, pytest.mark.slow]

LIMIT = 64
TOOLS = 300
CYCLES = 12
GROWTH_BYTES = 12 << 20
"""What the second half of the swaps may add; one catalog that stayed each time would add more."""

Parts = tuple["LoadedModel", "Encoder"]


@pytest.fixture(scope="module")
def parts(smollm2_gguf: Path, minilm_dir: Path) -> Parts:
    """The embedded model and encoder."""
    return load_model(smollm2_gguf, threads=2), load_encoder(minilm_dir, threads=2)


def compiled(parts: Parts, version: int, previous: bytes | None = None) -> bytes:
    """Compile tools of which the last differs from version to version."""
    model, encoder = parts
    tools = [
        Tool(
            name=f"tool_{number:03d}",
            source_name=f"tool_{number:03d}",
            description=f"Does task number {number} of the house. " + "It takes its time. " * 20,
            namespace="even" if number % 2 == 0 else "odd",
        )
        for number in range(TOOLS - 1)
    ]
    tools.append(Tool(name="zz_last", source_name="zz_last", description=f"Version {version}."))
    return compile_catalog(
        ToolSet(tuple(tools), ()),
        model.tokenizer.tokenizer,
        chat_placement(model.tokenizer.tokenizer, model.tokenizer.end_of_turn),
        tokenizer_digest=model.tokenizer.digest,
        extras=extras_builder(encoder),
        extras_key=extras_key(encoder.digest),
        previous=None if previous is None else CompiledCatalog.from_bytes(previous),
    )


def route(backend: PipelineBackend, job: RouteJob) -> Answer:
    """Run one job to its end."""
    backend.submit(job)
    while not (ended := backend.step()):
        pass
    assert ended[0].answer is not None, ended[0].error
    return ended[0].answer


def test_texts_of_too_many_tokens_are_refused_by_their_count(parts: Parts, tmp_path: Path) -> None:
    """Counted in the model's tokens, text and turn before alike; as many as may be is taken."""
    backend = PipelineBackend(*parts, slots=2, max_request_tokens=LIMIT)
    digest = backend.open_catalog(write_artifact(compiled(parts, 0), tmp_path / "a.catalog")).digest
    words = " word" * LIMIT
    count = len(parts[0].tokenizer.tokenizer.encode(words, add_special_tokens=False).ids)
    assert count == LIMIT
    assert route(backend, RouteJob("r", digest, words)).ranked.candidates
    assert route(backend, RouteJob("r", digest, "tool_007", words)).ranked.candidates
    with pytest.raises(TooLongError, match=f"text has {LIMIT + 1} tokens; at most {LIMIT}"):
        backend.submit(RouteJob("r", digest, words + " word"))
    with pytest.raises(TooLongError, match="previous_turn"):
        backend.submit(RouteJob("r", digest, "tool_007", words + " word"))


def test_what_a_client_may_not_see_is_never_walked(parts: Parts, tmp_path: Path) -> None:
    """Even a tool asked for by name: neither answer, nor runner-up, nor counted among allowed."""
    backend = PipelineBackend(*parts, slots=2)
    digest = backend.open_catalog(write_artifact(compiled(parts, 0), tmp_path / "a.catalog")).digest
    visible = AllowRule(namespaces=("odd",))
    answer = route(backend, RouteJob("r", digest, "Run tool_008 now", k=50, visible=visible))
    names = [c.name for c in answer.ranked.candidates if c.name is not None]
    assert names
    assert all(int(name[-3:]) % 2 for name in names)
    assert answer.ranked.usage.allowed_size == TOOLS // 2 - 1
    both = AllowRule(names=("tool_008", "tool_009"))
    answer = route(backend, RouteJob("r", digest, "tool_008", "", both, 9, visible))
    assert {c.name for c in answer.ranked.candidates} <= {"tool_009", None}
    with pytest.raises(NothingVisibleError, match="owner"):
        backend.submit(RouteJob("r", digest, "x", "", AllowRule(names=("tool_008",)), 1, visible))
    page = backend.tools(digest, 0, 3, visible)
    assert [tool.name for tool in page] == ["tool_001", "tool_003", "tool_005"]
    assert backend.tools(digest, TOOLS // 2 - 1, 3, visible) == []
    whole = backend.tools(digest, 0, 3, None)
    assert [tool.name for tool in whole] == ["tool_000", "tool_001", "tool_002"]


def test_memory_returns_after_swaps(parts: Parts, tmp_path: Path) -> None:
    """Catalog after catalog is opened, routed over and closed: resident memory stays flat."""
    backend = PipelineBackend(*parts, slots=2)
    data, half, before = compiled(parts, 0), 0, ""
    for version in range(CYCLES):
        data = compiled(parts, version, data)
        path = write_artifact(data, tmp_path / f"{version}.catalog")
        digest = backend.open_catalog(path).digest
        assert digest != before
        assert route(backend, RouteJob("r", digest, "Do task 7")).ranked.candidates
        if before:
            backend.close_catalog(before)
        before = digest
        gc.collect()
        if version == CYCLES // 2:
            half = _resident()
    assert _resident() - half < GROWTH_BYTES


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
