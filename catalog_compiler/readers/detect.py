"""Which format a document has, and the lists of tools inside it.

Owns recognition. A document is unwrapped (a JSON-RPC answer, a map of servers) until a list of
tools or an OpenAPI document is found; what is neither is one finding that says what was expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler import findings, pointers
from catalog_compiler.readers.openapi import read_openapi
from catalog_compiler.readers.raw import Reading
from catalog_compiler.readers.tool_list import looks_like_tool, read_entries

if TYPE_CHECKING:
    from catalog_compiler.limits import Limits
    from catalog_compiler.model import Json

_LIST_KEYS = ("tools", "functions")


def read_document(value: Json, source: str, form: str, limits: Limits) -> Reading:
    """Read a parsed document in the given format, or the one it is recognised as."""
    if form == "openapi" or (form == "auto" and _is_openapi(value)):
        return _read_openapi(value, source, limits)
    return _read_lists(value, source, "", "", form, limits)


def _is_openapi(value: Json) -> bool:
    return isinstance(value, dict) and ("openapi" in value or "swagger" in value)


def _read_openapi(value: Json, source: str, limits: Limits) -> Reading:
    version = value.get("openapi") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not str(version).startswith("3."):
        return Reading(
            diagnostics=[
                findings.SOURCE_UNREADABLE.at(
                    source, "", f"openapi is {version!r}; versions 3.0 and 3.1 are read"
                )
            ]
        )
    return read_openapi(value, source, "", limits)


def _read_lists(
    value: Json, source: str, at: str, namespace: str, form: str, limits: Limits
) -> Reading:
    if isinstance(value, list):
        return read_entries(value, source, at, namespace, form, limits)
    if isinstance(value, dict):
        if "jsonrpc" in value and isinstance(value.get("result"), dict):
            place = pointers.join(at, "result")
            return _read_lists(value["result"], source, place, namespace, form, limits)
        for key in _LIST_KEYS:
            if isinstance(value.get(key), list):
                place = pointers.join(at, key)
                return read_entries(value[key], source, place, namespace, form, limits)
        if looks_like_tool(value):
            return _one(value, source, at, namespace, form, limits)
        if not at and value and all(_is_listing(v) for v in value.values()):
            reading = Reading()
            for server, listing in value.items():
                place = pointers.join("", server)
                reading.absorb(_read_lists(listing, source, place, server, form, limits))
            return reading
    return Reading(
        diagnostics=[
            findings.SOURCE_UNREADABLE.at(
                source,
                at,
                'no list of tools was found: expected {"tools": [...]}, a list of tools, a map '
                "of servers to such, a client's mcpServers, or an OpenAPI 3 document",
            )
        ]
    )


def _one(value: Json, source: str, at: str, namespace: str, form: str, limits: Limits) -> Reading:
    """Read a document that is a single tool; its pointers have no index."""
    reading = read_entries([value], source, at, namespace, form, limits)
    reading.tools = [
        type(tool)(**{n: getattr(tool, n) for n in tool.__slots__ if n != "pointer"}, pointer=at)
        for tool in reading.tools
    ]
    return reading


def _is_listing(value: Json) -> bool:
    """Tell whether a value of a server map holds a list of tools (an empty one included)."""
    if isinstance(value, list):
        return all(isinstance(v, dict) for v in value)
    if not isinstance(value, dict):
        return False
    if "jsonrpc" in value:
        return True
    return any(isinstance(value.get(key), list) for key in _LIST_KEYS)
