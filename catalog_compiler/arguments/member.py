"""Whether a grammar of arguments accepts a value.

Owns the answer for values, in whatever order an object's members come. Never looks at texts: how
a value is spelt is the machine's business.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog_compiler.arguments.nodes import (
    Array,
    DistinctLiterals,
    Literals,
    Number,
    Object,
    Text,
    Union,
)  # fmt: skip
from catalog_compiler.arguments.values import Json, freeze, json_type, scaled

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from decimal import Decimal

    from catalog_compiler.arguments.nodes import ArgumentGrammar

MAX_PLAIN_EXPONENT = 400
"""Digits that a number is written out with where it has an exponent."""


def accepts(grammar: ArgumentGrammar, value: Json) -> bool:
    """Tell whether the grammar accepts some text of the value."""
    return _accepts(grammar, grammar.root, value)


def _accepts(grammar: ArgumentGrammar, number: int, value: Json) -> bool:
    node = grammar.nodes[number]
    kind = json_type(value)
    match node:
        case Union():
            return any(_accepts(grammar, option, value) for option in node.options)
        case Literals():
            return freeze(value) in _values(node.texts)
        case Text():
            return kind == "string" and _is_text(node, value)
        case Number():
            return kind == "number" and any(map(node.automaton.accepts_text, spellings(value)))
        case Array():
            return kind == "array" and _is_array(grammar, node, value)
        case DistinctLiterals():
            if kind != "array":
                return False
            keys = [freeze(item) for item in value]
            return (
                node.min_items <= len(keys) <= node.max_items
                and len(set(keys)) == len(keys)
                and _values(node.texts).issuperset(keys)
            )
        case Object():
            return kind == "object" and _is_object(grammar, node, value)


@lru_cache(maxsize=1024)
def _values(texts: tuple[bytes, ...]) -> frozenset[Hashable]:
    return frozenset(freeze(json.loads(text)) for text in texts)


def spellings(number: float | Decimal) -> Iterator[str]:
    """Yield texts of a number: written out, with a fraction, and with an exponent."""
    coefficient, exponent = scaled(number)
    digits, sign = str(abs(coefficient)), "-" if coefficient < 0 else ""
    if abs(exponent) <= MAX_PLAIN_EXPONENT:
        if exponent >= 0:
            whole, fraction = digits + "0" * exponent, ""
        else:
            padded = digits.rjust(1 - exponent, "0")
            whole, fraction = padded[:exponent], padded[exponent:]
        if fraction:
            yield f"{sign}{whole}.{fraction}"
        else:
            yield sign + whole
            yield f"{sign}{whole}.0"
    yield f"{sign}{digits}e{exponent}"


def _is_text(node: Text, value: str) -> bool:
    return (
        not _has_surrogate(value)
        and len(value) >= node.min_chars
        and (node.max_chars is None or len(value) <= node.max_chars)
        and (node.automaton is None or node.automaton.accepts_text(value))
    )


def _is_array(grammar: ArgumentGrammar, node: Array, value: list[Json]) -> bool:
    if len(value) < node.min_items or (node.max_items is not None and len(value) > node.max_items):
        return False
    for position, item in enumerate(value):
        number = node.prefix[position] if position < len(node.prefix) else node.rest
        if number is None or not _accepts(grammar, number, item):
            return False
    return True


def _is_object(grammar: ArgumentGrammar, node: Object, value: dict[str, Json]) -> bool:
    if len(value) < node.min_properties or (
        node.max_properties is not None and len(value) > node.max_properties
    ):
        return False
    declared = {each.key: each for each in node.properties}
    if any(each.required and each.key not in value for each in node.properties):
        return False
    for key, each in value.items():
        if key in declared:
            number = declared[key].node
        else:
            label = -1 if node.keys is None else node.keys.label(key)
            if label < 0 or _has_surrogate(key):
                return False
            number = node.values[label]
        if not _accepts(grammar, number, each):
            return False
    return True


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
