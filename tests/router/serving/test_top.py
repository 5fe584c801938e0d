"""`pointsman stats` and `top`: what they show is what the server counts."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from router.cli.rates import rates
from router.cli.stats import stats as stats_command
from router.cli.tool_use import use_of_catalogs
from router.cli.top import top as top_command
from router.cli.top import views
from router.cli.top_view import View, lines
from router.client import Client, ClientConfig, PointsmanError, RouteQuery

if TYPE_CHECKING:
    from router.client import ServerStats
    from tests.router.serving.conftest import Service


async def used(service: Service) -> ServerStats:
    """Ask a few things; return the counters."""
    for number, text in enumerate(["fly_kite", "fly_kite", "nothing", "fault", " "]):
        with contextlib.suppress(PointsmanError):
            await service.client.route(RouteQuery(text, request_id=f"r{number}"))
    return await service.client.stats()


async def test_a_tool_that_was_never_an_answer_is_named(service: Service) -> None:
    """Two of the three, by name; after a call of one, the other alone."""
    found = await used(service)

    def use() -> tuple[int | None, tuple[str, ...]]:
        with Client(service.address) as client:
            (one,) = use_of_catalogs(client, found, 10.0)
        return one.never_called, one.names

    assert await asyncio.to_thread(use) == (2, ("ring_bell", "boil_tea"))
    await service.client.route("boil_tea")
    found = await service.client.stats()
    assert await asyncio.to_thread(use) == (1, ("ring_bell",))
    # Where the server told only some of its counts, nothing is said of the rest.
    found = dataclasses.replace(found, tools_counted=10_000)
    assert await asyncio.to_thread(use) == (None, ())


async def test_rates_are_the_growth_by_the_servers_clock(service: Service) -> None:
    """Between two looks; none where the second is of another server's life."""
    before = await service.client.stats()
    after = dataclasses.replace(
        before, uptime_s=before.uptime_s + 2.0, answered=before.answered + 5,
        reasons={"QUEUE_FULL": 3}, tools={"fly_kite": 4},
    )  # fmt: skip
    grown = rates(before, after)
    assert grown is not None
    assert grown.counters["answered"] == 2.5
    assert grown.reasons == {"QUEUE_FULL": 1.5}
    assert grown.tools == {"fly_kite": 2.0}
    assert rates(after, before) is None
    assert rates(after, dataclasses.replace(after, uptime_s=0.5)) is None


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (10, 1)])
async def test_a_screen_of_any_size_is_kept(service: Service, width: int, height: int) -> None:
    """Never more lines or cells than there are; 80 by 24 hold everything."""
    found = await used(service)
    view = View(service.address, 1.0, found, rates(found, found))
    rows = lines(view, width, height)
    assert len(rows) <= height
    assert all(row.cell_len <= width for row in rows)
    text = "\n".join(row.plain for row in rows)
    if height >= 24:
        for word in ("slots", "queue", "latency", "answered", "INVALID", "ENGINE_FAULT", "fly_kite",
                     "2 of 2" if found.alive else "0 of 2", "serving"):  # fmt: skip
            assert word in text
    assert all(ord(c) < 128 for row in lines(view, width, height, plain=True) for c in row.plain)


async def test_a_server_that_goes_away_is_waited_for(service: Service) -> None:
    """What it said last stays, with the problem; nothing is raised."""
    config = ClientConfig(attempts=1, timeout_s=2.0)
    looks = views(View(service.address, 0.01), config)
    first = await anext(looks)
    assert first.found is not None
    assert not first.problem
    await service.server.abandon()
    async with asyncio.timeout(20):
        async for look in looks:
            if look.problem:
                break
    assert "no server at" in look.problem
    assert look.found == first.found or look.found is not None
    shown = "\n".join(row.plain for row in lines(look, 80, 24))
    assert "no server at" in shown
    await looks.aclose()


async def test_without_a_terminal_one_look_is_printed(service: Service) -> None:
    """`top` and `stats` alike, and the JSON of `stats` has the tools' use."""
    await used(service)
    for command in (top_command, stats_command):
        done = await asyncio.to_thread(CliRunner().invoke, command, ["--address", service.address])
        assert done.exit_code == 0, done.output
        assert "5 offered" in done.output
    missing = await asyncio.to_thread(
        CliRunner().invoke, top_command, ["--address", "127.0.0.1:1", "--timeout", "1"]
    )
    assert missing.exit_code == 4
