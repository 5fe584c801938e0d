"""OpenAPI 3.0 and 3.1: each operation is a tool.

Owns how parameters and body become one input schema. `$ref` into the document is resolved: what
refers to itself is kept as `$ref` into the tool's own `$defs`. Never fetches another document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catalog_compiler import findings, pointers
from catalog_compiler.readers.raw import RawTool, Reading
from catalog_compiler.readers.tool_list import name_problem

if TYPE_CHECKING:
    from catalog_compiler.limits import Limits
    from catalog_compiler.model import Json

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_TOOL_VALUES = 20_000
MAX_DOCUMENT_VALUES = 1_000_000
"""Values that one tool's schema, and all of a document's together, may grow to by inlining."""

MAX_TRAIL = 16
MAX_DEPTH = 64

_NOT_WORD = re.compile(r"[^A-Za-z0-9]+")


def read_openapi(document: dict[str, Json], source: str, namespace: str, limits: Limits) -> Reading:
    """Read every operation of a document whose `openapi` is 3.x.

    Args:
        document: the parsed document.
        source: how findings name it.
        namespace: of the tools; by default the API's title.
        limits: bounds.

    """
    reading = Reading()
    info = document.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    space = namespace or (_slug(title) if isinstance(title, str) else "")
    paths = document.get("paths")
    if not isinstance(paths, dict):
        reading.diagnostics.append(
            findings.SOURCE_UNREADABLE.at(source, "/paths", "the document has no paths")
        )
        return reading
    budget = _Budget()
    for path, item in paths.items():
        at = pointers.join("", "paths", path)
        resolved = _Resolver(document, source, reading, budget).once(item, at)
        if not isinstance(resolved, dict):
            reading.diagnostics.append(
                findings.NOT_A_TOOL.at(source, at, "the path item is no object")
            )
            continue
        for method in METHODS:
            if method not in resolved:
                continue
            if len(reading.tools) >= limits.tools:
                reading.diagnostics.append(
                    findings.TOO_MANY_TOOLS.at(source, at, f"only {limits.tools} were read")
                )
                return reading
            place = pointers.join(at, method)
            _read_operation(
                _Operation(document, source, reading, path, method, place, space, limits, budget),
                resolved,
                resolved[method],
            )
    return reading


@dataclass(slots=True)
class _Budget:
    """Values that the schemas of one document may still take."""

    left: int = MAX_DOCUMENT_VALUES


@dataclass(frozen=True, slots=True)
class _Operation:
    document: dict[str, Json]
    source: str
    reading: Reading
    path: str
    method: str
    place: str
    namespace: str
    limits: Limits
    budget: _Budget


def _read_operation(at: _Operation, item: dict[str, Json], operation: Json) -> None:
    if not isinstance(operation, dict):
        at.reading.diagnostics.append(
            findings.NOT_A_TOOL.at(at.source, at.place, "the operation is no object")
        )
        return
    name = operation.get("operationId")
    problem = name_problem(name, at.limits)
    if problem or not isinstance(name, str):
        name = f"{at.method}_{_slug(at.path, '_')[:200] or 'root'}"
        given = "" if operation.get("operationId") is None else f" ({problem})"
        at.reading.diagnostics.append(
            findings.NO_OPERATION_ID.at(
                at.source,
                at.place,
                f"{at.method.upper()} {at.path[:200]} was named {name}{given}",
                tool=name,
            )
        )
    resolver = _Resolver(at.document, at.source, at.reading, at.budget, tool=name)
    schema = _arguments(at, item, operation, resolver, name)
    summary, description = (
        operation.get(k) if isinstance(operation.get(k), str) else ""
        for k in ("summary", "description")
    )
    tags = operation.get("tags")
    at.reading.tools.append(
        RawTool(
            name=name,
            namespace=at.namespace,
            description="\n".join(dict.fromkeys(t.strip() for t in (summary, description) if t)),
            schema=schema,
            source=at.source,
            pointer=at.place,
            title=summary or "",
            tags=tuple(t for t in tags if isinstance(t, str)) if isinstance(tags, list) else (),
        )
    )


def _arguments(
    at: _Operation,
    item: dict[str, Json],
    operation: dict[str, Json],
    resolver: _Resolver,
    name: str,
) -> dict[str, Json]:
    """Merge parameters and JSON body into one object schema; the operation's own come last."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    merged: dict[tuple[str, str], tuple[dict[str, Json], str]] = {}
    for base, owner in ((at.place.rsplit("/", 1)[0], item), (at.place, operation)):
        listed = owner.get("parameters")
        for index, entry in enumerate(listed if isinstance(listed, list) else []):
            place = pointers.join(base, "parameters", index)
            parameter = resolver.once(entry, place)
            if isinstance(parameter, dict) and isinstance(parameter.get("name"), str):
                merged[parameter["name"], str(parameter.get("in"))] = parameter, place
    for (key, where), (parameter, place) in merged.items():
        if where == "cookie":
            at.reading.diagnostics.append(
                findings.UNUSED_PART.at(at.source, place, f"cookie parameter {key!r}", tool=name)
            )
            continue
        label = _free_label(key, where, properties)
        properties[label] = _parameter_schema(parameter, place, resolver)
        if parameter.get("required") is True or where == "path":
            required.append(label)
    _add_body(at, operation, resolver, name, properties, required)
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if resolver.definitions:
        schema["$defs"] = dict(sorted(resolver.definitions.items()))
    return schema


def _free_label(key: str, where: str, taken: dict[str, Json]) -> str:
    """Return a property name that is not taken: the key, the key with its place, or numbered."""
    label, number = key, 2
    if label in taken:
        label = base = f"{where}_{key}"
        while label in taken:
            label, number = f"{base}_{number}", number + 1
    return label


def _parameter_schema(parameter: dict[str, Json], place: str, resolver: _Resolver) -> Json:
    raw = parameter.get("schema")
    if raw is None and isinstance(parameter.get("content"), dict):
        media = next(iter(parameter["content"].values()), None)
        raw = media.get("schema") if isinstance(media, dict) else None
    schema = resolver.schema(raw if raw is not None else {}, pointers.join(place, "schema"))
    description = parameter.get("description")
    if isinstance(schema, dict) and isinstance(description, str) and "description" not in schema:
        return {**schema, "description": description}
    return schema


def _add_body(
    at: _Operation,
    operation: dict[str, Json],
    resolver: _Resolver,
    name: str,
    properties: dict[str, Json],
    required: list[str],
) -> None:
    """Add the body's own properties beside the parameters, or the whole of it as `body`."""
    place = pointers.join(at.place, "requestBody")
    body = resolver.once(operation.get("requestBody"), place)
    if not isinstance(body, dict):
        return
    content = body.get("content")
    media = content if isinstance(content, dict) else {}
    kind = next((k for k in media if "json" in k), None) or next(
        (k for k in media if "form" in k), None
    )
    if kind is None or not isinstance(media[kind], dict):
        if media:
            at.reading.diagnostics.append(
                findings.UNUSED_PART.at(
                    at.source, place, f"the body is {', '.join(map(str, media))[:200]}", tool=name
                )
            )
        return
    where = pointers.join(place, "content", kind, "schema")
    schema = resolver.schema(media[kind].get("schema", {}), where)
    own = schema.get("properties") if isinstance(schema, dict) else None
    plain = isinstance(schema, dict) and not {"oneOf", "anyOf", "allOf", "$ref"} & set(schema)
    if plain and isinstance(own, dict) and not set(own) & set(properties):
        properties.update(own)
        listed = schema.get("required")
        if body.get("required") is True and isinstance(listed, list):
            required += [k for k in listed if isinstance(k, str) and k in own]
    else:
        label = _free_label("body", "request", properties)
        properties[label] = schema
        if body.get("required") is True:
            required.append(label)


@dataclass(slots=True)
class _Resolver:
    """Follows local references of one tool, inlining what does not refer to itself.

    What is referred to from within itself, or lies at the end of a long chain of references, goes
    under the tool's `$defs`; those are worked off from a list and never by recursion. A tool whose
    schema would outgrow its bound, or a document whose schemas together would, is told so, and the
    rest is left open (`{}`).
    """

    document: dict[str, Json]
    source: str
    reading: Reading
    budget: _Budget
    tool: str = ""
    definitions: dict[str, Json] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _waiting: list[tuple[str, str, Json]] = field(default_factory=list)
    _spent: int = 0
    _is_full: bool = False

    def once(self, value: Json, place: str) -> Json:
        """Follow references at the top of a value (a parameter, a path item), not below it."""
        seen: set[str] = set()
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            target = value["$ref"]
            if target in seen:
                self._report(findings.REF_UNRESOLVED, place, f"{target!r} refers to itself alone")
                return None
            seen.add(target)
            value = self._find(target, place)
        return value

    def schema(self, value: Json, place: str) -> Json:
        """Return the schema with its references replaced by what they refer to."""
        result = self._inline(value, place, (), 1)
        while self._waiting:
            label, target, found = self._waiting.pop()
            self.definitions[label] = self._inline(found, target[1:], (target,), 1)
        return result

    def _inline(self, value: Json, place: str, trail: tuple[str, ...], depth: int) -> Json:
        if not isinstance(value, dict | list):
            return value
        if depth > MAX_DEPTH:
            self._report(findings.TOO_DEEP, place, "the schema is nested too deeply")
            return {}
        if not self._afford(len(value) + 1, place):
            return {} if isinstance(value, dict) else []
        if isinstance(value, list):
            return [
                self._inline(v, pointers.join(place, i), trail, depth + 1)
                for i, v in enumerate(value)
            ]
        target = value.get("$ref")
        if isinstance(target, str):
            return self._follow(target, value, place, trail, depth)
        return {
            k: self._inline(v, pointers.join(place, k), trail, depth + 1) for k, v in value.items()
        }

    def _afford(self, values: int, place: str) -> bool:
        """Count values of the schema; at the bound, say so once."""
        self._spent += values
        self.budget.left -= values
        if self._spent <= MAX_TOOL_VALUES and self.budget.left >= 0:
            return True
        if not self._is_full:
            self._is_full = True
            bound = MAX_TOOL_VALUES if self._spent > MAX_TOOL_VALUES else MAX_DOCUMENT_VALUES
            self._report(
                findings.SCHEMA_TOO_LARGE, place, f"the schema has over {bound} values; the rest "
                "is left open",
            )  # fmt: skip
        return False

    def _follow(
        self, target: str, value: dict[str, Json], place: str, trail: tuple[str, ...], depth: int
    ) -> Json:
        found = self._find(target, place)
        extra = {k: v for k, v in value.items() if k != "$ref"}
        if found is None:
            return extra
        if target in trail or target in self._labels or len(trail) >= MAX_TRAIL:
            return {**extra, "$ref": f"#/$defs/{self._define(target, found, place)}"}
        resolved = self._inline(found, target[1:], (*trail, target), depth + 1)
        return {**resolved, **extra} if isinstance(resolved, dict) else resolved

    def _define(self, target: str, found: Json, place: str) -> str:
        """Put a definition under the tool's `$defs`, once; it is worked out later."""
        if target in self._labels:
            return self._labels[target]
        label = base = _slug(target.rsplit("/", 1)[-1], "_") or "schema"
        number = 2
        while label in self.definitions:
            label, number = f"{base}_{number}", number + 1
        self._labels[target] = label
        self.definitions[label] = {}
        self._waiting.append((label, target, found))
        self._report(findings.REF_CYCLE, place, f"{target} refers to itself or is nested deeply")
        return label

    def _find(self, target: str, place: str) -> Any:
        if not target.startswith("#"):
            self._report(findings.REF_UNRESOLVED, place, f"{target!r} is outside the document")
            return None
        try:
            return pointers.follow(self.document, pointers.split(pointers.fragment(target)))
        except KeyError as error:
            self._report(findings.REF_UNRESOLVED, place, f"{target!r} leads nowhere at {error}")
            return None

    def _report(self, finding: findings.Finding, place: str, message: str) -> None:
        self.reading.diagnostics.append(
            finding.at(self.source, place, message[:400], tool=self.tool)
        )


def _slug(text: str, joiner: str = "-") -> str:
    return _NOT_WORD.sub(joiner, text).strip(joiner)
