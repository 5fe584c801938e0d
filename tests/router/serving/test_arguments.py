"""Requests that want arguments, over a real socket and a fake engine: one request, one end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from router.arguments.values import DEFAULT_ARGUMENT_TOKENS
from router.cli.main import pointsman
from router.client import RefusedError, RouteAnswer, RouteQuery
from router.rpc import router_pb2 as pb
from router.service.config import ServiceConfig
from tests.router.serving.conftest import serving
from tests.router.serving.fake_engine import (
    ARGUMENT_PROMPT_TOKENS,
    ARGUMENT_TOKENS,
    SLOT_TOKENS,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.serving.conftest import Service


async def test_arguments_come_with_their_tool(service: Service) -> None:
    """Text and value, what they cost, and what time they took."""
    answer = await service.client.route("fly_kite", want_arguments=True)
    assert answer.arguments is not None
    assert answer.arguments.complete
    assert answer.arguments.value == {"limit": DEFAULT_ARGUMENT_TOKENS, "colour": "übel"}
    assert (answer.arguments.tokens, answer.arguments.logprob) == (ARGUMENT_TOKENS, -0.1)
    usage = answer.usage
    assert usage.argument_prompt_tokens == ARGUMENT_PROMPT_TOKENS
    assert usage.argument_tokens == ARGUMENT_TOKENS
    assert usage.tokens_saved == 300 - 7 - ARGUMENT_PROMPT_TOKENS
    assert answer.timings.argument_micros == 5000


async def test_nobody_gets_arguments_who_wants_none_or_has_no_tool(service: Service) -> None:
    """The field is absent, not empty."""
    assert (await service.client.route("fly_kite")).arguments is None
    response = await service.stub.Route(pb.RouteRequest(text="sing", want_arguments=True))
    assert response.HasField("none")
    assert not response.HasField("arguments")


async def test_the_clients_budget_and_policy_reach_the_engine(service: Service) -> None:
    """REPORT names what is missing, FILL never does."""
    query = RouteQuery("fly_kite missing", want_arguments=True, max_argument_tokens=9)
    filled = (await service.client.route(query)).arguments
    assert filled is not None
    assert (filled.outcome, filled.missing) == ("decoded", ())
    assert filled.value == {"limit": 9, "colour": "übel"}
    reported = (
        await service.client.route("fly_kite missing", want_arguments=True, missing="report")
    ).arguments
    assert reported is not None
    assert (reported.outcome, reported.missing) == ("missing", ("/height",))
    assert not reported.complete


@pytest.mark.parametrize("outcome", ["unavailable", "invalid", "over_budget"])
async def test_a_tool_without_arguments_is_still_an_answer(service: Service, outcome: str) -> None:
    """The tool and its probability stand; why there are no arguments is typed."""
    answer = await service.client.route(f"fly_kite {outcome}", want_arguments=True)
    assert answer.tool == "fly_kite"
    arguments = answer.arguments
    assert arguments is not None
    assert (arguments.outcome, arguments.json, arguments.value) == (outcome, "", None)
    assert arguments.code
    assert arguments.reason
    assert service.server.ledger.counts.answered == 1


async def test_arguments_are_recorded_with_their_answer(service: Service) -> None:
    """The same id gets the same bits; the same id without the wish is another content."""
    query = RouteQuery("fly_kite", want_arguments=True, request_id="again")
    first = await service.client.route(query)
    assert await service.client.route(query) == first
    assert service.noted("started") == ["again"]
    with pytest.raises(RefusedError) as caught:
        await service.client.route(RouteQuery("fly_kite", request_id="again"))
    assert caught.value.reason == "INVALID"


async def test_the_ledger_counts_the_most_that_was_held(service: Service) -> None:
    """The choice's memory is given back before the arguments take theirs."""
    await service.client.route("fly_kite", want_arguments=True)
    await asyncio.wait_for(service.server.desk.at_rest(), 20)
    accounts = (await service.client.stats()).accounts
    assert accounts.closed
    assert accounts.tokens_reserved == SLOT_TOKENS
    assert accounts.tokens_used == ARGUMENT_PROMPT_TOKENS + ARGUMENT_TOKENS


async def test_a_cancelled_request_gives_its_slot_back_with_its_arguments(service: Service) -> None:
    """Choosing and writing are one request under one handle."""
    call = asyncio.create_task(service.client.route("hold never fly_kite", want_arguments=True))
    await service.running(1)
    call.cancel()
    await asyncio.wait_for(service.server.desk.at_rest(), 20)
    assert len(service.noted("cancelled")) == 1
    assert service.server.ledger.counts.cancelled == 1


async def test_a_stream_carries_arguments(service: Service) -> None:
    """Each request has its own wish."""
    queries = [
        RouteQuery("fly_kite", want_arguments=bool(i % 2), request_id=str(i)) for i in range(4)
    ]
    seen = {}
    async for query, result in service.client.route_many(queries):
        assert isinstance(result, RouteAnswer)
        seen[query.request_id] = result.arguments is not None
    assert seen == {str(i): bool(i % 2) for i in range(4)}


async def test_a_server_without_arguments_says_so(tmp_path: Path) -> None:
    """Refused before anything is done; without the wish the same request is answered."""
    config = ServiceConfig(slots=2, queue=3, arguments=False)
    async with serving(tmp_path, config) as service:
        with pytest.raises(RefusedError) as caught:
            await service.client.route("fly_kite", want_arguments=True)
        assert caught.value.reason == "ARGUMENTS_UNAVAILABLE"
        assert service.noted("started") == []
        assert (await service.client.route("fly_kite")).tool == "fly_kite"


@pytest.mark.parametrize(
    "options",
    [
        {"missing": "report"},
        {"max_argument_tokens": 5},
        {"want_arguments": True, "missing": "guess"},
        {"want_arguments": True, "max_argument_tokens": -1},
    ],
)
def test_a_query_that_makes_no_sense_is_refused_at_home(options: dict[str, object]) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match="RouteQuery"):
        RouteQuery("x", **options)  # type: ignore[arg-type]


async def ask(service: Service, *arguments: str) -> Result:
    """Run the command against a service."""
    command = [*arguments, "--address", service.address]
    return await asyncio.to_thread(CliRunner().invoke, pointsman, command)


async def test_route_prints_arguments(service: Service) -> None:
    """The text as it may be sent on; what is missing; why there are none."""
    done = await ask(service, "route", "fly_kite", "--arguments", "--max-argument-tokens", "7")
    assert done.exit_code == 0, done.output
    assert '{"limit": 7, "colour": "übel"}' in done.output.splitlines()
    assert ", arguments 5.0)" in done.output
    done = await ask(service, "route", "fly_kite missing", "--arguments", "--missing", "report")
    assert "not in the request: /height" in done.output
    done = await ask(service, "route", "fly_kite unavailable", "--arguments")
    assert done.exit_code == 0
    assert "no arguments (unavailable): [grammar-too-large] its schema" in done.output


async def test_route_prints_arguments_as_json(service: Service) -> None:
    """Under the names of the client's values."""
    done = await ask(service, "route", "fly_kite", "--arguments", "--json")
    arguments = json.loads(done.output)["arguments"]
    assert arguments["outcome"] == "decoded"
    assert json.loads(arguments["json"])["colour"] == "übel"


async def test_stats_count_outcomes(service: Service) -> None:
    """By their names."""
    await ask(service, "route", "fly_kite invalid", "--arguments")
    await ask(service, "route", "fly_kite", "--arguments")
    done = await ask(service, "stats")
    assert "decoded 1, invalid 1" in " ".join(done.output.split())


async def test_options_of_arguments_need_arguments(service: Service) -> None:
    """A usage error, before anything is sent."""
    done = await ask(service, "route", "fly_kite", "--missing", "report")
    assert (done.exit_code, "--arguments" in done.output) == (2, True)
    assert service.server.ledger.counts.offered == 0
