"""What keywords that speak of one type of values mean.

Owns every keyword but those that apply other schemas in the same place (`expand`). Never negates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments.schema.meet import is_void, settled
from catalog_compiler.arguments.schema.places import FALSE, TRUE
from catalog_compiler.arguments.schema.shapes import (
    ALL_ITEMS,
    ANY,
    EVERYTHING,
    SOME_ITEMS,
    Arrays,
    Contained,
    Matching,
    Numbers,
    Objects,
    Others,
    Seen,
    Shape,
    Shapes,
    Strings,
    Unnamed,
    named,
)  # fmt: skip

if TYPE_CHECKING:
    from catalog_compiler.arguments.schema.holding import Oracle
    from catalog_compiler.arguments.schema.places import Conj
    from catalog_compiler.arguments.schema.reading import Reader
    from catalog_compiler.arguments.schema.shapes import Keys


_OF_FURTHER_MEMBERS = (
    "additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties",
)  # fmt: skip


def of_types(reader: Reader, oracle: Oracle) -> Shapes:
    """Return the values that `type` and what speaks of single types allow."""
    types = reader.types()
    allowed = dict(EVERYTHING)
    if types is not None:
        kinds = {"number" if name == "integer" else name for name in types}
        allowed = {kind: each for kind, each in EVERYTHING.items() if kind in kinds}
    whole = types is not None and "integer" in types and "number" not in types
    shape: Shape | None
    for kind in tuple(allowed):
        match kind:
            case "string":
                shape = _strings(reader)
            case "number":
                shape = _numbers(reader, whole=whole)
            case "array":
                shape = _arrays(reader, oracle)
            case "object":
                shape = _objects(reader)
            case _:
                continue
        if shape is None:
            del allowed[kind]
        elif shape != ANY[kind]:
            allowed[kind] = (shape,)
    return allowed


def of_values(reader: Reader) -> list[Shapes]:
    """Return the values that `enum` and `const` name, each to be met."""
    return [named(reader.values(keyword)) for keyword in ("const", "enum") if keyword in reader]


def _strings(reader: Reader) -> Strings | None:
    low, high = reader.count("minLength") or 0, reader.count("maxLength")
    found = Strings(frozenset(reader.tests()), low, high)
    return None if high is not None and low > high else found


def _numbers(reader: Reader, *, whole: bool) -> Numbers | None:
    unit = reader.unit()
    found = Numbers(
        reader.number("minimum"), reader.number("exclusiveMinimum"),
        reader.number("maximum"), reader.number("exclusiveMaximum"),
        whole=whole, multiples=frozenset() if unit is None else frozenset({unit}),
    )  # fmt: skip
    return None if is_void(found) else found


def _arrays(reader: Reader, oracle: Oracle) -> Arrays | None:
    low, high = reader.count("minItems") or 0, reader.count("maxItems")
    if high is not None and low > high:
        return None
    prefix = tuple(reader.schemas("prefixItems"))
    rest = reader.schema("items") if "items" in reader else TRUE
    contained: frozenset[Contained] = frozenset()
    evaluated = 0
    if reader.places.uses_unevaluated:
        evaluated = ALL_ITEMS if "items" in reader else len(prefix)
    if "contains" in reader:
        least, most = reader.count("minContains"), reader.count("maxContains")
        least = 1 if least is None else least
        if most is not None and least > most:
            return None
        item = reader.schema("contains")
        low = max(low, least)
        if least or most is not None:
            contained = frozenset({reader.contained(item, least, most)})
        if reader.places.uses_unevaluated and reader.place.dialect.year >= 2020:
            evaluated = max(evaluated, SOME_ITEMS)
    unique = reader.pointer("uniqueItems") if flag(reader, "uniqueItems") else None
    while prefix and prefix[-1] == rest:
        prefix = prefix[:-1]
    found = Arrays(prefix, rest, low, high, unique=unique, contained=contained, evaluated=evaluated)
    return settled(found, oracle)


def flag(reader: Reader, keyword: str) -> bool:
    """Return a keyword that is true or false."""
    if keyword not in reader:
        return False
    if not isinstance(reader[keyword], bool):
        raise reader.malformed(keyword, f"{keyword} is neither true nor false")
    return bool(reader[keyword])


def _objects(reader: Reader) -> Objects | None:
    members = reader.schema_map("properties")
    required = reader.names("required")
    low, high = reader.count("minProperties") or 0, reader.count("maxProperties")
    rules, seen = key_rules(reader, members)
    if "propertyNames" in reader:
        names = reader.schema("propertyNames")
        if names == FALSE:
            high = 0
        elif names != TRUE:
            rules.append((Unnamed(names), FALSE))
    if any(members.get(key) == FALSE for key in required):
        return None
    if high is not None and max(low, len(required)) > high:
        return None
    closing = reader.places.close_objects
    return Objects(
        tuple(members.items()), required, frozenset(rules), low, high, seen=seen,
        declares=closing and "properties" in reader,
        speaks=closing and any(keyword in reader for keyword in _OF_FURTHER_MEMBERS),
    )  # fmt: skip


def key_rules(reader: Reader, members: dict[str, Conj]) -> tuple[list[tuple[Keys, Conj]], Seen]:
    """Return what patternProperties and additionalProperties say."""
    patterns = reader.schema_map("patternProperties")
    rules: list[tuple[Keys, Conj]] = []
    known = True
    for source, conj in patterns.items():
        if not reader.is_pattern(source, "patternProperties"):
            known = False
        elif conj != TRUE:
            rules.append((Matching(source), conj))
    if "additionalProperties" in reader:
        conj = reader.schema("additionalProperties")
        # Without one of the patterns nobody can tell which keys are additional.
        if known and conj != TRUE:
            rules.append((Others(frozenset(members), frozenset(patterns)), conj))
    if not reader.places.uses_unevaluated:
        return rules, Seen()
    everything = "additionalProperties" in reader or not known
    return rules, Seen(frozenset(members), frozenset(patterns), everything)
