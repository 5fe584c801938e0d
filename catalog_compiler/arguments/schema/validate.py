"""The standard validator, for what a grammar leaves out.

Owns how `jsonschema` is set up: the same dialects, patterns and formats as the grammar's, exact
numbers, nothing fetched. Never compiles a grammar.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    FormatChecker,
    ValidationError,
    validators,
)
from jsonschema_specifications import REGISTRY

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.schema.dialect import Dialect, dialect_of, today
from catalog_compiler.arguments.schema.leftover import unevaluated_items, unevaluated_properties
from catalog_compiler.arguments.schema.patterns import matching_time, search
from catalog_compiler.arguments.values import Json, decimal, freeze, is_multiple, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLASSES: Final[dict[int, Any]] = {
    4: Draft4Validator, 6: Draft6Validator, 7: Draft7Validator,
    2019: Draft201909Validator, 2020: Draft202012Validator,
}  # fmt: skip
MAX_ERRORS: Final = 20
"""Errors of one value that are told."""


def validator(schema: Json, *, assert_formats: bool = True) -> Callable[[Json], list[str]]:
    """Return a function from a value to what is wrong with it, the worst first; [] is valid.

    Raises:
        RefusedError: the schema names a dialect that isn't known.

    """
    cls = _class_for(dialect_of(schema))
    checker = _checker() if assert_formats else None

    def errors(value: Json) -> list[str]:
        found = []
        try:
            checking = cls(_exact(schema), registry=REGISTRY, format_checker=checker)
            with matching_time():
                for error in checking.iter_errors(_exact(value)):
                    at = "".join(f"/{part}" for part in error.absolute_path)
                    found.append(f"{at}: {error.message}"[:500] if at else error.message[:500])
                    if len(found) == MAX_ERRORS:
                        break
        except Exception as error:  # noqa: BLE001  (the library says nowhere what a malformed schema raises)
            # What can't be checked has not been found valid.
            found.append(f"the value can't be checked: {type(error).__name__}: {error}"[:500])
        return found

    return errors


def _exact(value: Json) -> Json:
    """Return the value with each float as it is written."""
    if isinstance(value, dict):
        return {key: _exact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_exact(each) for each in value]
    return decimal(value) if isinstance(value, float) else value


@lru_cache(maxsize=1)
def _checker() -> FormatChecker:
    """Return the formats as the grammar has them; others are not asserted."""
    checker = FormatChecker(formats=())
    checker.checkers = _Formats()
    return checker


class _Formats(dict[str, Any]):
    """What `FormatChecker.checkers` is, for every format that has an automaton."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and automata.string_format(name) is not None

    def __getitem__(self, name: str) -> Any:
        automaton = automata.string_format(name)
        assert automaton is not None
        return lambda value: not isinstance(value, str) or automaton.accepts_text(value), ()


@lru_cache(maxsize=8)
def _class_for(dialect: Dialect) -> Any:
    base = _CLASSES[dialect.year]
    types = base.TYPE_CHECKER.redefine_many({"number": _is_number, "integer": _is_integer})
    own: dict[str, Any] = {
        "multipleOf": _multiple_of, "pattern": _pattern, "uniqueItems": _unique_items,
        "patternProperties": _pattern_properties, "additionalProperties": _additional,
    }  # fmt: skip
    if dialect.year < 2020 or dialect.lenient:
        own["additionalItems"] = _additional_items
    if dialect.year >= 6:
        own["const"] = _const
    own["enum"] = _enum
    if dialect.year >= 2019:
        own["unevaluatedItems"] = unevaluated_items
        own["unevaluatedProperties"] = unevaluated_properties
    if dialect.lenient:
        draft7, draft4 = Draft7Validator.VALIDATORS, Draft4Validator.VALIDATORS
        own |= {
            "dependencies": draft7["dependencies"],
            "items": _or_older(base.VALIDATORS["items"], draft7["items"], list),
            "minimum": _older_bound(base, draft4, "minimum", "exclusiveMinimum"),
            "maximum": _older_bound(base, draft4, "maximum", "exclusiveMaximum"),
            "exclusiveMinimum": _or_older(base.VALIDATORS["exclusiveMinimum"], _nothing, bool),
            "exclusiveMaximum": _or_older(base.VALIDATORS["exclusiveMaximum"], _nothing, bool),
            "type": _nullable_type,
        }  # fmt: skip
    cls = validators.extend(base, own, type_checker=types)
    cls.evolve = _evolve
    return cls


def _evolve(checking: Any, **changes: Any) -> Any:
    """Return the validator of a subschema: by its own dialect, or as the one around it.

    The library's own takes its plain class wherever `$schema` stands, so behind `{"$ref": "#"}`.
    """
    schema = changes.get("schema", checking.schema)
    named = isinstance(schema, dict) and isinstance(schema.get("$schema"), str)
    cls = _class_for(dialect_of(schema)) if named else type(checking)
    for field in cls.__attrs_attrs__:
        if field.init:
            changes.setdefault(field.alias, getattr(checking, field.name))
    return cls(**changes)


def _is_number(_: Any, value: Json) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_integer(checker: Any, value: Json) -> bool:
    return _is_number(checker, value) and is_whole(value)


def _or_older(now: Any, older: Any, kind: type) -> Any:
    def choose(checking: Any, value: Json, instance: Json, schema: Json) -> Any:
        return (older if isinstance(value, kind) else now)(checking, value, instance, schema)

    return choose


def _older_bound(base: Any, older: Any, bound: str, exclusive: str) -> Any:
    """Return the check of a bound beside which draft 4's boolean may stand."""

    def choose(checking: Any, value: Json, instance: Json, schema: Json) -> Any:
        from_older = isinstance(schema.get(exclusive), bool)
        check = older[bound] if from_older else base.VALIDATORS[bound]
        return check(checking, value, instance, schema)

    return choose


def _nothing(*_: Any) -> tuple[()]:
    return ()


def _nullable_type(checking: Any, _: Json, instance: Json, schema: Json) -> Iterator[Any]:
    types = today(schema, dialect_of({}))["type"]
    yield from Draft202012Validator.VALIDATORS["type"](checking, types, instance, schema)


def _multiple_of(checking: Any, unit: Json, instance: Json, _: Json) -> Iterator[ValidationError]:
    if checking.is_type(instance, "number") and not is_multiple(decimal(instance), decimal(unit)):
        yield ValidationError(f"{instance} is not a multiple of {unit}")


def _pattern(checking: Any, source: str, instance: Json, _: Json) -> Iterator[ValidationError]:
    if checking.is_type(instance, "string") and not search(source)(instance):
        yield ValidationError(f"{instance!r} does not match {source!r}")


def _pattern_properties(
    checking: Any, patterns: dict[str, Json], instance: Json, _: Json
) -> Iterator[Any]:
    if not checking.is_type(instance, "object"):
        return
    for source, schema in patterns.items():
        for key, value in instance.items():
            if search(source)(key):
                yield from checking.descend(value, schema, path=key, schema_path=source)


def _additional(checking: Any, rest: Json, instance: Json, schema: Json) -> Iterator[Any]:
    if not checking.is_type(instance, "object"):
        return
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key, value in instance.items():
        if key in declared or any(search(source)(key) for source in patterns):
            continue
        if rest is False:
            yield ValidationError(f"additional property {key!r} is not allowed")
        elif rest is not True:
            yield from checking.descend(value, rest, path=key)


def _additional_items(checking: Any, rest: Json, instance: Json, schema: Json) -> Iterator[Any]:
    """Check what follows the items that have their own schemas; the library fails on booleans."""
    items = schema.get("items")
    if not checking.is_type(instance, "array") or not isinstance(items, list):
        return
    for at in range(len(items), len(instance)):
        yield from checking.descend(instance[at], rest, path=at)


def _unique_items(
    checking: Any, unique: Json, instance: Json, _: Json
) -> Iterator[ValidationError]:
    if unique is True and checking.is_type(instance, "array"):
        keys = [freeze(item) for item in instance]
        if len(set(keys)) < len(keys):
            yield ValidationError("an item comes twice")


def _const(_: Any, value: Json, instance: Json, __: Json) -> Iterator[ValidationError]:
    if freeze(value) != freeze(instance):
        yield ValidationError(f"{instance!r} is not {value!r}")


def _enum(_: Any, values: list[Json], instance: Json, __: Json) -> Iterator[ValidationError]:
    if freeze(instance) not in {freeze(value) for value in values}:
        yield ValidationError(f"{instance!r} is none of {values!r}")
