"""Which tools of a server's catalogs were never an answer.

Owns the reading of catalogs page by page, within a bound, and what is said where it can't be known.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from router.client import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from router.client import CatalogInfo, Client, ServerStats

TOOLS_COUNTED: Final = 10_000
"""Different answers a server counts, and the most it tells."""

PAGE: Final = 1000
READ_AT_MOST: Final = 100_000
"""Tools that are read in all, so that a look at a server stays a small load on it."""

NAMES_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class CatalogUse:
    """The use of one catalog's tools since the server's start, or among the latest answers.

    Attributes:
        name, digest, tool_count: the catalog.
        never_called: how many of its tools were never an answer, or None where that's not known.
        names: the first of them in the catalog's order, at most 1000.
        unknown: why it is not known, or "".
        answers: how many of the latest answers were given on this catalog, or None where it is not
            of those that the use is told.

    """

    name: str
    digest: str
    tool_count: int
    never_called: int | None
    names: tuple[str, ...]
    unknown: str
    answers: int | None = None


def use_of_catalogs(client: Client, found: ServerStats, timeout_s: float) -> tuple[CatalogUse, ...]:
    """Read the active catalogs and tell their tools' use; `found` holds every counted tool.

    Where `found` has the latest answers, it is their use.

    Raises:
        RequestError: the server no longer answers.

    """
    deadline = time.monotonic() + timeout_s
    left = READ_AT_MOST
    uses = []
    for catalog in client.list_catalogs(timeout_s=timeout_s):
        why = ""
        if found.recent is None and found.tools_counted >= TOOLS_COUNTED:
            why = f"a server counts {TOOLS_COUNTED:,} different tools, and no more"
        elif catalog.tool_count > left:
            why = f"more than {READ_AT_MOST:,} tools are served"
        if why:
            uses.append(_unknown(catalog, why))
            continue
        left -= catalog.tool_count
        try:
            if found.recent is None:
                uses.append(_use(client, catalog, found.tools, deadline))
            else:
                called = found.recent.tools.get(catalog.digest, {})
                use = _use(client, catalog, called, deadline)
                uses.append(replace(use, answers=sum(called.values())))
        except RequestError as error:
            uses.append(_unknown(catalog, str(error)))
    return tuple(uses)


def _use(
    client: Client, catalog: CatalogInfo, called: Mapping[str, int], deadline: float
) -> CatalogUse:
    never, token = 0, ""
    names: list[str] = []
    while True:
        page = client.get_catalog(
            catalog.digest,  # By digest: the name may stand for another one by the next page.
            page_size=PAGE,
            page_token=token,
            timeout_s=max(deadline - time.monotonic(), 0.001),
        )
        for tool in page.tools:
            if tool.name not in called:
                never += 1
                if len(names) < NAMES_KEPT:
                    names.append(tool.name)
        token = page.next_page_token
        if not token:
            return CatalogUse(
                catalog.name, catalog.digest, catalog.tool_count, never, tuple(names), ""
            )


def _unknown(catalog: CatalogInfo, why: str) -> CatalogUse:
    return CatalogUse(catalog.name, catalog.digest, catalog.tool_count, None, (), why)
