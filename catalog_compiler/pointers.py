"""JSON pointers (RFC 6901): making them and following them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_compiler.model import Json

MAX_INDEX_DIGITS = 9


def escape(part: str | int) -> str:
    """Return one reference token, escaped."""
    return str(part).replace("~", "~0").replace("/", "~1")


def join(base: str, *parts: str | int) -> str:
    """Return the pointer to a place below `base`."""
    return base + "".join(f"/{escape(part)}" for part in parts)


def split(pointer: str) -> list[str]:
    """Return the unescaped reference tokens of a pointer ("" has none)."""
    return [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]


def is_index(part: str) -> bool:
    """Tell whether a reference token is an array index: ASCII digits, few enough to be one."""
    return part.isascii() and part.isdigit() and len(part) <= MAX_INDEX_DIGITS


def fragment(reference: str) -> str:
    """Return the pointer that a `$ref` of the form `#...` holds, percent-decoded."""
    return unquote(reference[1:])


def follow(document: Json, parts: Iterable[str]) -> Json:
    """Return the value at the place. Raises KeyError where there is none."""
    at = document
    for part in parts:
        if isinstance(at, dict) and part in at:
            at = at[part]
        elif isinstance(at, list) and is_index(part) and int(part) < len(at):
            at = at[int(part)]
        else:
            raise KeyError(part)
    return at
