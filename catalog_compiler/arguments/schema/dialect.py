"""Which keywords a schema's dialect has, and what each is called today.

Owns the differences between drafts and OpenAPI 3.0. Never looks into a subschema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.schema.result import RefusedError

if TYPE_CHECKING:
    from catalog_compiler.arguments.values import Json


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect.

    Attributes:
        year: 4, 6 and 7 for the drafts of these numbers, 2019 and 2020 for those named by years.
        lenient: no dialect was named: today's keywords, and the older and OpenAPI spellings too.

    """

    year: int
    lenient: bool = False

    @property
    def id_keyword(self) -> str:
        """Return the keyword that names a schema."""
        return "id" if self.year == 4 else "$id"

    @property
    def ref_stands_alone(self) -> bool:
        """Tell whether what stands beside a `$ref` is ignored."""
        return self.year <= 7


LENIENT: Final = Dialect(2020, lenient=True)
OWN: Final = Dialect(2020)
"""What schemas are written in that stand for a keyword, whatever dialect the keyword is of."""
_BY_URI: Final = {
    "json-schema.org/draft-04/schema": Dialect(4),
    "json-schema.org/draft-06/schema": Dialect(6),
    "json-schema.org/draft-07/schema": Dialect(7),
    "json-schema.org/draft/2019-09/schema": Dialect(2019),
    "json-schema.org/draft/2020-12/schema": Dialect(2020),
    # OpenAPI 3.1 is draft 2020-12; what 3.0 had besides does no harm.
    "spec.openapis.org/oas/3.1/dialect/base": LENIENT,
    # Undated names: what was current when they were last in use.
    "json-schema.org/schema": LENIENT,
    "json-schema.org/draft/schema": LENIENT,
}

_EVER: Final = (
    *("type", "enum", "minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern"),
    *("format", "minItems", "maxItems", "uniqueItems", "required", "minProperties"),
    *("maxProperties", "properties", "patternProperties", "additionalProperties"),
    *("allOf", "anyOf", "oneOf", "not"),
)
_SINCE: Final = {
    6: ("const", "contains", "propertyNames"),
    7: ("if", "then", "else"),
    2019: (
        *("dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
        *("minContains", "maxContains"),
    ),
}

_KNOWN: Final = (
    *_EVER, *(name for names in _SINCE.values() for name in names), "prefixItems", "dependencies",
)  # fmt: skip
_SUCCESSORS: Final = {
    "dependencies": ("dependentRequired", "dependentSchemas"),
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
}


def dialect_of(schema: Json, pointer: str = "") -> Dialect:
    """Return the dialect that `$schema` names. Raises RefusedError where it isn't known."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if named is None:
        return LENIENT
    uri = named.removesuffix("#").split("://")[-1] if isinstance(named, str) else ""
    if uri not in _BY_URI:
        raise RefusedError(
            "dialect-unknown", f"{pointer}/$schema", f"the dialect {named!r} is not known",
            "name draft 2020-12, or leave $schema out",
        )  # fmt: skip
    return _BY_URI[uri]


def today(schema: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    """Return the schema's constraining keywords as draft 2020-12 calls them.

    Subschemas stay as they are. `$ref` is among the keywords, `$dynamicRef` and `$recursiveRef`
    too.
    """
    year = dialect.year
    if "$ref" in schema and dialect.ref_stands_alone and isinstance(schema["$ref"], str):
        return {"$ref": schema["$ref"]}
    out: dict[str, Json] = {name: schema[name] for name in _EVER if name in schema}
    for since, names in _SINCE.items():
        if year >= since:
            out.update((name, schema[name]) for name in names if name in schema)
    if "$ref" in schema:
        out["$ref"] = schema["$ref"]
    if year == 2020 and "$dynamicRef" in schema:
        out["$dynamicRef"] = schema["$dynamicRef"]
    if year == 2019 and "$recursiveRef" in schema:
        out["$recursiveRef"] = schema["$recursiveRef"]
    _items(schema, dialect, out)
    _exclusive(schema, dialect, out)
    if (year <= 7 or dialect.lenient) and isinstance(schema.get("dependencies"), dict):
        _dependencies(schema["dependencies"], out)
    if dialect.lenient:
        _nullable(schema, out)
    return out


def ignored(
    schema: dict[str, Json], dialect: Dialect, keywords: dict[str, Json]
) -> tuple[str, ...]:
    """Return what constrains in other dialects, and what this one passes over."""
    names = [
        name
        for name in _KNOWN
        if name in schema and not keywords.keys() & {name, *_SUCCESSORS.get(name, ())}
    ]
    if schema.get("nullable") is True and not dialect.lenient:
        names.append("nullable")
    return tuple(names)


def _items(schema: dict[str, Json], dialect: Dialect, out: dict[str, Json]) -> None:
    """Bring `items`, `prefixItems` and `additionalItems` to today's terms."""
    if dialect.year == 2020 and "prefixItems" in schema:
        out["prefixItems"] = schema["prefixItems"]
    if "items" not in schema:
        return
    by_position = isinstance(schema["items"], list)
    if not by_position or (dialect.year == 2020 and not dialect.lenient):
        out["items"] = schema["items"]
        return
    names = ("items", "additionalItems")
    older: dict[str, Json] = {name: schema[name] for name in names if name in schema}
    if "prefixItems" in out:  # the spellings of two drafts: both hold
        _also(older, out)
        return
    out["prefixItems"] = older["items"]
    if "additionalItems" in older:
        out["items"] = older["additionalItems"]


def _exclusive(schema: dict[str, Json], dialect: Dialect, out: dict[str, Json]) -> None:
    """Bring boolean exclusive bounds to today's terms."""
    pairs = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
    for exclusive, bound in pairs:
        value = schema.get(exclusive)
        if isinstance(value, bool):
            if value and bound in out and (dialect.year == 4 or dialect.lenient):
                out[exclusive] = out.pop(bound)
            if dialect.year == 4 or dialect.lenient:
                continue
        if exclusive in schema and dialect.year > 4:
            out[exclusive] = value


def _dependencies(dependencies: dict[str, Json], out: dict[str, Json]) -> None:
    """Split `dependencies` into what it is called today."""
    names = {key: each for key, each in dependencies.items() if isinstance(each, list)}
    schemas = {key: each for key, each in dependencies.items() if not isinstance(each, list)}
    for keyword, older in (("dependentRequired", names), ("dependentSchemas", schemas)):
        if older and keyword in out:  # the spellings of two drafts: both hold
            _also({"dependencies": older}, out)
        elif older:
            out[keyword] = older


def _also(schema: dict[str, Json], out: dict[str, Json]) -> None:
    """Let a schema of the same dialect hold too."""
    others = out.get("allOf", [])
    # What is no list is refused where it is read.
    out["allOf"] = [*others, schema] if isinstance(others, list) else others


def _nullable(schema: dict[str, Json], out: dict[str, Json]) -> None:
    """Add null to the types where OpenAPI's `nullable` says so; without a type it says nothing."""
    kind = out.get("type")
    if schema.get("nullable") is True and kind is not None:
        out["type"] = [*(kind if isinstance(kind, list) else [kind]), "null"]
