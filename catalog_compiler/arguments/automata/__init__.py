"""Automata over characters: made from patterns, formats and numbers, and their algebra."""

from catalog_compiler.arguments.automata.backtracking import translate
from catalog_compiler.arguments.automata.build import (
    MAX_STATES,
    complement,
    difference,
    intersect,
    labelled,
    length,
    literals,
    product,
    union,
)
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.formats import (
    FORMAT_GAPS,
    FORMAT_MAX_CHARS,
    KNOWN_FORMATS,
    string_format,
)
from catalog_compiler.arguments.automata.lengths import bounded
from catalog_compiler.arguments.automata.numbers import number
from catalog_compiler.arguments.automata.patterns import pattern, whole_pattern
from catalog_compiler.arguments.automaton import Automaton

__all__ = [
    "FORMAT_GAPS",
    "FORMAT_MAX_CHARS",
    "KNOWN_FORMATS",
    "MAX_STATES",
    "PatternError",
    "any_string",
    "bounded",
    "complement",
    "difference",
    "intersect",
    "labelled",
    "length",
    "literals",
    "number",
    "pattern",
    "product",
    "string_format",
    "translate",
    "union",
    "whole_pattern",
]


def any_string() -> Automaton:
    """Return what accepts every text of Unicode scalar values."""
    return length(0, None)
