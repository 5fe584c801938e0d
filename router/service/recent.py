"""The latest answers, so that it can be told which tools of a catalog are not among them.

Owns the window. Memory: two references an answer, and each digest and name once.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice
from typing import Final

ANSWERS_KEPT: Final = 100_000
"""Answers that are remembered, the latest ones."""


class RecentAnswers:
    """A window over the latest answers.

    Args:
        kept: how many answers it is wide.

    """

    def __init__(self, kept: int = ANSWERS_KEPT) -> None:
        self._answers: deque[tuple[str, str]] = deque(maxlen=kept)
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, digest: str, tool: str) -> None:
        """Remember an answer: a catalog's digest, and the tool's name or "" for none."""
        if len(self._known) > 2 * len(self._answers) + 1000:  # of catalogs that are long gone
            self._known = {each: each for each in self._answers}
        answer = (digest, tool)
        self._answers.append(self._known.setdefault(answer, answer))

    def count(self, last: int) -> dict[str, Counter[str]]:
        """Count the last answers' tools by their catalog's digest; fewer where there are fewer."""
        found: dict[str, Counter[str]] = {}
        for digest, tool in islice(reversed(self._answers), last):
            found.setdefault(digest, Counter())[tool] += 1
        return found
