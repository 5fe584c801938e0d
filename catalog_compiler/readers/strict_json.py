"""JSON as RFC 8259 has it, with every departure named and nothing else lost.

Owns parsing in bounded depth and the diagnosis of duplicate keys, NaN, numbers out of range, lone
surrogates and over-deep values. Never knows what a tool is.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from typing import TYPE_CHECKING, Any

from catalog_compiler import findings, pointers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_compiler.model import Diagnostic, Json

MAX_FINDINGS = 200
"""Departures reported from one document; a count stands for the rest."""

MAX_INTEGER_DIGITS = 400
"""Digits of an integer past which no JSON reader keeps it whole."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
# Stands in for an over-deep value. Drawn anew in each process, so that no document can spell it.
_DEEP = f"\0deep {secrets.token_hex(16)}"


class _Marker:
    """A value that JSON does not have, until the walk replaces it with null."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Doubled(dict[str, Any]):
    """An object that had a key more than once."""

    doubled: tuple[str, ...] = ()


def parse(text: str, source: str, max_depth: int) -> tuple[Json, list[Diagnostic]]:
    """Parse a document.

    Args:
        text: the whole document.
        source: how diagnostics name it.
        max_depth: a container nested deeper is replaced by null, and said so.

    Raises:
        json.JSONDecodeError: it is not JSON.

    """
    text, was_cut = _cut_deep(text, max_depth)
    departures = was_cut

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal departures
        plain = dict(items)
        if len(plain) == len(items):
            return plain
        departures = True
        seen: set[str] = set()
        doubled = _Doubled(plain)
        doubled.doubled = tuple(k for k, _ in items if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        return doubled

    def constant(name: str) -> _Marker:
        nonlocal departures
        departures = True
        return _Marker(name)

    def real(digits: str) -> float | _Marker:
        value = float(digits)
        return constant(digits[:40]) if math.isinf(value) else value

    def integer(digits: str) -> int | _Marker:
        return constant(f"{digits[:20]}...") if len(digits) > MAX_INTEGER_DIGITS else int(digits)

    value = json.loads(
        text, object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=integer
    )
    if not departures and not _SURROGATE_ESCAPE.search(text):
        return value, []
    found: list[Diagnostic] = []
    cleaned = _clean(value, source, found)
    if len(found) > MAX_FINDINGS:
        more = len(found) - MAX_FINDINGS
        last = found[MAX_FINDINGS]
        found = [
            *found[:MAX_FINDINGS],
            findings.REGISTRY[last.code].at(source, "", f"and {more} more departures from JSON"),
        ]
    return cleaned, found


def _cut_deep(text: str, max_depth: int) -> tuple[str, bool]:
    """Replace every container deeper than `max_depth` by a stand-in, in one scan."""
    if text.count("[") + text.count("{") <= max_depth:
        return text, False
    pieces: list[str] = []
    depth = kept = start = 0
    for match in _TOKEN.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
            if depth == max_depth + 1:
                start = match.start()
        elif mark in "]}":
            if depth == max_depth + 1:
                pieces += [text[kept:start], json.dumps(_DEEP)]
                kept = match.end()
            depth -= 1
    if depth > max_depth:  # the document ends inside an over-deep value
        pieces += [text[kept:start], json.dumps(_DEEP)]
        kept = len(text)
    return ("".join([*pieces, text[kept:]]), True) if pieces else (text, False)


def _clean(value: Json, source: str, found: list[Diagnostic]) -> Json:
    """Replace what JSON does not have, noting each place. Depth is bounded by the parse."""

    def walk(node: Json, at: str) -> Json:
        if isinstance(node, dict):
            for key in getattr(node, "doubled", ()):
                place = pointers.join(at, sound_text(key))
                found.append(
                    findings.DUPLICATE_KEY.at(
                        source, place, f"the key {sound_text(key)!r} is given twice"
                    )
                )
            return {
                text(key, at): walk(child, pointers.join(at, sound_text(key)))
                for key, child in node.items()
            }
        if isinstance(node, list):
            return [walk(child, pointers.join(at, i)) for i, child in enumerate(node)]
        if isinstance(node, _Marker):
            found.append(findings.NOT_A_NUMBER.at(source, at, f"{node.text} is no JSON number"))
            return None
        if node == _DEEP:
            found.append(findings.TOO_DEEP.at(source, at, "the value is nested too deeply"))
            return None
        return text(node, at) if isinstance(node, str) else node

    def text(string: str, at: str) -> str:
        sound = sound_text(string)
        if sound != string:
            found.append(
                findings.LONE_SURROGATE.at(source, at, "text holds half of a surrogate pair")
            )
        return sound

    return walk(value, "")


def sound_text(text: str) -> str:
    """Return text that UTF-8 can carry: lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line) of the lines that are not blank."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line
