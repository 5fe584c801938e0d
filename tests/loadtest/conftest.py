"""A server of the load test's own over an engine without a model, and its requests."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.corpus import Corpus
from loadtest.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
TOOLS = "ring_bell fly_kite boil_tea"
OTHER_TOOLS = "dig_hole fly_kite"
TEXTS = ("please fly_kite", "ring_bell twice", "boil_tea and ring_bell", "write a poem", "fly_kite")


@dataclass(frozen=True)
class Fake:
    """How the fake server is started, in a folder whose files steer it."""

    folder: Path
    launch: Launch
    corpus: Corpus

    def set(self, name: str, content: str = "") -> None:
        """Write a file of the control folder."""
        (self.folder / "control" / name).write_text(content, encoding="ascii")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Fake]:
    """Return how to prepare a server with so many slots and places in the queue."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    folder = tmp_path / "server"
    (folder / "control").mkdir(parents=True)
    (folder / "store").mkdir()
    catalog, other = tmp_path / "tools.catalog", tmp_path / "other.txt"
    catalog.write_text(TOOLS, encoding="ascii")
    other.write_text(OTHER_TOOLS, encoding="ascii")

    def prepare(slots: int, queue: int) -> Fake:
        def command(folder: Path) -> tuple[str, ...]:
            script = str(HERE / "serve_slow.py")
            return (sys.executable, script, str(folder), str(catalog), str(slots), str(queue))

        launch = Launch(command, engine_mark=str(HERE / "slow_engine.py"))
        return Fake(folder, launch, Corpus("a test", TEXTS, catalog, other))

    return prepare
