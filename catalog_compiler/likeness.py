"""How alike two tools are, by the words they use.

Owns the words of a tool and the search for its nearest neighbours among many, in time that grows
with the number of tools and not with its square. Never judges: what is too alike is said elsewhere.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog_compiler.model import Json, Tool

COMMON_WORD: Final = 48
"""A word of more tools than this proposes no neighbours; it still counts in the likeness."""

BANDS: Final = 8
BAND_HASHES: Final = 2
BUCKET_NEIGHBOURS: Final = 4
_RNG: Final = random.Random(20261201)  # noqa: S311 (hash factors, no secret)
_FACTORS: Final = np.array(
    [_RNG.getrandbits(64) | 1 for _ in range(BANDS * BAND_HASHES)], np.uint64
)
_TERMS: Final = np.array([_RNG.getrandbits(64) for _ in range(BANDS * BAND_HASHES)], np.uint64)

MAX_CANDIDATES: Final = 24
MAX_CHARS: Final = 20_000
MAX_SCHEMA_NODES: Final = 2_000

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tool_words(tool: Tool) -> frozenset[str]:
    """Return the words of its description, title and arguments, and those of its bare name."""
    texts = [tool.source_name, tool.title, tool.description, *argument_names(tool.input_schema)]
    clipped = (_HUMP.sub(" ", text[:MAX_CHARS]) for text in texts)
    return frozenset(word.lower() for text in clipped for word in _WORD.findall(text))


def argument_names(schema: Json) -> list[str]:
    """Return the names under every ``properties`` of a schema, outermost first."""
    names: list[str] = []
    level = [schema]
    visited = 0
    while level and visited < MAX_SCHEMA_NODES:
        below: list[Json] = []
        for node in level:
            visited += 1
            if isinstance(node, dict):
                properties = node.get("properties")
                if isinstance(properties, dict):
                    names += properties
                below += node.values()
            elif isinstance(node, list):
                below += node
        level = [node for node in below if isinstance(node, dict | list)]
    return names


def likeness(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the share of words in common (Jaccard), 0.0 to 1.0; 0.0 where there are none."""
    union = len(left | right)
    return len(left & right) / union if union else 0.0


class Neighbours:
    """Finds, among many tools, those most like a given one."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Index the words of the tools."""
        self.words = [tool_words(tool) for tool in tools]
        places: defaultdict[str, list[int]] = defaultdict(list)
        for index, words in enumerate(self.words):
            for word in words:
                places[word].append(index)
        self._places = {w: p for w, p in places.items() if len(p) <= COMMON_WORD}

    def nearest(self, words: frozenset[str]) -> list[tuple[float, int]]:
        """Return (likeness, tool index), most alike first, ties by index."""
        votes: Counter[int] = Counter()
        for word in words:
            votes.update(self._places.get(word, ()))
        candidates = _strongest(votes.items())
        found = [(likeness(words, self.words[index]), index) for index in candidates]
        return sorted(found, key=lambda pair: (-pair[0], pair[1]))


def closest_pairs(tools: Sequence[Tool], at_most: int) -> list[tuple[float, int, int]]:
    """Return the (likeness, left, right) of the most alike pairs, most alike first."""
    neighbours = Neighbours(tools)
    pairs: dict[tuple[int, int], float] = {}
    for index, words in enumerate(neighbours.words):
        for alike, other in neighbours.nearest(words)[:4]:
            if other != index:
                pairs[min(index, other), max(index, other)] = alike
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return [(alike, left, right) for (left, right), alike in ranked[:at_most]]


def near_pairs(tools: Sequence[Tool], at_least: float) -> list[tuple[float, int, int]]:
    """Return (likeness, left, right) of pairs at least so alike, each near twin in at least one.

    By MinHash (Broder 1997): tools that agree in a band of minimal word hashes are compared with
    the next few of their bucket, so a hundred copies cost a hundred comparisons and no more. A pair
    that shares 90% of its words is missed once in about a million.
    """
    words = [tool_words(tool) for tool in tools]
    buckets: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
    hashed: dict[str, int] = {}
    for index, own in enumerate(words):
        if not own:
            continue
        for word in own:
            if word not in hashed:
                digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                hashed[word] = int.from_bytes(digest, "little")
        values = np.array([hashed[word] for word in own], np.uint64)
        minima = (values[None, :] * _FACTORS[:, None] + _TERMS[:, None]).min(axis=1)
        for band in range(BANDS):
            key = minima[band * BAND_HASHES : (band + 1) * BAND_HASHES].tobytes()
            buckets[band, key].append(index)
    pairs: dict[tuple[int, int], float] = {}
    for members in buckets.values():
        for place, left in enumerate(members):
            for right in members[place + 1 : place + 1 + BUCKET_NEIGHBOURS]:
                if (left, right) not in pairs:
                    pairs[left, right] = likeness(words[left], words[right])
    return [
        (alike, left, right) for (left, right), alike in sorted(pairs.items()) if alike >= at_least
    ]


def _strongest(votes: Iterable[tuple[int, int]]) -> list[int]:
    ranked = sorted(votes, key=lambda item: (-item[1], item[0]))
    return [index for index, _count in ranked[:MAX_CANDIDATES]]
