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
from catalog_compiler.arguments.values import (
    Json,
    freeze,
    has_surrogate,
    json_type,
    number_spellings,
    scaled,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from decimal import Decimal

    from catalog_compiler.arguments.nodes import ArgumentGrammar


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
            return kind == "string" and is_text(node, value)
        case Number():
            return kind == "number" and any(
                map(node.automaton.accepts_text, number_spellings(value))
            )
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
    """Yield texts of a number: written out, with a fraction, and with a whole before an exponent.

    Raises:
        ValueError: it is not finite.

    """
    yield from number_spellings(number)[:-1]
    coefficient, exponent = scaled(number)
    yield f"{coefficient}e{exponent}"


def is_text(node: Text, value: str) -> bool:
    """Tell whether a string node accepts a string."""
    return (
        not has_surrogate(value)
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
            if label < 0 or has_surrogate(key):
                return False
            number = node.values[label]
        if not _accepts(grammar, number, each):
            return False
    return True
