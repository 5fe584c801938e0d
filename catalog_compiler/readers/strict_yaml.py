"""YAML as a way to write JSON: the core schema of YAML 1.2, in bounded depth, size and time.

Owns turning parse events into JSON values. The events come from the library's parser; nothing is
composed or constructed by it, so no tag can run code, no alias can multiply past the bound, and
`no` and `on` are words. Never knows what a tool is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from catalog_compiler import findings, pointers
from catalog_compiler.readers.strict_json import MAX_INTEGER_DIGITS, sound_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_compiler.model import Diagnostic, Json

MAX_NODES = 2_000_000
"""Values that a document may expand to; aliases that multiply past it are refused."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_REAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(
    _TAG + kind for kind in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")
)
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class _Built:
    """A value, with what its expansion costs."""

    value: Json
    nodes: int
    depth: int


def parse(text: str, source: str, max_depth: int) -> tuple[Json, list[Diagnostic]]:
    """Parse one YAML document into JSON values.

    Raises:
        yaml.YAMLError: not YAML, a tag or key that JSON can't have, or too large when expanded.

    """
    try:
        return _Builder(text, source, max_depth).document()
    except (ValueError, OverflowError, RecursionError) as error:
        # The library's scanner lets some of Python's own errors through ("\\UFFFFFFFF", say).
        raise yaml.YAMLError(str(error)) from error


class _Builder:
    def __init__(self, text: str, source: str, max_depth: int) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=_PARSER))
        self._source = source
        self._max_depth = max_depth
        self._anchors: dict[str, _Built] = {}
        self._found: list[Diagnostic] = []

    def document(self) -> tuple[Json, list[Diagnostic]]:
        """Build the first document; a second one is refused."""
        value: Json = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _error(event, "a second document begins; give one file each")
                value = self._build(next(self._events), "", 1).value
        return value, self._found

    def _build(self, event: Any, at: str, depth: int) -> _Built:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, at, depth)
        tag = event.tag
        if tag is not None and tag != "!" and tag not in _PLAIN_TAGS:
            raise _error(event, f"the tag {tag} has no meaning in JSON")
        if isinstance(event, yaml.ScalarEvent):
            built = _Built(self._scalar(event, at), 1, 0)
        elif depth > self._max_depth:
            self._skip()
            self._report(findings.TOO_DEEP, at, "the value is nested too deeply")
            built = _Built(None, 1, 0)
        elif isinstance(event, yaml.SequenceStartEvent):
            built = self._sequence(at, depth)
        else:
            built = self._mapping(at, depth)
        if event.anchor:
            self._anchors[event.anchor] = built
        return built

    def _alias(self, event: Any, at: str, depth: int) -> _Built:
        built = self._anchors.get(event.anchor)
        if built is None:
            raise _error(event, f"the alias {event.anchor!r} has no anchor before it, or holds it")
        if depth - 1 + built.depth > self._max_depth:
            self._report(findings.TOO_DEEP, at, "the value is nested too deeply")
            return _Built(None, 1, 0)
        return built

    def _sequence(self, at: str, depth: int) -> _Built:
        items: list[Json] = []
        nodes, deepest = 1, 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            built = self._build(event, pointers.join(at, len(items)), depth + 1)
            items.append(built.value)
            nodes = self._counted(event, nodes + built.nodes)
            deepest = max(deepest, built.depth)
        return _Built(items, nodes, deepest + 1)

    def _mapping(self, at: str, depth: int) -> _Built:
        own: dict[str, Json] = {}
        merged: dict[str, Json] = {}
        nodes, deepest = 1, 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, merges = self._key(event)
            line = event.start_mark.line + 1
            place = pointers.join(at, key)
            built = self._build(next(self._events), place, depth + 1)
            nodes = self._counted(event, nodes + built.nodes)
            deepest = max(deepest, built.depth)
            if merges:
                parts = built.value if isinstance(built.value, list) else [built.value]
                for part in parts:
                    if not isinstance(part, dict):
                        raise _error(event, "<< takes a mapping or a list of mappings")
                    merged = {**part, **merged}
                continue
            if key in own:
                self._report(
                    findings.DUPLICATE_KEY, place, f"line {line}: the key {key!r} is given twice"
                )
            own[key] = built.value
        return _Built({**merged, **own}, nodes, deepest + 1)

    def _key(self, event: Any) -> tuple[str, bool]:
        """Return a key as it is written, and whether it merges another mapping."""
        if isinstance(event, yaml.AliasEvent):
            built = self._anchors.get(event.anchor or "")
            if built is not None and isinstance(built.value, str):
                return built.value, False
        if not isinstance(event, yaml.ScalarEvent):
            raise _error(event, "a key is no text")
        return sound_text(event.value), event.implicit[0] and event.value == "<<"

    def _scalar(self, event: Any, at: str) -> Json:
        text, tag = event.value, event.tag
        sound = sound_text(text)
        if sound != text:
            self._report(findings.LONE_SURROGATE, at, "text holds half of a surrogate pair")
        kind = tag.removeprefix(_TAG) if tag and tag != "!" else ""
        if kind in ("str", "timestamp") or (not kind and not event.implicit[0]):
            return sound
        value = self._plain(sound, at)
        wanted = {"int": int, "float": float | int, "bool": bool, "null": type(None)}.get(kind)
        if wanted is not None and not isinstance(value, wanted):
            raise _error(event, f"{text[:40]!r} is no {kind}")
        return value

    def _plain(self, text: str, at: str) -> Json:
        """Resolve a plain scalar by the core schema of YAML 1.2."""
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _BASED.fullmatch(text) and len(text) <= MAX_INTEGER_DIGITS:
            return int(text, 0)
        if _INTEGER.fullmatch(text) and len(text) <= MAX_INTEGER_DIGITS:
            return int(text)
        if _REAL.fullmatch(text) or _NO_REAL.fullmatch(text):
            number = float(text) if _REAL.fullmatch(text) else math.nan
            if math.isfinite(number) and not _INTEGER.fullmatch(text):
                return number
            self._report(findings.NOT_A_NUMBER, at, f"{text[:40]} is no JSON number")
            return None
        return text

    def _skip(self) -> None:
        """Pass over the rest of a container whose start has been read."""
        level = 1
        while level:
            event = next(self._events)
            if isinstance(event, yaml.CollectionStartEvent):
                level += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                level -= 1

    def _counted(self, event: Any, nodes: int) -> int:
        if nodes > MAX_NODES:
            raise _error(event, f"the document expands to over {MAX_NODES} values")
        return nodes

    def _report(self, finding: findings.Finding, at: str, message: str) -> None:
        self._found.append(finding.at(self._source, at, message))


def _error(event: Any, message: str) -> yaml.YAMLError:
    return yaml.YAMLError(f"line {event.start_mark.line + 1}: {message}")
