"""Hostile and damaged input: a finding with a pointer, in bounded time and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler import findings, pointers
from catalog_compiler.__main__ import page
from catalog_compiler.errors import SourceError
from catalog_compiler.frontend import load_toolset
from catalog_compiler.limits import Limits
from catalog_compiler.model import Severity, ToolSet
from catalog_compiler.readers import strict_json
from tests.catalog_compiler.reading.test_readers import codes, write

BROKEN = {"type": "object", "properties": {"a": {"type": "sting"}}}
REPOSITORY = Path(__file__).resolve().parents[3]


def one(tmp_path: Path, text: str, **extra: Any) -> ToolSet:
    return load_toolset([write(tmp_path / "tools.json", text)], **extra)


def test_ten_megabytes_of_description_are_cut_and_said(tmp_path: Path) -> None:
    """The tool stays, and so does its neighbour."""
    tools = [
        {"name": "big", "description": "word " * 2_000_000},
        {"name": "small", "description": "S."},
    ]
    toolset = one(tmp_path, json.dumps(tools))
    assert [len(t.description) for t in toolset.tools] == [Limits().description_chars, 2]
    assert codes(toolset) == ["oversized-description"]


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_nesting_costs_that_value_alone(tmp_path: Path, depth: int) -> None:
    """The over-deep part is read as null; the tool and its neighbours stay."""
    deep = '{"not":' * depth + "{}" + "}" * depth
    text = (
        '{"tools":[{"name":"deep","description":"D \\" [.","inputSchema":{"type":"object",'
        f'"properties":{{"x":{deep},"y":{{"type":"string"}}}}}}}},'
        '{"name":"flat","description":"F."}]}'
    )
    toolset = one(tmp_path, text)
    assert [t.name for t in toolset.tools] == ["deep", "flat"]
    assert toolset.tools[0].input_schema["properties"]["y"] == {"type": "string"}
    (found,) = [d for d in toolset.diagnostics if d.code == "too-deep"]
    assert found.pointer.startswith("/tools/0/inputSchema/properties/x/not")


def test_a_hundred_thousand_open_brackets_are_refused_at_once(tmp_path: Path) -> None:
    """No recursion, no crash."""
    for text in ("[" * 100_000, "{" * 100_000, "- " * 100_000):
        with pytest.raises(SourceError):
            one(tmp_path, text)


def test_departures_from_json_are_named_by_place(tmp_path: Path) -> None:
    """Duplicate keys, NaN, 1e400, an integer of 100,000 digits and half a surrogate pair."""
    text = (
        '{"tools":[{"name":"odd","description":"a \\ud83d b","description":"c \\ud800 d",'
        '"inputSchema":{"type":"object","properties":{"x":{"default":NaN,"minimum":-1e400,'
        f'"maximum":{"9" * 100_000}}}}}}}}}]}}'
    )
    toolset = one(tmp_path, text)
    (tool,) = toolset.tools
    assert tool.description == "c \ufffd\ufffd\ufffd d"
    assert tool.input_schema["properties"]["x"] == {
        "default": None,
        "minimum": None,
        "maximum": None,
    }
    found = {(d.code, d.pointer) for d in toolset.diagnostics}
    x = "/tools/0/inputSchema/properties/x"
    assert ("duplicate-key", "/tools/0/description") in found
    assert {("not-a-number", f"{x}/{k}") for k in ("default", "minimum", "maximum")} <= found
    assert ("lone-surrogate", "/tools/0/description") in found


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Empty, blank, not UTF-8, too large, a folder: each says so."""
    path = tmp_path / "tools.json"
    cases = {b"": "empty", b" \n": "empty", b'[{"name":"\xff"}]': "byte 10 is not UTF-8"}
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(SourceError, match=message):
            load_toolset([str(path)])
    path.write_bytes(b"[]" + b" " * 100)
    with pytest.raises(SourceError, match="at most 10"):
        load_toolset([str(path)], limits=Limits(file_bytes=10))
    with pytest.raises(SourceError, match="directory"):
        load_toolset([str(tmp_path)])
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_bytes('[{"name":"läge","description":"Var."}]'.encode(encoding))
        assert load_toolset([str(path)]).tools[0].name == "läge"


def test_yaml_bombs_and_foreign_tags_are_refused(tmp_path: Path) -> None:
    """Aliases that multiply, tags that would run code, and duplicate keys."""
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
    )
    with pytest.raises(SourceError, match="expands"):
        load_toolset([write(tmp_path / "bomb.yaml", bomb)])
    with pytest.raises(SourceError, match="python"):
        load_toolset([write(tmp_path / "tag.yaml", "tools: !!python/object/apply:os.getcwd []")])
    text = "tools:\n- name: a\n  description: A.\n  description: B.\n  since: 2024-01-02\n"
    toolset = load_toolset([write(tmp_path / "twice.yaml", text)])
    assert toolset.tools[0].description == "B."
    assert codes(toolset) == ["duplicate-key"]
    assert "line 4" in toolset.diagnostics[0].message


def test_hidden_characters_are_reported_and_kept(tmp_path: Path) -> None:
    """Direction overrides and controls; emoji joiners are ordinary text."""
    tools = [
        {"name": "turned", "description": "abc \u202edef\u202c"},
        {"name": "bell", "description": "ding \u0007"},
        {"name": "family", "description": "For 👩‍👩‍👧 and\na new line.\tTab."},
    ]
    toolset = one(tmp_path, json.dumps(tools))
    hidden = {d.tool: d.message for d in toolset.diagnostics if d.code == "hidden-characters"}
    assert set(hidden) == {"turned", "bell"}
    assert "U+202E" in hidden["turned"]
    assert {t.name: t.description for t in toolset.tools}["turned"] == "abc \u202edef\u202c"


def test_schema_faults_are_named_and_the_tool_is_kept(tmp_path: Path) -> None:
    """Each by its own pointer."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "sting"},
            "b": {"enum": []},
            "c": {"minimum": 5, "maximum": 1},
            "d": {"type": "string", "pattern": "(["},
            "e": {"$ref": "#/$defs/none"},
            "f": {"$ref": "https://example.org/x.json"},
            "g": {"$ref": "#/$defs/loop"},
            "h": {"type": "dict", "properties": {"deep": {"type": "float"}}},
            "i": {"type": "string", "pattern": r"^\p{L}+(?<year>\d{4})$"},
        },
        "required": ["a", "zz"],
        "$defs": {"loop": {"type": "array", "items": {"$ref": "#/$defs/loop"}}},
    }
    toolset = one(tmp_path, json.dumps([{"name": "t", "description": "T.", "inputSchema": schema}]))
    (tool,) = toolset.tools
    found = {(d.code, d.pointer.removeprefix("/0/inputSchema")) for d in toolset.diagnostics}
    assert found == {
        ("schema-invalid", "/properties/a/type"),
        ("schema-invalid", "/properties/b/enum"),
        ("schema-invalid", "/properties/c/minimum"),
        ("schema-invalid", "/properties/d/pattern"),
        ("unresolved-ref", "/properties/e/$ref"),
        ("unresolved-ref", "/properties/f/$ref"),
        ("recursive-schema", ""),
        ("foreign-type", ""),
        ("schema-invalid", "/required/1"),
    }
    assert tool.input_schema["properties"]["h"]["type"] == "object"
    assert tool.input_schema["properties"]["h"]["properties"]["deep"]["type"] == "number"


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"name": "t", "inputSchema": BROKEN}, "/tools/0/inputSchema"),
        ({"name": "t", "input_schema": BROKEN}, "/tools/0/input_schema"),
        ({"name": "t", "parameters": BROKEN}, "/tools/0/parameters"),
        (
            {"type": "function", "function": {"name": "t", "parameters": BROKEN}},
            "/tools/0/function/parameters",
        ),
    ],
)
def test_a_finding_points_at_what_is_wrong(
    tmp_path: Path, entry: dict[str, Any], place: str
) -> None:
    """Following the pointer in the document leads to the faulty value, whatever the format."""
    document = {"tools": [entry]}
    toolset = one(tmp_path, json.dumps(document))
    (found,) = [d for d in toolset.diagnostics if d.code == "schema-invalid"]
    assert found.pointer == f"{place}/properties/a/type"
    assert pointers.follow(document, pointers.split(found.pointer)) == "sting"


def test_a_finding_in_a_merged_schema_points_at_its_operation(tmp_path: Path) -> None:
    """An OpenAPI operation's arguments stand nowhere as they are."""
    wrong = {"name": "a", "in": "query", "schema": {"type": "sting"}}
    paths = {"/x": {"get": {"operationId": "t", "parameters": [wrong]}}}
    document = {"openapi": "3.1.0", "info": {"title": "X"}, "paths": paths}
    toolset = one(tmp_path, json.dumps(document))
    (found,) = [d for d in toolset.diagnostics if d.code == "schema-invalid"]
    assert found.pointer == "/paths/~1x/get"
    assert "/properties/a/type of the arguments" in found.message


@pytest.mark.parametrize("schema", ["text", 5, ["list"], {"type": "string"}])
def test_what_is_no_object_schema_is_said(tmp_path: Path, schema: Any) -> None:
    """The tool is routed all the same."""
    toolset = one(tmp_path, json.dumps([{"name": "t", "description": "T.", "inputSchema": schema}]))
    assert len(toolset.tools) == 1
    assert codes(toolset) == ["schema-not-object"]


def test_a_property_called_type_is_no_type(tmp_path: Path) -> None:
    """Only schema positions are read as schemas."""
    schema = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "dict": {"const": {"type": "dict"}}},
    }
    toolset = one(tmp_path, json.dumps([{"name": "t", "description": "T.", "inputSchema": schema}]))
    assert toolset.diagnostics == ()
    assert toolset.tools[0].input_schema == schema


def test_duplicates_and_coin_flips_are_reported(tmp_path: Path) -> None:
    """Same text, and nearly the same text with the same arguments."""
    search = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = [
        {
            "name": "find_book",
            "description": "Find a book in the library by its title or author.",
            "inputSchema": search,
        },
        {
            "name": "find_books",
            "description": "Find a book in the library, by its author or title.",
            "inputSchema": search,
        },
        {"name": "lend", "description": "Lend it out."},
        {"name": "give", "description": "lend it  OUT."},
        {"name": "mute", "description": ""},
    ]
    toolset = one(tmp_path, json.dumps(tools))
    found = {(d.code, d.tool): d.related for d in toolset.diagnostics}
    assert found["indistinguishable", "find_book"] == ("find_books",)
    assert found["duplicate-description", "give"] == ("lend",)
    assert ("empty-description", "mute") in found


def test_more_tools_than_the_bound_are_counted(tmp_path: Path) -> None:
    """The finding says how many were left."""
    tools = [{"name": f"t{i}", "description": f"Do number {i}."} for i in range(5)]
    toolset = one(tmp_path, json.dumps(tools), limits=Limits(tools=3))
    assert len(toolset.tools) == 3
    assert codes(toolset) == ["too-many-tools"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=30,
)  # fmt: skip


@given(JSON_VALUES, st.integers(1, 12))
def test_sound_json_is_read_as_the_standard_library_reads_it(value: Any, depth: int) -> None:
    """And over-deep parts alone become null."""

    def cut(node: Any, level: int) -> Any:
        if isinstance(node, dict | list) and level > depth:
            return None
        if isinstance(node, dict):
            return {k: cut(v, level + 1) for k, v in node.items()}
        return [cut(v, level + 1) for v in node] if isinstance(node, list) else node

    assert strict_json.parse(json.dumps(value), "x", 50) == (value, [])
    assert strict_json.parse(json.dumps(value), "x", depth)[0] == cut(value, 1)


KEYS = [
    *("tools", "name", "type", "function", "inputSchema", "server", "properties", "required"),
    *("$ref", "openapi", "paths", "enum", "parameters", "jsonrpc", "result", "description"),
    *("items", "servers", "mcpServers", "requestBody", "content", "get"),
]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(KEYS),
                        inner, max_size=5), max_leaves=25))  # fmt: skip
def test_any_document_is_read_or_refused(value: Any) -> None:
    """No document of any shape raises anything but SourceError."""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder) / "t.json", json.dumps(value))
        try:
            toolset = load_toolset([source])
        except SourceError:
            return
    assert all(isinstance(t.name, str) and t.name for t in toolset.tools)


def test_the_documentation_lists_every_finding() -> None:
    """docs/diagnostics.md is made from the registry."""
    assert (REPOSITORY / "docs" / "diagnostics.md").read_text() == page()
    assert all(f.mend and f.about for f in findings.REGISTRY.values())
    assert findings.BAD_NAME.severity is Severity.ERROR


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("file", "listed"),
    [
        ("catalogs/github_mcp.json", 117),
        ("catalogs/livemcpbench.json", 527),
        ("catalogs/toucan_live.json", 3441),
        ("eval/azure_mcp/catalog.json", 200),
        ("eval/bfcl_union/catalog.json", 1246),
        ("openapi/notion-openapi.json", 24),
        ("openapi/mcp-tef-openapi.yaml", 21),
    ],
)
def test_real_catalogs_lose_nothing(shared_data: Path, file: str, listed: int) -> None:
    """Every tool is kept, or named as the duplicate that it is."""
    toolset = load_toolset([str(shared_data / file)])
    assert len(toolset.tools) + codes(toolset).count("duplicate-tool") == listed
    assert not [d for d in toolset.diagnostics if d.severity is Severity.ERROR]
    assert len({t.name for t in toolset.tools}) == len(toolset.tools)
