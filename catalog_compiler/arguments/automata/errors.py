"""What can't be made an automaton."""

from __future__ import annotations


class PatternError(ValueError):
    """A pattern is malformed, or no automaton of bounded size says it; the message names where."""
