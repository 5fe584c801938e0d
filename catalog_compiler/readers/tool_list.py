"""Lists of tools: MCP `tools/list`, OpenAI chat and responses, Anthropic, plain functions.

Owns the shape of one entry in each format. A bad entry becomes a finding and takes nothing else
down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler import findings, pointers
from catalog_compiler.readers.raw import RawTool, Reading

if TYPE_CHECKING:
    from catalog_compiler.limits import Limits
    from catalog_compiler.model import Json

LIST_FORMATS = ("mcp", "openai", "anthropic")
_SCHEMA_KEYS = {
    "mcp": ("inputSchema",),
    "openai": ("parameters",),
    "anthropic": ("input_schema",),
    "auto": ("inputSchema", "input_schema", "parameters"),
}


def read_entries(
    entries: list[Json], source: str, base: str, namespace: str, form: str, limits: Limits
) -> Reading:
    """Read the entries of one list.

    Args:
        entries: the list as parsed.
        source: how findings name the document.
        base: pointer to the list.
        namespace: of the tools that name none themselves.
        form: one of `LIST_FORMATS`, or "auto": each entry is recognised by itself.
        limits: bounds.

    """
    reading = Reading()
    for index, entry in enumerate(entries[: limits.tools]):
        _read_entry(reading, entry, source, pointers.join(base, index), namespace, form, limits)
    if len(entries) > limits.tools:
        reading.diagnostics.append(
            findings.TOO_MANY_TOOLS.at(
                source, base, f"the list has {len(entries)} tools; {limits.tools} were read"
            )
        )
    return reading


def looks_like_tool(value: Json) -> bool:
    """Tell whether a value is an entry of any list format."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("function"), dict):
        return True
    keys = ("description", *_SCHEMA_KEYS["auto"])
    return "name" in value and any(key in value for key in keys)


def _read_entry(
    reading: Reading,
    entry: Json,
    source: str,
    pointer: str,
    namespace: str,
    form: str,
    limits: Limits,
) -> None:
    outer = entry
    if isinstance(entry, dict) and form in ("auto", "openai") and entry.get("type") == "function":
        if isinstance(entry.get("function"), dict):
            entry, pointer = entry["function"], pointers.join(pointer, "function")
    elif isinstance(entry, dict) and form == "openai" and "type" in entry and "name" not in entry:
        _hosted(reading, entry, source, pointer)
        return
    if not isinstance(entry, dict):
        reading.diagnostics.append(
            findings.NOT_A_TOOL.at(source, pointer, f"the entry is {_kind(entry)}, no tool object")
        )
        return
    if "name" not in entry and isinstance(entry.get("type"), str) and entry["type"] != "function":
        _hosted(reading, entry, source, pointer)
        return
    name = entry.get("name")
    problem = name_problem(name, limits)
    if problem or not isinstance(name, str):
        reading.diagnostics.append(
            findings.BAD_NAME.at(source, pointers.join(pointer, "name"), problem)
        )
        return
    schema_key = next((k for k in _SCHEMA_KEYS[form] if entry.get(k) is not None), "")
    own = outer.get("server", outer.get("namespace", ""))
    annotations = entry.get("annotations")
    title = entry.get("title") or (
        annotations.get("title") if isinstance(annotations, dict) else ""
    )
    reading.tools.append(
        RawTool(
            name=name,
            namespace=_namespace(own if isinstance(own, str) and own else namespace, limits),
            description=_text(reading, entry, "description", source, pointer, name),
            schema=entry[schema_key] if schema_key else None,
            schema_key=schema_key,
            source=source,
            pointer=pointer,
            title=title if isinstance(title, str) else "",
            aliases=_texts(outer.get("aliases")),
            tags=_texts(outer.get("tags")),
        )
    )


def _hosted(reading: Reading, entry: dict[str, Json], source: str, pointer: str) -> None:
    reading.diagnostics.append(
        findings.HOSTED_TOOL.at(
            source, pointer, f"the entry of type {str(entry.get('type'))[:80]!r} has no name"
        )
    )


def _namespace(given: str, limits: Limits) -> str:
    """Return a server's name in printable characters, clipped at the bound of names."""
    return "".join(c for c in given[: limits.name_chars] if c.isprintable())


def name_problem(name: Json, limits: Limits) -> str:
    """Return what keeps a name from being a tool's, "" where nothing does."""
    if name is None:
        return "the tool has no name"
    if not isinstance(name, str):
        return f"the name is {_kind(name)}, no text"
    if not name.strip():
        return "the name is empty"
    if len(name) > limits.name_chars:
        return f"the name has {len(name)} characters; at most {limits.name_chars} are allowed"
    if any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u2028\u2029" for c in name):
        return "the name holds control characters"
    if "\ufffd" in name:
        return "the name holds characters that could not be read (U+FFFD)"
    return ""


def _text(
    reading: Reading, entry: dict[str, Json], key: str, source: str, pointer: str, name: str
) -> str:
    value = entry.get(key)
    if isinstance(value, str):
        return value
    if value is not None:
        reading.diagnostics.append(
            findings.SCHEMA_INVALID.at(
                source,
                pointers.join(pointer, key),
                f"the {key} is {_kind(value)}, no text",
                tool=name,
            )
        )
    return ""


def _texts(value: Json) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
