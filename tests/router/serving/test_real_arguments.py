"""Arguments by the served backend and the real model: proved, the same in a crowd, given up."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from catalog_compiler.arguments.schema import validator
from catalog_compiler.artifact import write_artifact
from catalog_compiler.compile import compile_catalog
from catalog_compiler.grammar import chat_placement
from catalog_compiler.model import Tool, ToolSet
from decoder.encoder import load_encoder
from decoder.engine import Engine
from decoder.engine import EngineConfig as DecoderConfig
from decoder.kernels.base import BLOCK_POSITIONS
from decoder.kv import block_bytes, blocks_for
from decoder.model import load_model
from router.arguments.values import ArgumentOutcome, Arguments, ArgumentWish, MissingPolicy
from router.engine.pipeline_backend import PipelineBackend
from router.jobs import InvalidJobError, RouteJob

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from decoder.encoder import Encoder
    from decoder.model import LoadedModel
    from router.engine.backend import Ended

pytestmark = [pytest.mark.model, pytest.mark.slow]

SCHEMAS: dict[str, tuple[str, Any]] = {
    "set_alarm": (
        "Sets an alarm clock to a time of the day.",
        {
            "type": "object",
            "required": ["hour", "minute"],
            "properties": {
                "hour": {"type": "integer", "minimum": 0, "maximum": 23},
                "minute": {"type": "integer", "minimum": 0, "maximum": 59},
                "days": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {"enum": ["monday", "tuesday", "sunday"]},
                },
            },
        },
    ),
    "translate_text": (
        "Translates a text from one language to another.",
        {
            "type": "object",
            "required": ["text", "target"],
            "properties": {
                "text": {"type": "string", "maxLength": 200},
                "target": {"enum": ["french", "german", "portuguese"]},
                "formal": {"type": "boolean"},
            },
        },
    ),
    "book_table": (
        "Books a table at a restaurant for some guests.",
        {
            "type": "object",
            "required": ["restaurant", "guests"],
            "properties": {
                "restaurant": {"type": "string", "maxLength": 60},
                "guests": {"type": "integer", "minimum": 1, "maximum": 20},
                "date": {"type": "string", "format": "date"},
            },
        },
    ),
    "stop_music": ("Stops the music.", {"type": "object", "properties": {}}),
    "open_door": ("Opens a door of the house.", None),
}
REQUESTS = {
    "Set an alarm for 7 30 on sunday": "set_alarm",
    "Translate 'good morning' to french": "translate_text",
    "Book a table for 4 guests at the restaurant Otter": "book_table",
    "Stop the music": "stop_music",
}
WISH = ArgumentWish(max_tokens=96)


@pytest.fixture(scope="module")
def model(smollm2_gguf: Path) -> LoadedModel:
    """The embedded model."""
    return load_model(smollm2_gguf, threads=2)


@pytest.fixture(scope="module")
def encoder(minilm_dir: Path) -> Encoder:
    """The embedded encoder."""
    return load_encoder(minilm_dir, threads=2)


@pytest.fixture(scope="module")
def catalog(model: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tools, compiled; `open_door` has no schema."""
    tools = tuple(
        Tool(name, name, description=description, input_schema={} if schema is None else schema)
        for name, (description, schema) in sorted(SCHEMAS.items())
    )
    data = compile_catalog(
        ToolSet(tools, ()),
        model.tokenizer.tokenizer,
        chat_placement(model.tokenizer.tokenizer, model.tokenizer.end_of_turn),
        tokenizer_digest=model.tokenizer.digest,
    )
    return write_artifact(data, tmp_path_factory.mktemp("arguments") / "a.catalog")


@pytest.fixture
def backend(model: LoadedModel, encoder: Encoder) -> PipelineBackend:
    """An engine of four slots."""
    return PipelineBackend(model, encoder, slots=4)


def run(backend: PipelineBackend, handles: Sequence[int]) -> dict[int, Ended]:
    """Step until all have ended."""
    ended: dict[int, Ended] = {}
    while set(handles) - set(ended):
        ended.update({end.handle: end for end in backend.step()})
    return ended


def ask(backend: PipelineBackend, job: RouteJob) -> tuple[str | None, Arguments | None]:
    """Run one job; return tool and arguments."""
    handle = backend.submit(job)
    end = run(backend, [handle])[handle]
    assert end.answer is not None, end.error
    ranked = end.answer.ranked
    return ranked.candidates[0].name, ranked.arguments


def job(digest: str, text: str, wish: ArgumentWish | None = WISH) -> RouteJob:
    """Ask for a tool and its arguments."""
    return RouteJob("r", digest, text, arguments=wish)


def is_whole(backend: PipelineBackend) -> bool:
    """Tell whether nothing is held any more."""
    return not backend._jobs and not backend._by_running and not backend._waiting


@pytest.mark.parametrize(("text", "tool"), REQUESTS.items())
def test_what_is_given_out_satisfies_its_schema(
    backend: PipelineBackend, catalog: Path, text: str, tool: str
) -> None:
    """By a standard validator, and it costs what it says."""
    digest = backend.open_catalog(catalog).digest
    handle = backend.submit(job(digest, text))
    answer = run(backend, [handle])[handle].answer
    assert answer is not None
    assert answer.ranked.candidates[0].name == tool
    arguments = answer.ranked.arguments
    assert arguments is not None
    assert arguments.outcome is ArgumentOutcome.DECODED, arguments
    value = json.loads(arguments.json, parse_float=Decimal)
    assert validator(SCHEMAS[tool][1])(value) == []
    usage = answer.ranked.usage
    assert (usage.argument_tokens, usage.argument_prompt_tokens > 20) == (arguments.tokens, True)
    assert answer.ranked.timings.arguments_s > 0
    assert is_whole(backend)


def test_optional_members_that_are_not_spoken_of_are_left_out(
    backend: PipelineBackend, catalog: Path
) -> None:
    """Neither days, nor a date, nor the tone."""
    digest = backend.open_catalog(catalog).digest
    for text, keys in (
        ("Set an alarm for 7 30", {"hour", "minute"}),
        ("Book a table for 4 guests at the restaurant Otter", {"restaurant", "guests"}),
    ):
        _, arguments = ask(backend, job(digest, text))
        assert arguments is not None
        assert set(json.loads(arguments.json)) == keys


def test_the_same_bits_alone_and_in_a_crowd(backend: PipelineBackend, catalog: Path) -> None:
    """Arguments, tokens and log-probability, whoever else is being served."""
    digest = backend.open_catalog(catalog).digest
    alone = {text: ask(backend, job(digest, text)) for text in REQUESTS}
    handles = {text: backend.submit(job(digest, text)) for text in REQUESTS}
    ended = run(backend, list(handles.values()))
    for text, handle in handles.items():
        answer = ended[handle].answer
        assert answer is not None
        ranked = answer.ranked
        assert (ranked.candidates[0].name, ranked.arguments) == alone[text]


def until_writing(backend: PipelineBackend, handle: int) -> None:
    """Step until a job has its tool and writes its arguments."""
    while backend._jobs[handle].writing is None:
        assert backend.step() == []


def test_a_job_is_given_up_while_it_writes(backend: PipelineBackend, catalog: Path) -> None:
    """Its slot and its memory come back at once, and the next job is answered as ever."""
    digest = backend.open_catalog(catalog).digest
    text = next(iter(REQUESTS))
    expected = ask(backend, job(digest, text))
    free = backend._engine.free_blocks
    handle = backend.submit(job(digest, text))
    until_writing(backend, handle)
    assert backend._engine.alive == 1
    backend.cancel(handle)
    assert (backend._engine.alive, backend._engine.free_blocks) == (0, free)
    assert is_whole(backend)
    assert ask(backend, job(digest, text)) == expected


def test_a_catalog_closed_meanwhile_is_no_matter(backend: PipelineBackend, catalog: Path) -> None:
    """The job goes on with the one it was admitted on."""
    digest = backend.open_catalog(catalog).digest
    text = next(iter(REQUESTS))
    expected = ask(backend, job(digest, text))
    handle = backend.submit(job(digest, text))
    until_writing(backend, handle)
    backend.close_catalog(digest)
    answer = run(backend, [handle])[handle].answer
    assert answer is not None
    assert (answer.ranked.candidates[0].name, answer.ranked.arguments) == expected


def narrow(backend: PipelineBackend, model: LoadedModel, digest: str) -> list[RouteJob]:
    """Give the engine room for two that choose or one that writes; return three jobs for it."""
    texts = list(REQUESTS)[:3]
    prompts = [backend._pipeline.prepare(job(digest, t)).request.prompt for t in texts]
    config = DecoderConfig(max_slots=4, prefix_bytes=0)
    choosing = blocks_for(max(map(len, prompts)) + config.tree_tokens)
    room = 2 * choosing * block_bytes(model.config)
    backend._engine = Engine(model.transformer, replace(config, kv_bytes=room))
    return [job(digest, t, ArgumentWish(max_tokens=choosing * BLOCK_POSITIONS)) for t in texts]


def until_one_waits_to_write(backend: PipelineBackend) -> tuple[int, dict[int, Ended]]:
    """Step until a job has its tool and no memory; return it, and what has ended before."""
    ended: dict[int, Ended] = {}
    while True:
        for handle in backend._waiting:
            if backend._jobs[handle].writing is not None:
                return handle, ended
        assert backend._jobs, "nobody ever waited"
        ended.update({end.handle: end for end in backend.step()})


def test_who_finds_no_memory_to_write_waits_for_it(
    backend: PipelineBackend, catalog: Path, model: LoadedModel
) -> None:
    """In front of those that have not chosen; all are answered with the bits of one alone."""
    digest = backend.open_catalog(catalog).digest
    jobs = narrow(backend, model, digest)
    expected = [ask(backend, each) for each in jobs]
    handles = [backend.submit(each) for each in jobs]
    waiting, ended = until_one_waits_to_write(backend)
    assert backend._waiting[0] == waiting
    ended |= run(backend, [handle for handle in handles if handle not in ended])
    for handle, (name, arguments) in zip(handles, expected, strict=True):
        answer = ended[handle].answer
        assert answer is not None, ended[handle].error
        assert (answer.ranked.candidates[0].name, answer.ranked.arguments) == (name, arguments)
    assert is_whole(backend)


def test_a_job_is_given_up_while_it_waits_to_write(
    backend: PipelineBackend, catalog: Path, model: LoadedModel
) -> None:
    """It leaves the line; the others are answered."""
    digest = backend.open_catalog(catalog).digest
    handles = [backend.submit(each) for each in narrow(backend, model, digest)]
    waiting, ended = until_one_waits_to_write(backend)
    backend.cancel(waiting)
    ended |= run(backend, [h for h in handles if h != waiting and h not in ended])
    assert len(ended) == 2
    assert all(end.answer is not None for end in ended.values())
    assert is_whole(backend)


def test_a_tool_without_a_schema_says_so(backend: PipelineBackend, catalog: Path) -> None:
    """It is still the answer."""
    digest = backend.open_catalog(catalog).digest
    name, arguments = ask(backend, job(digest, "open_door"))
    assert name == "open_door"
    assert arguments is not None
    assert (arguments.outcome, arguments.code) == (
        ArgumentOutcome.UNAVAILABLE,
        "arguments-unknown",
    )


def test_missing_values_are_reported_or_filled(backend: PipelineBackend, catalog: Path) -> None:
    """As the client wishes; what is reported is not in the text either."""
    digest = backend.open_catalog(catalog).digest
    text = "Book a table at the restaurant Otter"
    _, filled = ask(backend, job(digest, text))
    assert filled is not None
    assert filled.outcome is ArgumentOutcome.DECODED
    assert validator(SCHEMAS["book_table"][1])(json.loads(filled.json)) == []
    _, reported = ask(backend, job(digest, text, ArgumentWish(MissingPolicy.REPORT, 96)))
    assert reported is not None
    assert reported.outcome is ArgumentOutcome.MISSING
    assert "/guests" in reported.missing
    assert "guests" not in json.loads(reported.json)


def test_a_budget_too_small_is_told(backend: PipelineBackend, catalog: Path) -> None:
    """Where not even the shortest arguments fit, and where the text is cut."""
    digest = backend.open_catalog(catalog).digest
    for tokens in (1, 14):
        name, arguments = ask(
            backend, job(digest, next(iter(REQUESTS)), ArgumentWish(max_tokens=tokens))
        )
        assert name == "set_alarm"
        assert arguments is not None
        assert arguments.outcome is ArgumentOutcome.OVER_BUDGET
        assert arguments.tokens <= tokens
    assert is_whole(backend)


def test_nobody_writes_who_was_not_asked(backend: PipelineBackend, catalog: Path) -> None:
    """And an engine without arguments refuses the wish and holds nothing for it."""
    digest = backend.open_catalog(catalog).digest
    assert ask(backend, job(digest, "Stop the music", None)) == ("stop_music", None)


def test_an_engine_without_arguments(model: LoadedModel, encoder: Encoder, catalog: Path) -> None:
    """It chooses as ever."""
    backend = PipelineBackend(model, encoder, slots=1, arguments=False)
    digest = backend.open_catalog(catalog).digest
    with pytest.raises(InvalidJobError, match="without arguments"):
        backend.submit(job(digest, "Stop the music"))
    assert ask(backend, job(digest, "Stop the music", None)) == ("stop_music", None)


def test_where_only_what_was_closed_is_flat_enough(
    backend: PipelineBackend, model: LoadedModel, tmp_path: Path
) -> None:
    """The request speaks of the member that nests beyond the bound: the other one is written."""
    shelves: dict[str, Any] = {"shelf70": {"type": "string"}}
    for number in range(70):
        inner = {"$ref": f"#/$defs/shelf{number + 1}"}
        shelves[f"shelf{number}"] = {
            "type": "object",
            "required": ["in"],
            "properties": {"in": inner},
        }
    schema = {
        "type": "object",
        "minProperties": 1,
        "properties": {
            "drawer": {"$ref": "#/$defs/shelf0"},
            "label": {"enum": ["grey", "blue"]},
        },
        "additionalProperties": False,
        "$defs": shelves,
    }
    tool = Tool("find_box", "find_box", description="Finds a box.", input_schema=schema)
    data = compile_catalog(
        ToolSet((tool,), ()),
        model.tokenizer.tokenizer,
        chat_placement(model.tokenizer.tokenizer, model.tokenizer.end_of_turn),
        tokenizer_digest=model.tokenizer.digest,
    )
    digest = backend.open_catalog(write_artifact(data, tmp_path / "deep.catalog")).digest
    _, arguments = ask(backend, job(digest, "find_box in the drawer"))
    assert arguments is not None
    assert arguments.outcome is ArgumentOutcome.DECODED, arguments
    assert validator(schema)(json.loads(arguments.json)) == []
