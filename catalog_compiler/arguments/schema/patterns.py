"""Patterns that no automaton has: back references and what looks behind.

Owns their matching, within a time: a pattern can take exponentially long, and whoever waits is the
engine. Never used where there is an automaton.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import regex

from catalog_compiler.arguments import automata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MATCHING_S: Final = 0.1
"""Seconds that all matching of one value may take together."""

_ends: ContextVar[float | None] = ContextVar("_ends", default=None)


class UndecidedError(Exception):
    """Whether a pattern matches takes too long to find out; the message names it."""


@contextmanager
def matching_time(seconds: float = MATCHING_S) -> Iterator[None]:
    """Give all matching within the context so many seconds."""
    token = _ends.set(time.perf_counter() + seconds)
    try:
        yield
    finally:
        _ends.reset(token)


@lru_cache(maxsize=256)
def search(source: str) -> Callable[[str], bool]:
    """Return whether a pattern of ECMA-262 is found in a string.

    The function that is returned raises UndecidedError where the time is over: that of
    `matching_time` around it, or `MATCHING_S`.

    Raises:
        PatternError: neither an automaton nor `regex` can tell.

    """
    try:
        return automata.pattern(source).accepts_text
    except automata.PatternError:
        translated = automata.translate(source)
    try:
        compiled = regex.compile(translated, regex.VERSION0)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise automata.PatternError(f"it can't be matched: {error}") from error

    def found(text: str) -> bool:
        ends = _ends.get()
        left_s = MATCHING_S if ends is None else ends - time.perf_counter()
        if left_s > 0:
            try:
                return compiled.search(text, timeout=left_s) is not None
            except TimeoutError:
                pass
        raise UndecidedError(f"whether {source[:100]!r} matches takes too long to find out")

    return found
