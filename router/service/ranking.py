"""Who comes first among many whose rank changes all the time.

Owns a heap with entries that are outdated rather than removed, so that a change costs the logarithm
of how many there are, whoever is ranked. Never knows what a rank means.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeAlias, TypeVar

Key = TypeVar("Key", bound=str)
Rank: TypeAlias = tuple[float, float]

_SPARE = 64
"""Outdated entries that are let be, beside as many as there are current ones."""


class Ranking(Generic[Key]):
    """Keys by rank, least first."""

    def __init__(self) -> None:
        self._ranks: dict[Key, Rank] = {}
        self._heap: list[tuple[Rank, Key]] = []

    def __len__(self) -> int:
        """Return how many keys are ranked."""
        return len(self._ranks)

    def put(self, key: Key, rank: Rank) -> None:
        """Rank a key, or rank it anew."""
        if self._ranks.get(key) == rank:
            return
        self._ranks[key] = rank
        heapq.heappush(self._heap, (rank, key))
        if len(self._heap) > 2 * len(self._ranks) + _SPARE:
            self._heap = [(rank, key) for key, rank in self._ranks.items()]
            heapq.heapify(self._heap)

    def drop(self, key: Key) -> None:
        """Rank a key no more; one that is not ranked is no error."""
        self._ranks.pop(key, None)

    def first(self) -> Key | None:
        """Return the key of least rank, ties by the key itself, or None where there is none."""
        while self._heap:
            rank, key = self._heap[0]
            if self._ranks.get(key) == rank:
                return key
            heapq.heappop(self._heap)
        return None
