"""The demo's requests: read, routed through the client library, and printed as a table.

Owns `requests.json` and how an answer is shown. `expected` was written down by a person beside the
text; it is compared with the answer and never part of it.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from router.client import Client, RouteAnswer

HERE: Final = Path(__file__).resolve().parent
NO_TOOL: Final = "no tool fits"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, and the tools that a person would take; empty where no tool fits.

    More than one is right where a catalog has the same tool under different names.
    """

    text: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, its answer, and the milliseconds until it was here."""

    request: Request
    answer: RouteAnswer
    latency_ms: float

    @property
    def as_expected(self) -> bool:
        """Tell whether what was chosen is among what was expected."""
        if self.answer.tool is None:
            return not self.request.expected
        return self.answer.tool in self.request.expected


def read_requests(path: Path = HERE / "requests.json") -> dict[str, tuple[Request, ...]]:
    """Return the requests by the catalog they are asked of."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        catalog: tuple(Request(each["text"], tuple(each["expected"])) for each in requests)
        for catalog, requests in document.items()
    }


def ask(client: Client, catalog: str, requests: Sequence[Request]) -> list[Asked]:
    """Route each request, one after the other."""
    asked = []
    for request in requests:
        began = time.perf_counter()
        answer = client.route(request.text, catalog=catalog)
        asked.append(Asked(request, answer, (time.perf_counter() - began) * 1000))
    return asked


def as_table(title: str, asked: Sequence[Asked]) -> Table:
    """Show the answers; a tool that was not expected is followed by the one that was."""
    table = Table(title=title, title_justify="left", caption=summary(asked), caption_justify="left")
    table.add_column("request", ratio=5)
    table.add_column("tool", ratio=4, overflow="fold")
    for heading in ("prob.", "ms", "tokens read", "saved"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in asked:
        tool = Text(each.answer.tool or NO_TOOL, style="green" if each.as_expected else "yellow")
        if not each.as_expected:
            tool.append(f"\nexpected: {' or '.join(each.request.expected) or NO_TOOL}", style="dim")
        table.add_row(
            Text(each.request.text),
            tool,
            f"{each.answer.probability:.3f}",
            f"{each.latency_ms:.0f}",
            f"{each.answer.usage.prompt_tokens:,}",
            f"{each.answer.usage.tokens_saved:,}",
        )
    return table


def summary(asked: Sequence[Asked]) -> str:
    """Sum the answers up in a line."""
    if not asked:
        return "nothing was asked"
    right = sum(each.as_expected for each in asked)
    median = statistics.median(each.latency_ms for each in asked)
    read = sum(each.answer.usage.prompt_tokens for each in asked)
    offered = sum(each.answer.usage.offered_tokens for each in asked)
    return (
        f"{right} of {len(asked)} as expected; median {median:.0f} ms; {read:,} tokens read by the "
        f"router's own model in place of {offered:,} for the whole catalog in each prompt"
    )
