"""The spellings of a given JSON value: its members in the order of a grammar.

Owns turning a value back into canonical text, for checking values that came from elsewhere. Never
decides what is accepted: that is the machine's business, and these are the texts to ask it about.
"""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import islice, product
from typing import TYPE_CHECKING, Final, NamedTuple

from catalog_compiler.arguments.member import is_text
from catalog_compiler.arguments.nodes import (
    ITEM_SEPARATOR,
    KEY_SEPARATOR,
    ArgumentGrammar,
    Array,
    DistinctLiterals,
    Literals,
    Number,
    Object,
    Text,
    Union,
)
from catalog_compiler.arguments.values import freeze, has_surrogate, number_spellings

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from catalog_compiler.arguments.values import Json

MAX_CANDIDATES: Final = 32
_COMMA: Final = ITEM_SEPARATOR.decode()
_COLON: Final = KEY_SEPARATOR.decode()


class _Spelling(NamedTuple):
    text: str
    fits: bool  # whether the node accepts it, as far as its tables say


def arrange(
    grammar: ArgumentGrammar, value: Json, max_candidates: int = MAX_CANDIDATES
) -> tuple[str, ...]:
    """Return the texts of a value that are worth asking a machine about, the likeliest first.

    Where the grammar accepts the value, the first text is one that it accepts, unless more than
    `max_candidates` spellings of its parts had to be tried. Where it doesn't, the texts are the
    value in the order of each option of each union, so that no option is let off.

    Args:
        grammar: what gives the order.
        value: any JSON value.
        max_candidates: bound on the texts, and on the spellings of each part.

    Raises:
        ValueError: the value is no JSON value, NaN for one.

    """
    spellings = _Arranger(grammar, max_candidates).spell(grammar.root, value)
    return tuple(spelling.text for spelling in spellings)


def plain(value: Json) -> str:
    """Return a value in canonical spelling, its members in their own order.

    Raises:
        ValueError: the value is no JSON value, NaN for one.

    """
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return _string(value)
        case int() | float() | Decimal():
            return number_spellings(value)[0]
        case list() | tuple():
            return f"[{_COMMA.join(map(plain, value))}]"
        case dict():
            members = (f"{_string(key)}{_COLON}{plain(item)}" for key, item in value.items())
            return f"{{{_COMMA.join(members)}}}"
    raise ValueError(f"{value!r} is no JSON value")


class _Arranger:
    def __init__(self, grammar: ArgumentGrammar, limit: int) -> None:
        self._nodes = grammar.nodes
        self._limit = limit
        # By node and identity: the parts of a value live as long as it does.
        self._found: dict[tuple[int, int], list[_Spelling]] = {}
        self._literals: dict[int, dict[Hashable, str]] = {}

    def spell(self, number: int, value: Json) -> list[_Spelling]:
        """Return spellings of a value for a node: one alone where it fits, else all, bounded."""
        key = (number, id(value))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._bounded(self._spell(number, value))
        return found

    def _bounded(self, spellings: Iterable[_Spelling]) -> list[_Spelling]:
        kept: dict[str, _Spelling] = {}
        for spelling in spellings:
            if spelling.fits:
                return [spelling]
            if len(kept) < self._limit:
                kept.setdefault(spelling.text, spelling)
        return list(kept.values())

    def _spell(self, number: int, value: Json) -> Iterable[_Spelling]:
        node = self._nodes[number]
        match node, value:
            case Union(), _:
                return self._option(node, value)
            case Literals(), _:
                return self._literal(number, node.texts, value)
            case Text(), str():
                return [_Spelling(_string(value), is_text(node, value))]
            case Number(), int() | float() | Decimal() if not isinstance(value, bool):
                return [
                    _Spelling(text, node.automaton.accepts_text(text))
                    for text in number_spellings(value)
                ]
            case Array(), list() | tuple():
                return self._array(node, value)
            case DistinctLiterals(), list() | tuple():
                return self._distinct(number, node, value)
            case Object(), dict():
                return self._object(node, value)
        return [_Spelling(plain(value), fits=False)]

    def _option(self, node: Union, value: Json) -> Iterable[_Spelling]:
        every: list[list[_Spelling]] = []
        for option in node.options:
            every.append(self.spell(option, value))
            if every[-1][0].fits:
                yield every[-1][0]
                return
        # In turn, so that the bound lets every option have its say.
        for rank in range(max(map(len, every))):
            for spellings in every:
                yield from spellings[rank : rank + 1]

    def _literal(self, number: int, texts: Sequence[bytes], value: Json) -> list[_Spelling]:
        known = self._literals.get(number)
        if known is None:
            known = self._literals[number] = {
                freeze(json.loads(text, parse_float=Decimal)): text.decode() for text in texts
            }
        try:
            found = known.get(freeze(value))
        except TypeError as error:
            raise ValueError(f"{value!r} is no JSON value") from error
        return [_Spelling(found or plain(value), found is not None)]

    def _array(self, node: Array, value: Sequence[Json]) -> Iterable[_Spelling]:
        fits = len(value) >= node.min_items and _within(len(value), node.max_items)
        parts: list[list[_Spelling]] = []
        for place, item in enumerate(value):
            child = node.prefix[place] if place < len(node.prefix) else node.rest
            if child is None:
                parts.append([_Spelling(plain(item), fits=False)])
            else:
                parts.append(self.spell(child, item))
        return self._joined("[", parts, "]", fits=fits)

    def _distinct(
        self, number: int, node: DistinctLiterals, value: Sequence[Json]
    ) -> Iterable[_Spelling]:
        parts = [self._literal(number, node.texts, item) for item in value]
        distinct = len({part[0].text for part in parts}) == len(parts)
        fits = distinct and node.min_items <= len(value) <= node.max_items
        return self._joined("[", parts, "]", fits=fits)

    def _object(self, node: Object, value: dict[str, Json]) -> Iterable[_Spelling]:
        fits = len(value) >= node.min_properties and _within(len(value), node.max_properties)
        parts: list[list[_Spelling]] = []
        declared = {member.key for member in node.properties}
        for member in node.properties:
            if member.key in value:
                parts.append(_keyed(member.key, self.spell(member.node, value[member.key])))
            elif member.required:
                fits = False
        for key, item in value.items():
            if key in declared:
                continue
            label = -1 if node.keys is None or has_surrogate(key) else node.keys.label(key)
            if label < 0:
                parts.append(_keyed(key, [_Spelling(plain(item), fits=False)]))
            else:
                parts.append(_keyed(key, self.spell(node.values[label], item)))
        return self._joined("{", parts, "}", fits=fits)

    def _joined(
        self, opening: str, parts: list[list[_Spelling]], closing: str, *, fits: bool
    ) -> Iterable[_Spelling]:
        for chosen in islice(product(*parts), self._limit):
            yield _Spelling(
                f"{opening}{_COMMA.join(part.text for part in chosen)}{closing}",
                fits and all(part.fits for part in chosen),
            )


def _keyed(key: str, spellings: Sequence[_Spelling]) -> list[_Spelling]:
    head = f"{_string(key)}{_COLON}"
    fits = not has_surrogate(key)
    return [_Spelling(head + spelling.text, fits and spelling.fits) for spelling in spellings]


def _within(count: int, most: int | None) -> bool:
    return most is None or count <= most


def _string(text: str) -> str:
    # A lone surrogate has no UTF-8: as an escape it can at least be asked about, and refused.
    return json.dumps(text, ensure_ascii=has_surrogate(text))
