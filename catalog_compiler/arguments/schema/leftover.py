"""`unevaluatedProperties` and `unevaluatedItems` for the standard validator.

Owns which members and items the other keywords of a schema have evaluated: `jsonschema` reads
patterns as Python's there, and in draft 2019-09 additionalProperties as a list of keys. Never
reports what another keyword finds wrong. Source: draft 2020-12 core, 11.2 and 11.3; draft 2019-09
core, 9.3.1.3 and 9.3.2.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jsonschema import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from catalog_compiler.arguments.schema.patterns import search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_compiler.arguments.values import Json

    _Own: TypeAlias = Callable[[Any, Any, dict[str, Json]], set[Any]]

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")


def unevaluated_properties(
    checking: Any, rest: Json, instance: Json, schema: dict[str, Json]
) -> Iterator[ValidationError]:
    """Check the members that no other keyword of the schema has evaluated."""
    if not checking.is_type(instance, "object"):
        return
    known = _members(checking, instance, schema) | _applied(checking, instance, schema, _members)
    for key, value in instance.items():
        if key in known:
            continue
        if rest is False:
            yield ValidationError(f"unevaluated property {key!r} is not allowed")
        else:
            yield from checking.descend(value, rest, path=key)


def unevaluated_items(
    checking: Any, rest: Json, instance: Json, schema: dict[str, Json]
) -> Iterator[ValidationError]:
    """Check the items that no other keyword of the schema has evaluated."""
    if not checking.is_type(instance, "array"):
        return
    known = _items(checking, instance, schema) | _applied(checking, instance, schema, _items)
    for at, value in enumerate(instance):
        if at in known:
            continue
        if rest is False:
            yield ValidationError(f"unevaluated item {at} is not allowed")
        else:
            yield from checking.descend(value, rest, path=at)


def _members(_: Any, instance: dict[str, Json], schema: dict[str, Json]) -> set[Any]:
    """Return the keys that the schema's own keywords evaluate, its unevaluatedProperties aside."""
    if "additionalProperties" in schema:  # what the others leave is its own
        return set(instance)
    patterns = schema.get("patternProperties", {})
    return {
        key
        for key in instance
        if key in schema.get("properties", {}) or any(search(source)(key) for source in patterns)
    }


def _items(checking: Any, instance: list[Json], schema: dict[str, Json]) -> set[Any]:
    """Return the positions that the schema's own keywords evaluate, its unevaluatedItems aside."""
    everything = set(range(len(instance)))
    by_position = [schema.get("prefixItems", [])] if "prefixItems" in checking.VALIDATORS else []
    if isinstance(schema.get("items"), list):
        by_position.append(schema["items"])
        if "additionalItems" in schema:
            return everything
    elif "items" in schema:
        return everything
    found = everything & set(range(max(map(len, by_position), default=0)))
    if "contains" in schema and "prefixItems" in checking.VALIDATORS:  # since 2020-12
        item = checking.evolve(schema=schema["contains"])
        found |= {at for at, value in enumerate(instance) if item.is_valid(value)}
    return found


def _applied(checking: Any, instance: Json, schema: dict[str, Json], own: _Own) -> set[Any]:
    """Return what the schemas evaluate that hold in the same place."""
    found: set[Any] = set()
    for each in _in_place(checking, instance, schema):
        below = each.schema
        if isinstance(below, dict) and each.is_valid(instance):
            leaves = "unevaluatedProperties" if own is _members else "unevaluatedItems"
            if leaves in below and leaves in each.VALIDATORS:  # what the others leave is its own
                return set(instance) if own is _members else set(range(len(instance)))
            found |= own(each, instance, below) | _applied(each, instance, below, own)
    return found


def _in_place(checking: Any, instance: Json, schema: dict[str, Json]) -> Iterator[Any]:
    """Yield the validators of what applies in the same place, whether it holds or not."""
    for resolved in _referred(checking, schema):
        yield checking.evolve(schema=resolved.contents, _resolver=resolved.resolver)
    for keyword in _IN_PLACE:
        for each in schema.get(keyword, ()):
            yield checking.evolve(schema=each)
    for keyword in ("dependentSchemas", "dependencies"):
        if keyword in checking.VALIDATORS and isinstance(instance, dict):
            for key, each in schema.get(keyword, {}).items():
                if key in instance and not isinstance(each, list):
                    yield checking.evolve(schema=each)
    if "if" in schema:
        condition = checking.evolve(schema=schema["if"])
        yield condition
        branch = "then" if condition.is_valid(instance) else "else"
        if branch in schema:
            yield checking.evolve(schema=schema[branch])


def _referred(checking: Any, schema: dict[str, Json]) -> Iterator[Any]:
    resolver = checking._resolver  # noqa: SLF001  (the library has no other way to it)
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in checking.VALIDATORS:
            yield resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema and "$recursiveRef" in checking.VALIDATORS:
        yield lookup_recursive_ref(resolver)
