"""`pointsman route`, `stats` and `serve` as their users meet them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from router.cli.main import pointsman
from router.cli.route import ranked
from router.client import Candidate, RouteAnswer, Timings, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.serving.conftest import Service


def run(*arguments: str) -> Result:
    return CliRunner().invoke(pointsman, list(arguments))


async def ask(service: Service, *arguments: str) -> Result:
    return await asyncio.to_thread(run, *arguments, "--address", service.address)


async def test_route_prints_candidates_time_and_tokens(service: Service) -> None:
    """The tool first, with its probability, and what was saved."""
    done = await ask(service, "route", "please fly_kite or boil_tea")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[1].split() == ["1", "fly_kite", "50.0%"]
    assert lines[2].split() == ["2", "boil_tea", "50.0%"]
    assert "no tool fits" in lines[3]
    assert "sending them all takes 300: 293 saved" in done.output
    assert service.digest[:12] in done.output


async def test_route_prints_the_whole_answer_as_json(service: Service) -> None:
    """Machines get every field, under the names of the client's values."""
    done = await ask(service, "route", "fly_kite", "--json", "--allow", "fly_kite", "-k", "2")
    document = json.loads(done.output)
    assert (document["tool"], document["usage"]["allowed_size"]) == ("fly_kite", 1)
    assert document["round_trip_micros"] >= document["timings"]["total_micros"] >= 0


async def test_a_refusal_is_told_with_its_reason(service: Service) -> None:
    """Exit code 5, and the names there are."""
    done = await ask(service, "route", "x", "--catalog", "none")
    assert done.exit_code == 5
    assert "UNKNOWN_CATALOG" in done.output
    assert "default" in done.output


async def test_a_failure_is_no_refusal(service: Service) -> None:
    """Exit code 6."""
    done = await ask(service, "route", "fault")
    assert (done.exit_code, "ENGINE_FAULT" in done.output) == (6, True)


async def test_stats_print_the_ledger(service: Service) -> None:
    """As a table and as JSON."""
    await ask(service, "route", "fly_kite")
    await ask(service, "route", "x", "--catalog", "none")
    done = await ask(service, "stats")
    assert done.exit_code == 0, done.output
    for part in ("2 offered", "1 answered", "1 refused", "UNKNOWN_CATALOG 1", "1x fly_kite"):
        assert part in " ".join(done.output.split())
    document = json.loads((await ask(service, "stats", "--json")).output)
    assert document["reasons"] == {"UNKNOWN_CATALOG": 1}


@pytest.mark.parametrize("command", [("route", "x"), ("stats",)])
def test_no_server_is_told_with_what_to_do(command: tuple[str, ...]) -> None:
    """Exit code 4; port 9 is nobody's."""
    done = run(*command, "--address", "127.0.0.1:9", "--timeout", "2")
    assert done.exit_code == 4
    assert "pointsman serve" in done.output


def test_serve_checks_what_it_is_given(tmp_path: Path) -> None:
    """Usage errors are told before anything starts, with exit code 2."""
    tools = tmp_path / "my tools.json"
    tools.write_text("{}", encoding="utf-8")
    wrong = {
        ("--catalog", "nowhere.json"): "is no file",
        ("--catalog", f"a={tools}", "--catalog", f"a={tools}"): "two catalogs are called a",
        ("--catalog", str(tools), "--catalog", str(tools)): "give it a name",
        ("--catalog", str(tools), "--model", "nowhere"): "no such file",
        ("--catalog", str(tools), "--slots", "0"): "slots",
        (): "--catalog",
    }
    for arguments, message in wrong.items():
        done = run("serve", *arguments)
        assert (done.exit_code, message in done.output) == (2, True), done.output


def _answer(tool: str | None, none: float, *probabilities: float) -> RouteAnswer:
    candidates = tuple(Candidate(f"t{i}", p, 0.0) for i, p in enumerate(probabilities))
    return RouteAnswer(
        "i", tool, none, candidates, none, "c", "m", Usage(*[0] * 8), Timings(*[0] * 6)
    )


def test_no_tool_fits_stands_where_it_ranks() -> None:
    """First, between, or below without a rank: unlisted tools may lie between."""
    assert [row[0:2] for row in ranked(_answer(None, 0.9, 0.1))] == [("1", None), ("2", "t0")]
    assert [row[0:2] for row in ranked(_answer("t0", 0.2, 0.5, 0.1))] == [
        ("1", "t0"),
        ("2", None),
        ("3", "t1"),
    ]
    assert [row[0:2] for row in ranked(_answer("t0", 0.1, 0.5))] == [("1", "t0"), ("", None)]
    assert [row[0:2] for row in ranked(_answer(None, 1.0))] == [("1", None)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("set alarm \udcff\udcfe",), "text has"),
        (("x", "--allow", "\ud800"), "names has"),
        (("x", "--arguments", "--max-argument-tokens", "99999999999999"), "max_argument_tokens is"),
    ],
)
def test_what_can_not_be_sent_is_wrong_usage(options: tuple[str, ...], named: str) -> None:
    """Exit code 2, with the option that is meant; no server is asked."""
    done = run("route", *options)
    assert (done.exit_code, named in done.output) == (2, True), done.output


def test_a_token_is_printed_as_the_clients_file_takes_it() -> None:
    """A name that TOML has in quotes comes so; one that no file may have does not."""
    assert '\n[clients."the planner"]\n' in run("token", "the planner").output
    assert "\n[clients.planner]\n" in run("token", "planner").output
    for name in ("\udcff", "", "x" * 1_000):
        assert run("token", name).exit_code == 2


async def test_stats_tell_the_use_of_the_last_answers(service: Service) -> None:
    """What was called before them counts no more, nor do refusals or repeats."""
    for text in ("fly_kite", "boil_tea", "boil_tea"):
        await ask(service, "route", text)
    await ask(service, "route", "x", "--catalog", "none")
    done = await ask(service, "stats", "--last", "2")
    shown = " ".join(done.output.split())
    assert "latest answers the last 2" in shown
    assert "of 2 answers on it: ring_bell, fly_kite" in shown
    done = await ask(service, "stats", "--last", "50")
    assert "all 3: there are no 50 yet" in " ".join(done.output.split())
    document = json.loads((await ask(service, "stats", "--json", "--last", "2")).output)
    assert document["recent"] == {"answers": 2, "tools": {service.digest: {"boil_tea": 2}}}
    assert (await ask(service, "stats", "--last", "100001")).exit_code == 2


async def test_another_catalogs_answers_are_not_its_own(service: Service) -> None:
    """A new version begins with no use, though its tools have the names of the old one's."""
    await ask(service, "route", "fly_kite")
    compiled = await service.client.compile_catalog(b"fly_kite boil_tea")
    await service.client.activate_catalog(compiled.digest, name="default")
    await ask(service, "route", "boil_tea")
    document = json.loads((await ask(service, "stats", "--json", "--last", "9")).output)
    (use,) = document["catalogs"]
    assert (use["digest"], use["answers"], use["names"]) == (compiled.digest, 1, ["fly_kite"])
