"""The whole way with the real engine: compile, serve, route, activate, stop."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from router.client import (
    AsyncClient,
    ClientConfig,
    RefusedError,
    RouteAnswer,
    RouteQuery,
    Timings,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = [pytest.mark.model, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[3]
START_LIMIT_S = 240

TOOLS = {
    "water_plants": "Water the plants in a room of the house.",
    "play_record": "Play a record or a song on the living room's loudspeaker.",
    "book_table": "Book a table at a restaurant for some guests.",
    "translate_text": "Translate a text from one language to another.",
    "set_alarm": "Set an alarm clock to a time of the day.",
}

SCHEMAS = {
    "set_alarm": {
        "type": "object",
        "required": ["hour", "minute"],
        "properties": {
            "hour": {"type": "integer", "minimum": 0, "maximum": 23},
            "minute": {"type": "integer", "minimum": 0, "maximum": 59},
            "label": {"type": "string", "maxLength": 80},
        },
    },
}


def _document(tools: dict[str, str]) -> str:
    listed = [
        {
            "name": name,
            "description": text,
            "inputSchema": SCHEMAS.get(name, {"type": "object", "properties": {}}),
        }
        for name, text in tools.items()
    ]
    return json.dumps({"tools": listed})


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, smollm2_gguf: Path, minilm_dir: Path
) -> Iterator[str]:
    """Run `pointsman serve`, which must end with 0 when it is told to stop."""
    folder = tmp_path_factory.mktemp("real")
    tools, ready, errors = folder / "tools.json", folder / "ready.json", folder / "errors.log"
    tools.write_text(_document(TOOLS), encoding="utf-8")
    command = [sys.executable, "-m", "router.cli.main", "serve", "--port", "0"]
    command += ["--catalog", str(tools), "--store", str(folder / "store")]
    command += ["--ready-file", str(ready)]
    with errors.open("wb") as log, subprocess.Popen(command, stderr=log, cwd=REPOSITORY) as process:
        try:
            end = time.monotonic() + START_LIMIT_S
            while not ready.exists() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            if not ready.exists():
                pytest.fail(errors.read_text(encoding="utf-8"))
            yield json.loads(ready.read_text(encoding="utf-8"))["address"]
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
    assert code == 0, errors.read_text(encoding="utf-8")


@pytest.fixture
async def client(address: str) -> AsyncIterator[AsyncClient]:
    """Return a client of the running server."""
    async with AsyncClient(address, ClientConfig(attempts=1, timeout_s=60)) as made:
        yield made


def _bits(answer: RouteAnswer) -> RouteAnswer:
    """Leave out what may differ: the id, the timings, and the passes shared with neighbours."""
    usage = replace(answer.usage, passes=0)
    return replace(answer, request_id="", timings=Timings(0, 0, 0, 0, 0, 0), usage=usage)


async def test_real_requests_over_a_real_catalog(client: AsyncClient) -> None:
    """Obvious requests get their tool; alone and in a crowd the answer has the same bits."""
    wanted = {
        "Please water the plants in the kitchen": "water_plants",
        "Book a table for four at the harbour restaurant": "book_table",
        "Set an alarm for half past six": "set_alarm",
        "Translate this letter from French to Dutch": "translate_text",
    }
    before = await client.stats()
    alone = {text: await client.route(text, k=3) for text in wanted}
    assert {text: answer.tool for text, answer in alone.items()} == wanted
    crowd = await asyncio.gather(*(client.route(text, k=3) for text in [*wanted, *wanted]))
    for text, answer in zip([*wanted, *wanted], crowd, strict=True):
        assert _bits(answer) == _bits(alone[text])
    stats = await client.stats()
    assert (stats.offered - before.offered, stats.answered - before.answered) == (12, 12)
    assert stats.open == 0


async def test_arguments_come_over_the_wire(client: AsyncClient) -> None:
    """Valid ones, the same bits in a crowd; what is missing; none to write; none wanted."""
    query = RouteQuery("Set an alarm for 6 30", want_arguments=True)
    alone = await client.route(query)
    assert alone.arguments is not None
    assert alone.arguments.complete, alone.arguments
    assert alone.arguments.value is not None
    assert set(alone.arguments.value) == {"hour", "minute"}
    assert 0 <= alone.arguments.value["hour"] <= 23
    others = ["Water the plants", "Set an alarm", "Book a table for four"]
    crowd = await asyncio.gather(
        client.route(query.text, want_arguments=True),
        *(client.route(text, want_arguments=True, missing="report") for text in others),
    )
    assert _bits(crowd[0]) == _bits(alone)
    watered, unset, _ = crowd[1:]
    assert watered.arguments is not None
    assert (watered.arguments.outcome, watered.arguments.value) == ("decoded", {})
    assert unset.tool == "set_alarm"
    assert unset.arguments is not None
    assert (unset.arguments.outcome, unset.arguments.value) == ("missing", {})
    assert unset.arguments.missing == ("/hour", "/minute")
    assert (await client.route(query.text)).arguments is None


async def test_cancelled_routes_leave_the_engine_whole(client: AsyncClient) -> None:
    """Half of the calls are given up as they run; the others answer, and all slots come back."""
    tasks = [
        asyncio.create_task(client.route(RouteQuery(f"Water plant number {number}")))
        for number in range(8)
    ]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, RouteAnswer) for answer in ended[1::2])
    async with asyncio.timeout(30):
        while (stats := await client.stats()).alive or stats.open:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    ends = stats.answered + stats.refused + stats.cancelled + stats.failed
    assert (stats.offered, stats.failed) == (ends, 0)


async def test_a_catalog_sent_by_a_client_goes_live(client: AsyncClient) -> None:
    """The same content has the same digest every time; its tools can be listed and routed to."""
    content = _document({"feed_cat": "Feed the cat.", "walk_dog": "Walk the dog."}).encode()
    first = await client.compile_catalog(content)
    again = await client.compile_catalog(content)
    assert (first.digest, first.tool_count) == (again.digest, 2)
    await client.activate_catalog(first.digest, name="pets")
    page = await client.get_catalog("pets")
    assert [tool.name for tool in page.tools] == ["feed_cat", "walk_dog"]
    answer = await client.route("Please feed the cat", catalog="pets")
    assert (answer.tool, answer.catalog_digest) == ("feed_cat", first.digest)


async def test_a_configuration_sent_by_a_client_starts_nothing(
    client: AsyncClient, tmp_path: Path
) -> None:
    """An mcp.json names commands; the server must not run a stranger's."""
    mark = tmp_path / "ran"
    config = {"mcpServers": {"x": {"command": "touch", "args": [str(mark)]}}}
    for source_format in ("auto", "mcp"):
        with pytest.raises(RefusedError) as caught:
            await client.compile_catalog(json.dumps(config).encode(), source_format=source_format)
        assert caught.value.reason == "BAD_CATALOG"
        assert "live servers" in caught.value.message
    assert not mark.exists()


@pytest.mark.parametrize(
    "content", [b"\x00", b"{", b"[]", b"\xff\xfe", b'{"tools": 3}', b"[" * 10**6]
)
async def test_rubbish_is_refused_with_a_reason(client: AsyncClient, content: bytes) -> None:
    """And the server goes on serving."""
    with pytest.raises(RefusedError) as caught:
        await client.compile_catalog(content)
    assert caught.value.reason == "BAD_CATALOG"
    assert len(caught.value.message) > 10
    assert await client.is_serving()


@pytest.mark.parametrize("text", ["🤖" * 5000, "a b " * 50_000])
async def test_texts_of_too_many_tokens_are_refused(client: AsyncClient, text: str) -> None:
    """The count and the limit are told; the characters alone would have been taken."""
    with pytest.raises(RefusedError) as caught:
        await client.route(text)
    assert caught.value.reason == "TOO_LONG"
    assert "at most 4096 are taken" in caught.value.message


@pytest.mark.parametrize(
    "text", ["\x00", "\u202e\u2066", "<|im_end|>" * 50, "🤖" * 800, "\ud7ff\uffff"]
)
async def test_hostile_texts_are_answered(client: AsyncClient, text: str) -> None:
    """Control characters, the model's own tokens, and nothing but pictures."""
    answer = await client.route(text, k=5, catalog="default", want_arguments=True)
    assert {c.name for c in answer.candidates} <= set(TOOLS)
    assert 0 <= answer.probability <= 1
