"""A tool's input schema in short: what a prompt tells of a parameter, and what evidence asks.

Owns the lenient reading of a schema for these two ends: local references followed, alternatives
laid together. What may be written is the grammar's to say, never this module's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog_compiler import pointers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_compiler.model import Json

MAX_STEPS: Final = 64
"""Most references and alternatives that are followed for one parameter (recursive schemas)."""

_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One place of the arguments, as far as it is known.

    Attributes:
        key: its member's key; "" for the arguments themselves and for items.
        required: whether its object must have it.
        types: JSON types it may have, in the schema's order; empty where nothing is said.
        choices: values of enum and const.
        description: the schema's, or its title.
        text_format: the schema's "format", or "".
        defaults: the schema's default, or nothing.
        schemas: the schemas that were laid together, references followed.

    """

    key: str
    required: bool
    types: tuple[str, ...]
    choices: tuple[Json, ...]
    description: str
    text_format: str
    defaults: tuple[Json, ...]
    schemas: tuple[Mapping[str, Json], ...]


class Parameters:
    """Reads the parameters of one tool's schema.

    Args:
        schema: the tool's input schema.

    """

    def __init__(self, schema: Json) -> None:
        self._root = schema
        self.arguments = self._parameter("", schema, required=True)
        self.top = self.members(self.arguments)

    def members(self, parent: Parameter) -> tuple[Parameter, ...]:
        """Return the declared members of an object, in order."""
        found: dict[str, list[Json]] = {}
        required: set[str] = set()
        for schema in parent.schemas:
            properties = schema.get("properties")
            if isinstance(properties, dict):
                for key, member in properties.items():
                    found.setdefault(key, []).append(member)
            names = schema.get("required")
            if isinstance(names, list):
                required.update(name for name in names if isinstance(name, str))
        return tuple(
            self._parameter(key, *members, required=key in required)
            for key, members in found.items()
        )

    def items(self, parent: Parameter) -> Parameter:
        """Return what is known of an array's items."""
        found: list[Json] = []
        for schema in parent.schemas:
            for name in ("prefixItems", "items"):
                items = schema.get(name)
                found += items if isinstance(items, list) else [items]
        return self._parameter("", *found, required=False)

    def free(self, key: str) -> Parameter:
        """Return a member that its object does not declare."""
        return self._parameter(key, required=False)

    def _parameter(self, key: str, *schemas: Json, required: bool) -> Parameter:
        flat = tuple(self._flatten(schemas))
        types: dict[str, None] = {}
        choices: list[Json] = []
        defaults: list[Json] = []
        for schema in flat:
            named = schema.get("type")
            types.update(dict.fromkeys(t for t in _listed(named) if isinstance(t, str)))
            enum = schema.get("enum")
            choices += enum if isinstance(enum, list) else []
            choices += [schema["const"]] if "const" in schema else []
            defaults += [schema["default"]] if "default" in schema else []
        return Parameter(
            key=key,
            required=required,
            types=tuple(types),
            choices=tuple(choices),
            description=_first_text(flat, ("description", "title")),
            text_format=_first_text(flat, ("format",)),
            defaults=tuple(defaults),
            schemas=flat,
        )

    def _flatten(self, schemas: Iterable[Json]) -> list[Mapping[str, Json]]:
        """Lay schemas, what they refer to and their alternatives side by side."""
        flat: list[Mapping[str, Json]] = []
        waiting = list(schemas)
        for _ in range(MAX_STEPS):
            if not waiting:
                break
            schema = waiting.pop(0)
            if not isinstance(schema, dict):
                continue
            flat.append(schema)
            for name in _ALTERNATIVES:
                waiting += _listed(schema.get(name, []))
            if isinstance(schema.get("$ref"), str):
                waiting.append(self._target(schema["$ref"]))
        return flat

    def _target(self, reference: str) -> Json:
        """Return what a local pointer leads to; None where it is another kind of reference."""
        if not reference.startswith("#"):
            return None
        try:
            return pointers.follow(self._root, pointers.split(pointers.fragment(reference)))
        except KeyError:
            return None


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _first_text(schemas: Iterable[Mapping[str, Json]], names: tuple[str, ...]) -> str:
    for name in names:
        for schema in schemas:
            text = schema.get(name)
            if isinstance(text, str) and text.strip():
                return text
    return ""
