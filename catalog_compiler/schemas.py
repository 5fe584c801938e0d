"""Input schemas: bringing them into JSON Schema's own terms, and finding what is unsound in them.

Owns the translation of foreign dialects, the bounds on size, and the checks. Never refuses a tool:
routing needs no schema, so an unsound one is reported and kept, or left out where it is no schema.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_compiler import findings, pointers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_compiler.limits import Limits
    from catalog_compiler.model import Diagnostic, Json

TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
FOREIGN_TYPES: dict[str, str | None] = {
    "dict": "object", "hashmap": "object", "map": "object", "struct": "object",
    "float": "number", "double": "number", "decimal": "number",
    "int": "integer", "long": "integer", "short": "integer", "byte": "integer",
    "str": "string", "char": "string", "text": "string", "date": "string",
    "bool": "boolean", "tuple": "array", "list": "array", "arraylist": "array", "set": "array",
    "none": "null", "any": None, "mixed": None,
    # Other spellings of JSON Schema's own.
    **{name: name for name in TYPES},
}  # fmt: skip
"""Type names of other languages, in small letters; None means that any type is allowed."""

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    *("items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not"),
    *("if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
)
_NOT_ENFORCED = ("contentEncoding", "contentMediaType", "contentSchema", "$dynamicRef")
MAX_PATTERN_CHARS = 10_000
_PAIRS = (
    *(("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")),
    ("minProperties", "maxProperties"),
)


@dataclass(slots=True)
class Checked:
    """A schema in JSON Schema's terms, and what was found in it."""

    schema: Json
    diagnostics: list[Diagnostic] = field(default_factory=list)


def check_schema(raw: Json, source: str, pointer: str, tool: str, limits: Limits) -> Checked:
    """Translate and check one input schema.

    Args:
        raw: as read; None where the tool has none.
        source: how findings name the document.
        pointer: of the tool in it.
        tool: the tool's name.
        limits: bounds.

    """
    if raw is None:
        return Checked({})
    result = Checked(raw)

    def report(finding: findings.Finding, at: str, message: str) -> None:
        result.diagnostics.append(finding.at(source, pointer + at, message[:400], tool=tool))

    if not isinstance(raw, dict):
        report(findings.SCHEMA_NOT_OBJECT, "", "the input schema is no object")
        result.schema = {}
        return result
    size = len(json.dumps(raw, ensure_ascii=False))
    if size > limits.schema_bytes:
        report(
            findings.SCHEMA_TOO_LARGE, "",
            f"the input schema has {size} characters; at most {limits.schema_bytes} are kept",
        )  # fmt: skip
        result.schema = {}
        return result
    foreign: set[str] = set()
    result.schema = schema = _translate(raw, foreign)
    if foreign:
        report(findings.FOREIGN_TYPE, "", f"translated: {', '.join(sorted(foreign))}")
    kind = schema.get("type", "object")
    composed = any(key in schema for key in ("anyOf", "oneOf", "allOf", "$ref"))
    if kind != "object" and not (isinstance(kind, list) and "object" in kind) and not composed:
        report(findings.SCHEMA_NOT_OBJECT, "/type", f"the input schema's type is {kind!r}")
    anchors = {str(node["$anchor"]) for _, node in _subschemas(schema) if "$anchor" in node}
    for visited, (at, node) in enumerate(_subschemas(schema)):
        if visited >= limits.schema_nodes:
            report(
                findings.SCHEMA_TOO_LARGE, at,
                f"only the first {limits.schema_nodes} parts of the schema were checked",
            )  # fmt: skip
            break
        for finding, below, message in _problems(node, schema, anchors):
            report(finding, at + below, message)
    if _is_recursive(schema):
        report(findings.REF_CYCLE, "", "a $ref leads back to where it stands")
    return result


def _translate(node: Json, foreign: set[str]) -> Json:
    """Return the schema with foreign type names replaced; only schema positions are touched."""
    if not isinstance(node, dict):
        return node
    out = dict(node)
    kind = node.get("type")
    if isinstance(kind, str) and kind not in TYPES and kind.lower() in FOREIGN_TYPES:
        foreign.add(kind)
        translated = FOREIGN_TYPES[kind.lower()]
        if translated is None:
            del out["type"]
        else:
            out["type"] = translated
    _translate_openapi_3_0(out, foreign)
    for key in _MAPS:
        if isinstance(node.get(key), dict):
            out[key] = {name: _translate(child, foreign) for name, child in node[key].items()}
    for key in _LISTS:
        if isinstance(node.get(key), list):
            out[key] = [_translate(child, foreign) for child in node[key]]
    for key in _SINGLE:
        if isinstance(node.get(key), dict):
            out[key] = _translate(node[key], foreign)
        elif isinstance(node.get(key), list):
            out[key] = [_translate(child, foreign) for child in node[key]]
    return out


def _translate_openapi_3_0(out: dict[str, Json], foreign: set[str]) -> None:
    """Bring `nullable` and boolean exclusive bounds into the terms of draft 2020-12, in place."""
    if out.get("nullable") is True and isinstance(out.get("type"), str):
        foreign.add("nullable")
        out["type"] = [out["type"], "null"]
        del out["nullable"]
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(out.get(exclusive), bool):
            foreign.add(f"boolean {exclusive}")
            if out.pop(exclusive) and bound in out:
                out[exclusive] = out.pop(bound)


def _subschemas(schema: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield (pointer, schema) of the schema and all below it, outermost first."""
    level: list[tuple[str, Json]] = [("", schema)]
    while level:
        below: list[tuple[str, Json]] = []
        for at, node in level:
            if not isinstance(node, dict):
                continue
            yield at, node
            for key in _MAPS:
                children = node.get(key)
                if isinstance(children, dict):
                    below += [(pointers.join(at, key, n), c) for n, c in children.items()]
            for key in (*_LISTS, *_SINGLE):
                child = node.get(key)
                if isinstance(child, list):
                    below += [(pointers.join(at, key, i), c) for i, c in enumerate(child)]
                elif isinstance(child, dict):
                    below.append((pointers.join(at, key), child))
        level = below


def _problems(
    node: dict[str, Json], root: Json, anchors: set[str]
) -> Iterator[tuple[findings.Finding, str, str]]:
    """Yield what is unsound in one schema object, without its children."""
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [] if kind is None else [kind]
    for one in kinds:
        if not isinstance(one, str) or one not in TYPES:
            yield findings.SCHEMA_INVALID, "/type", f"the type {one!r} is none of JSON Schema's"
    properties = node.get("properties")
    if properties is not None and not isinstance(properties, dict):
        yield findings.SCHEMA_INVALID, "/properties", "properties is no object"
        properties = None
    yield from _required_problems(node, properties)
    enum = node.get("enum")
    if enum is not None and (not isinstance(enum, list) or not enum):
        yield findings.SCHEMA_INVALID, "/enum", "enum is empty or no list: nothing satisfies it"
    for low, high in _PAIRS:
        least, most = node.get(low), node.get(high)
        if _numbers(least, most) and least > most:  # type: ignore[operator]
            yield findings.SCHEMA_INVALID, f"/{low}", f"{low} {least} is over {high} {most}"
    pattern = node.get("pattern")
    if pattern is not None and not _is_pattern(pattern):
        yield (
            findings.SCHEMA_INVALID,
            "/pattern",
            f"{str(pattern)[:120]!r} is no regular expression",
        )
    target = node.get("$ref")
    if target is not None:
        problem = _ref_problem(target, root, anchors)
        if problem:
            yield findings.REF_UNRESOLVED, "/$ref", problem
    for key in _NOT_ENFORCED:
        if key in node:
            yield findings.UNSUPPORTED_KEYWORD, f"/{key}", f"{key} is kept and not enforced"


def _required_problems(
    node: dict[str, Json], properties: Json
) -> Iterator[tuple[findings.Finding, str, str]]:
    required = node.get("required")
    if required is None or isinstance(required, bool):
        # Draft 3 wrote a boolean beside each property; it says nothing about this object.
        return
    if not isinstance(required, list) or not all(isinstance(r, str) for r in required):
        yield findings.SCHEMA_INVALID, "/required", "required is no list of names"
        return
    if isinstance(properties, dict):
        for index, name in enumerate(required):
            if name not in properties:
                yield (
                    findings.SCHEMA_INVALID,
                    f"/required/{index}",
                    f"{name!r} is required and not among the properties",
                )


def _ref_problem(target: Json, root: Json, anchors: set[str]) -> str:
    if not isinstance(target, str):
        return "$ref is no text"
    if not target.startswith("#"):
        return f"{target[:120]!r} is outside the schema"
    if target == "#":
        return ""
    if not target.startswith("#/"):
        return "" if target[1:] in anchors else f"{target[:120]!r} leads nowhere"
    try:
        pointers.follow(root, pointers.split(pointers.fragment(target)))
    except KeyError:
        return f"{target[:120]!r} leads nowhere"
    return ""


def _is_recursive(schema: Json) -> bool:
    """Tell whether following references can lead back to where one stands."""
    edges: dict[str, set[str]]
    spans = [(at, node["$ref"]) for at, node in _subschemas(schema)
             if isinstance(node.get("$ref"), str) and node["$ref"].startswith("#")]  # fmt: skip
    if not spans:
        return False
    targets = {pointers.fragment(ref) for _, ref in spans}
    edges = {target: set() for target in targets}
    for at, ref in spans:  # every target that encloses the reference leads to what it refers to
        end = len(at)
        while end >= 0:
            if at[:end] in targets:
                edges[at[:end]].add(pointers.fragment(ref))
            end = at.rfind("/", 0, end) if end else -1
    state: dict[str, int] = {}
    for start in sorted(targets):
        stack = [(start, iter(sorted(edges[start])))]
        if state.get(start):
            continue
        state[start] = 1
        while stack:
            at, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[at] = 2
                stack.pop()
            elif state.get(following) == 1:
                return True
            elif not state.get(following):
                state[following] = 1
                stack.append((following, iter(sorted(edges.get(following, ())))))
    return False


def _numbers(*values: Json) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _is_pattern(pattern: Json) -> bool:
    """Tell whether a pattern compiles; ECMA-262 spellings that Python lacks are let through."""
    if not isinstance(pattern, str):
        return False
    adapted = re.sub(r"\\[pP]\{[^}]*\}", "x", pattern).replace("(?<", "(?P<")
    adapted = adapted.replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    adapted = re.sub(r"\\u\{?([0-9a-fA-F]{4,6})\}?", "x", adapted).replace(r"\/", "/")
    adapted = re.sub(r"\\c[A-Za-z]", "x", adapted).replace(r"\d", "0").replace(r"\Z", "Z")
    if len(pattern) > MAX_PATTERN_CHARS:
        return True  # too long to try; kept as it is
    try:
        with warnings.catch_warnings():  # sets within sets are a warning to Python and no error
            warnings.simplefilter("ignore")
            re.compile(adapted)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
