"""The rows: schemas with instances of which it is known whether they are valid.

Owns reading the two files, and the orders of members in which a peer is asked about an instance.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog_compiler import pointers
from catalog_compiler.arguments.arrange import plain
from catalog_compiler.arguments.values import has_surrogate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MAX_TURNS: Final = 4
"""How many options of a union are put first, each in its turn, when members are ordered."""
_UNIONS: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Row:
    """A schema and its instances.

    Attributes:
        id: names the row.
        set: what figures are summed by.
        schema: any JSON.
        tests: each with `valid` and `data`.

    """

    id: str
    set: str
    schema: Any
    tests: tuple[dict[str, Any], ...]


def read_rows(path: Path) -> list[Row]:
    """Read rows, one a line: `id`, `set`, `schema`, `tests` of `valid` and `data`.

    Raises:
        ValueError: a line is none; it says which.

    """
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            raw = json.loads(line)
            rows.append(Row(raw["id"], raw["set"], raw["schema"], _tests(raw["tests"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is no row ({error!r})") from error
    return rows


def read_suite(path: Path) -> list[Row]:
    """Read the official test suite, one key a file; a file is a set, a group of tests a row.

    Raises:
        ValueError: it is not of that form.

    """
    try:
        return [
            Row(f"{name}/{place}: {group['description']}", name, group["schema"],
                _tests(group["tests"]))
            for name, groups in json.loads(path.read_text()).items()
            for place, group in enumerate(groups)
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not the test suite in one file ({error!r})") from error


def _tests(raw: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple({"valid": bool(test["valid"]), "data": test["data"]} for test in raw)


def peer_texts(schema: Any, value: Any) -> tuple[str, ...]:
    """Return an instance's spellings for a peer: as it is given, and in the schema's order.

    Numbers are spelt as ours are, and also as Python's `json` does; separators are ``, `` and
    ``: `` for everyone.
    """
    values = [value, *(_ordered([schema], value, schema, turn) for turn in range(MAX_TURNS))]
    texts: dict[str, None] = {}
    for each in values:
        texts[plain(each)] = None
        texts[json.dumps(each, ensure_ascii=False)] = None
    return tuple(text for text in texts if not has_surrogate(text))


def _ordered(schemas: Sequence[Any], value: Any, root: Any, turn: int) -> Any:
    every = list(_flat(schemas, root, turn, set()))
    if isinstance(value, list):
        return [
            _ordered(_items(every, place), item, root, turn) for place, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    declared: dict[str, list[Any]] = {}
    others: list[Any] = []
    for schema in every:
        properties = schema.get("properties")
        for key, below in properties.items() if isinstance(properties, dict) else ():
            declared.setdefault(key, []).append(below)
        others.append(schema.get("additionalProperties"))
    keys = [key for key in declared if key in value] + [key for key in value if key not in declared]
    return {key: _ordered(declared.get(key, others), value[key], root, turn) for key in keys}


def _items(schemas: Sequence[dict[str, Any]], place: int) -> list[Any]:
    found: list[Any] = []
    for schema in schemas:
        prefix = schema.get("prefixItems")
        rest = schema.get("items")
        if isinstance(rest, list):  # the older spelling
            prefix, rest = rest, schema.get("additionalItems")
        first = _list(prefix)
        found.append(first[place] if place < len(first) else rest)
    return found


def _flat(schemas: Iterable[Any], root: Any, turn: int, seen: set[int]) -> Iterator[dict[str, Any]]:
    """Yield schemas with all that hold or may hold beside them."""
    for schema in schemas:
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        beside = [_target(schema.get("$ref"), root), *_list(schema.get("allOf"))]
        for union in _UNIONS:
            options = _list(schema.get(union))
            first = turn % len(options) if options else 0
            beside += options[first:] + options[:first]
        beside += [schema.get(name) for name in ("if", "then", "else")]
        yield from _flat(beside, root, turn, seen)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _target(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    try:
        return pointers.follow(root, pointers.split(pointers.fragment(reference)))
    except KeyError:
        return None
