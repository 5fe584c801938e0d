"""The demo's requests and their table: what counts as expected, and what is shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo import asking
from demo.asking import Asked, Request
from router.client import RouteAnswer
from router.client.results import Timings, Usage


def answer(tool: str | None, probability: float = 0.75) -> RouteAnswer:
    return RouteAnswer(
        request_id="1",
        tool=tool,
        probability=probability,
        candidates=(),
        none_probability=0.1,
        catalog_digest="c",
        model_digest="m",
        usage=Usage(120, 4, 2, 8, 50, 50, 9_000, 8_880),
        timings=Timings(0, 0, 0, 0, 0, 0),
    )


def shown(*asked: Asked) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(asking.as_table("own", asked))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_ten_requests_for_each_catalog() -> None:
    """Each catalog is asked ten requests, each its own, with one that no tool fits."""
    requests = asking.read_requests()
    assert {catalog: len(each) for catalog, each in requests.items()} == {"mcp": 10, "bfcl": 10}
    for each in requests.values():
        assert len({request.text for request in each}) == 10
        assert any(not request.expected for request in each)


@pytest.mark.parametrize(
    ("tool", "expected", "right"),
    [
        ("a", ("a",), True),
        ("b", ("a", "b"), True),
        ("b", ("a",), False),
        ("a", (), False),
        (None, (), True),
        (None, ("a",), False),
    ],
)
def test_as_expected(tool: str | None, expected: tuple[str, ...], *, right: bool) -> None:
    """No tool is right exactly where none is expected."""
    assert Asked(Request("x", expected), answer(tool), 1.0).as_expected is right


def test_table_shows_what_the_server_said() -> None:
    """Tool, probability, time and tokens are those of the answer, not of the expectation."""
    text = shown(Asked(Request("do it", ("other",)), answer("chosen"), 12.4))
    for part in ("do it", "chosen", "0.750", "12", "120", "8,880", "expected: other", "0 of 1"):
        assert part in text


def test_table_shows_texts_as_they_are() -> None:
    """Square brackets are text and no markup."""
    assert "[bold]x[/bold]" in shown(Asked(Request("[bold]x[/bold]", ()), answer(None), 1.0))


def test_table_of_nothing() -> None:
    """No request, no crash."""
    assert "nothing was asked" in shown()
