"""The negation of keywords that speak of one type of values.

Owns it, exactly where shapes can say it; where they can't, what is returned has more values and a
note says so. Never negates keywords that apply other schemas in the same place (`expand`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments.schema.keywords import flag
from catalog_compiler.arguments.schema.places import FALSE, TRUE
from catalog_compiler.arguments.schema.shapes import (
    Arrays,
    Contained,
    Matching,
    Numbers,
    Objects,
    Others,
    Shape,
    Shapes,
    Some,
    Strings,
    Test,
    Unnamed,
    everything_but,
)
from catalog_compiler.arguments.values import Json, json_type, literal

if TYPE_CHECKING:
    from catalog_compiler.arguments.schema.places import Conj
    from catalog_compiler.arguments.schema.reading import Reader

_MEND = "say what is allowed instead of what is not"


def negated(reader: Reader) -> tuple[list[Shapes], list[Conj]]:
    """Return alternatives that together are every value that some keyword refuses."""
    conjs: list[Conj] = []
    found = [_types(reader)]
    found += [_literals(reader, each, conjs) for each in ("const", "enum") if each in reader]
    found += (
        {"string": tuple(_strings(reader))},
        {"number": tuple(_numbers(reader))},
        {"array": tuple(_arrays(reader))},
        {"object": tuple(_objects(reader))},
    )
    return [each for each in found if any(each.values())], conjs


def _types(reader: Reader) -> Shapes:
    types = reader.types()
    if types is None:
        return {}
    kinds = {"number" if name == "integer" else name for name in types}
    found = everything_but(kinds)
    if "integer" in types and "number" not in types:
        found["number"] = (Numbers(broken=True),)
    return found


def _literals(reader: Reader, keyword: str, conjs: list[Conj]) -> Shapes:
    by_kind: dict[str, list[Json]] = {}
    for value in reader.values(keyword):
        by_kind.setdefault(json_type(value), []).append(value)
    found = everything_but(by_kind)
    for kind, some in by_kind.items():
        if kind == "boolean":
            left = frozenset(literal(each) for each in (False, True) if each not in some)
            found[kind] = (Some(left),) if left else ()
        elif kind == "string":
            found[kind] = (Strings(without=frozenset(some)),)
        elif kind == "number":
            found[kind] = (Numbers(without=frozenset(map(literal, some))),)
        elif kind == "array":
            unlike = {"type": kind, "allOf": [{"anyOf": _unlike_array(each)} for each in some]}
            conjs.append(reader.places.made(reader.place, unlike, keyword))
        elif kind == "object":
            unlike = {"type": kind, "allOf": [{"anyOf": _unlike_object(each)} for each in some]}
            conjs.append(reader.places.made(reader.place, unlike, keyword))
    return found


def _unlike_array(value: list[Json]) -> list[Json]:
    """Return schemas of which every other array has one."""
    size = len(value)
    shorter: list[Json] = [{"maxItems": size - 1}] if size else []
    differing: list[Json] = [
        {"minItems": at + 1, "prefixItems": [*[True] * at, {"not": {"const": item}}]}
        for at, item in enumerate(value)
    ]
    return [*shorter, {"minItems": size + 1}, *differing]


def _unlike_object(value: dict[str, Json]) -> list[Json]:
    """Return schemas of which every other object has one."""
    missing: list[Json] = [{"properties": {key: False}} for key in value]
    differing: list[Json] = [
        {"required": [key], "properties": {key: {"not": {"const": each}}}}
        for key, each in value.items()
    ]
    return [*missing, {"minProperties": len(value) + 1}, *differing]


def _strings(reader: Reader) -> list[Shape]:
    found: list[Shape] = []
    low, high = reader.count("minLength"), reader.count("maxLength")
    if low:
        found.append(Strings(high=low - 1))
    if high is not None:
        found.append(Strings(low=high + 1))
    tests = reader.tests()
    found += [Strings(frozenset({Test(each.kind, each.source, not each.holds)})) for each in tests]
    if "pattern" in reader and not any(each.kind == "pattern" for each in tests):
        found.append(Strings())
    return found


def _numbers(reader: Reader) -> list[Shape]:
    found: list[Shape] = []
    if (minimum := reader.number("minimum")) is not None:
        found.append(Numbers(below=minimum))
    if (above := reader.number("exclusiveMinimum")) is not None:
        found.append(Numbers(maximum=above))
    if (maximum := reader.number("maximum")) is not None:
        found.append(Numbers(above=maximum))
    if (below := reader.number("exclusiveMaximum")) is not None:
        found.append(Numbers(minimum=below))
    if (unit := reader.unit()) is not None:
        found.append(Numbers(unmultiples=frozenset({unit})))
    return found


def _arrays(reader: Reader) -> list[Shape]:
    found: list[Shape] = []
    low, high = reader.count("minItems"), reader.count("maxItems")
    if low:
        found.append(Arrays(high=low - 1))
    if high is not None:
        found.append(Arrays(low=high + 1))
    prefix = reader.schemas("prefixItems")
    for at, conj in enumerate(prefix):
        if conj != TRUE:
            found.append(Arrays((*[TRUE] * at, reader.places.negation(conj)), low=at + 1))
    if "items" in reader and (rest := reader.schema("items")) != TRUE:
        after = len(prefix)
        some = Contained(reader.places.negation(rest), 1, None, reader.pointer("items"), after)
        found.append(Arrays(low=after + 1, contained=frozenset({some} if rest != FALSE else ())))
    if flag(reader, "uniqueItems"):
        found.append(Arrays(low=2, repeated=reader.pointer("uniqueItems")))
    if "contains" in reader:
        found += _contains(reader)
    if "unevaluatedItems" in reader and reader["unevaluatedItems"] is not True:
        reader.note("not-unevaluated", "unevaluatedItems", "its negation is not enforced", _MEND)
        found.append(Arrays(low=1))
    return found


def _contains(reader: Reader) -> list[Shape]:
    item = reader.schema("contains")
    low, high = reader.count("minContains"), reader.count("maxContains")
    low = 1 if low is None else low
    found: list[Shape] = []
    if low == 1:
        found.append(Arrays(rest=reader.places.negation(item)))
    elif low:
        few = frozenset({reader.contained(item, 0, low - 1)})
        found.append(Arrays(contained=few))
    if high is not None:
        many = frozenset({reader.contained(item, high + 1, None)})
        found.append(Arrays(low=high + 1, contained=many))
    return found


def _objects(reader: Reader) -> list[Shape]:
    found: list[Shape] = []
    low, high = reader.count("minProperties"), reader.count("maxProperties")
    if low:
        found.append(Objects(high=low - 1))
    if high is not None:
        found.append(Objects(low=high + 1))
    found += [Objects(((key, FALSE),)) for key in reader.names("required")]
    members = reader.schema_map("properties")
    for key, conj in members.items():
        if conj != TRUE:
            found.append(Objects(((key, reader.places.negation(conj)),), (key,)))
    patterns = reader.schema_map("patternProperties")
    known = [source for source in patterns if reader.is_pattern(source, "patternProperties")]
    for source in known:
        if patterns[source] != TRUE:
            refused = reader.places.negation(patterns[source])
            found.append(reader.held(Matching(source), refused, "patternProperties", source))
    if len(known) < len(patterns):  # and noted
        found.append(Objects(low=1))
    if "additionalProperties" in reader and (rest := reader.schema("additionalProperties")) != TRUE:
        others = Others(frozenset(members), frozenset(known))
        refused = reader.places.negation(rest)
        found.append(reader.held(others, refused, "additionalProperties"))
    if "propertyNames" in reader and (names := reader.schema("propertyNames")) != TRUE:
        kind = Unnamed(names) if names != FALSE else Others(frozenset(), frozenset())
        found.append(reader.held(kind, TRUE, "propertyNames"))
    if "unevaluatedProperties" in reader and reader["unevaluatedProperties"] is not True:
        reader.note(
            "not-unevaluated", "unevaluatedProperties", "its negation is not enforced", _MEND
        )
        found.append(Objects(low=1))
    return found
