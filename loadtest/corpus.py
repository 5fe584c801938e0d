"""What is asked, and of which tools.

Owns the reading of the development data's requests, and the small set of requests and tools written
for where that data is absent. Never invents a text.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent / "corpus_files"
OWN_TOOLS: Final = HERE / "household.json"
OTHER_TOOLS: Final = HERE / "office.json"
OWN_REQUESTS: Final = HERE / "requests.json"
DATA_VARIABLE: Final = "POINTSMAN_SHARED_DATA"
DATA_DEFAULT: Final = Path("..") / "shared" / "data"
DATA_SET: Final = Path("eval") / "bfcl_union"


class CorpusError(Exception):
    """The requests can't be read; the message says which file and what to do."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Requests and the files of the tools that they are asked of.

    Attributes:
        origin: where the requests come from, for the report.
        texts: the requests.
        catalog: tools that are served.
        other: tools that `swap` goes to and back from.
        k: candidates wanted of each.

    """

    origin: str
    texts: tuple[str, ...]
    catalog: Path
    other: Path
    k: int = 3

    def __post_init__(self) -> None:
        """Refuse to ask nothing."""
        if not self.texts or not all(text.strip() for text in self.texts):
            raise CorpusError(f"{self.origin} holds no request, or a blank one")


def data_folder(given: Path | None) -> Path:
    """Return the development data's folder: as given, else configured, else beside the checkout."""
    if given is not None:
        return given
    configured = os.environ.get(DATA_VARIABLE, "")
    return Path(configured) if configured else DATA_DEFAULT


def read_corpus(data: Path | None, count: int, seed: int, catalog: Path | None = None) -> Corpus:
    """Return `count` requests, drawn by the seed; fewer where there are fewer.

    Args:
        data: the development data's folder, or None for the one configured.
        count: most requests.
        seed: of the draw.
        catalog: tools to serve in place of those that belong to the requests.

    Raises:
        CorpusError: a folder was given that lacks the requests, or a file is damaged.

    """
    folder = data_folder(data) / DATA_SET
    queries = folder / "queries_dev.jsonl"
    if queries.is_file():
        origin, tools, texts = str(DATA_SET), folder / "catalog.json", _queries(queries)
    elif data is not None:
        raise CorpusError(f"--data {data}: it has no {DATA_SET / queries.name}")
    else:
        origin, tools, texts = "the load test's own requests", OWN_TOOLS, _own()
    dice = random.Random(seed)  # noqa: S311  (no secret: it must repeat)
    drawn = dice.sample(texts, min(count, len(texts)))
    return Corpus(origin, tuple(drawn), catalog or tools, OTHER_TOOLS)


def _queries(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return sorted({str(json.loads(line)["query"]) for line in lines if line.strip()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{path}: no JSON object with a query on each line: {error}") from error


def _own() -> list[str]:
    document: list[str] = json.loads(OWN_REQUESTS.read_text(encoding="utf-8"))
    return document
