"""Which catalog each name stands for.

Owns the names, the digests that each stood for before, and the files of compiled catalogs. A name
changes from one request to the next, in one assignment, and only after the engine has opened the
new catalog and had it answer. Never compiles.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from router.engine.errors import EngineDownError, EngineJobError
from router.rpc import router_pb2 as pb
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from router.engine.facts import CatalogFacts, EngineFacts
    from router.engine.supervisor import Supervisor

DEFAULT_NAME: Final = "default"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
EARLIER_KEPT: Final = 16
NAMES_MAX: Final = 64
"""Most names; each keeps a catalog in the engine's memory."""
SUFFIX: Final = ".catalog"


@dataclass(slots=True)
class _Entry:
    digest: str
    earlier: list[str]


class CatalogBook:
    """Names, digests and files.

    Args:
        engine: opens catalogs.
        store: folder of compiled catalogs, `<digest>.catalog` each.
        kept: inactive catalogs kept open to go back to.

    """

    def __init__(self, engine: Supervisor, store: Path, kept: int) -> None:
        self.default = ""
        self.on_change: Callable[[], None] = _nobody
        self._engine = engine
        self._store = store
        self._kept = kept
        self._entries: dict[str, _Entry] = {}
        self._opened: dict[str, CatalogFacts] = {}  # in order of last activation
        self._in_use: Counter[str] = Counter()
        self._activating = asyncio.Lock()

    def begin(self, names: tuple[str, ...], facts: EngineFacts) -> None:
        """Enter the catalogs the engine opened at its start, in order; the first is default."""
        for name, catalog in zip(names, facts.catalogs, strict=True):
            self._entries[name] = _Entry(catalog.digest, [])
            self._opened[catalog.digest] = catalog
        self.default = names[0]

    @property
    def names(self) -> list[str]:
        """The active names, sorted."""
        return sorted(self._entries)

    def resolve(self, wanted: str) -> str:
        """Return the digest that a name or digest ("" is the default) stands for now.

        Raises:
            NoAnswerError: UNKNOWN_CATALOG.

        """
        entry = self._entries.get(wanted or self.default)
        if entry is not None:
            return entry.digest
        if wanted in self._opened:
            return wanted
        shown = wanted if len(wanted) <= 80 else wanted[:80] + "..."
        raise NoAnswerError(
            pb.REFUSAL_REASON_UNKNOWN_CATALOG,
            f"no catalog is called {shown!r}; served are: {', '.join(self.names) or 'none yet'}",
        )

    def hold(self, digest: str) -> None:
        """Keep a catalog open while a request is on it."""
        self._in_use[digest] += 1

    def let_go(self, digest: str) -> None:
        """End a `hold`."""
        self._in_use[digest] -= 1
        if not self._in_use[digest]:
            del self._in_use[digest]
            self._close_surplus()

    def describe(self, wanted: str) -> pb.Catalog:
        """Return what is known of a catalog; raises as `resolve`."""
        return self._describe(self.resolve(wanted), wanted or self.default)

    def active(self) -> list[pb.Catalog]:
        """Return the active catalogs by name."""
        return [self.describe(name) for name in self.names]

    async def activate(self, name: str, digest: str) -> tuple[pb.Catalog, str]:
        """Let a name stand for a compiled catalog; return it and the digest before it, or "".

        Raises:
            NoAnswerError: INVALID, UNKNOWN_CATALOG, BAD_CATALOG or ENGINE_DOWN; the name then
                stands for what it stood for before.

        """
        name = name or self.default
        if not NAME.fullmatch(name) or DIGEST.fullmatch(name):
            raise NoAnswerError(
                pb.REFUSAL_REASON_INVALID,
                "a catalog's name has 1 to 63 of A-Z a-z 0-9 _ . - and begins with a letter or "
                "digit",
            )
        if not DIGEST.fullmatch(digest):
            raise NoAnswerError(
                pb.REFUSAL_REASON_INVALID, "a digest is 64 lower-case hexadecimal digits"
            )
        async with self._activating:
            if name not in self._entries and len(self._entries) >= NAMES_MAX:
                raise NoAnswerError(
                    pb.REFUSAL_REASON_INVALID,
                    f"{NAMES_MAX} names are in use; activate the catalog under one of them",
                )
            facts = await self._open(digest)
            entry = self._entries.get(name)
            before = entry.digest if entry is not None else ""
            if entry is None:
                self._entries[name] = _Entry(digest, [])
            elif before != digest:
                earlier = [before, *(d for d in entry.earlier if d not in (before, digest))]
                entry.digest, entry.earlier = digest, earlier[:EARLIER_KEPT]
            self._opened[digest] = self._opened.pop(digest, facts)
            self._close_surplus()
            self._engine.serve_catalogs(self._paths())
        self.on_change()
        return self._describe(digest, name), before

    async def _open(self, digest: str) -> CatalogFacts:
        opened = self._opened.get(digest)
        path = opened.path if opened is not None else str(self._store / f"{digest}{SUFFIX}")
        if opened is None and not await asyncio.to_thread(Path(path).is_file):
            raise NoAnswerError(
                pb.REFUSAL_REASON_UNKNOWN_CATALOG,
                f"no compiled catalog has the digest {digest}; compile it first",
            )
        try:
            facts = await self._engine.open_catalog(path)
        except EngineDownError as error:
            raise NoAnswerError(
                pb.REFUSAL_REASON_ENGINE_DOWN, str(error), retry_after_s=error.retry_after_s
            ) from error
        except EngineJobError as error:
            raise NoAnswerError(pb.REFUSAL_REASON_BAD_CATALOG, str(error)) from error
        if facts.digest != digest:
            self._engine.close_catalog(facts.digest)
            raise NoAnswerError(
                pb.REFUSAL_REASON_BAD_CATALOG,
                f"the file of catalog {digest} holds {facts.digest}; compile it again",
            )
        return facts

    def _close_surplus(self) -> None:
        """Close the catalogs longest inactive, over those kept, that no request is on."""
        active = {entry.digest for entry in self._entries.values()}
        idle = [d for d in self._opened if d not in active and d not in self._in_use]
        for digest in idle[: max(len(self._opened) - len(active) - self._kept, 0)]:
            del self._opened[digest]
            self._engine.close_catalog(digest)

    def _paths(self) -> list[str]:
        """Return what the next engine must open: the active ones, so that no other can stop it."""
        return [self._opened[entry.digest].path for entry in self._entries.values()]

    def _describe(self, digest: str, name: str) -> pb.Catalog:
        facts = self._opened[digest]
        entry = self._entries.get(name)
        named = entry is not None and entry.digest == digest
        return pb.Catalog(
            name=name if named else "",
            digest=digest,
            tool_count=facts.tool_count,
            definition_tokens=facts.definition_tokens,
            is_default=named and name == self.default,
            earlier_digests=entry.earlier if entry is not None and named else (),
        )


def _nobody() -> None:
    """Tell nobody of a change."""
