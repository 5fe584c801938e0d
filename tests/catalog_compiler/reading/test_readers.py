"""Every format in, the same normal form out; the order of sources changes nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.errors import SourceError, StrictError
from catalog_compiler.frontend import load_toolset

if TYPE_CHECKING:
    from catalog_compiler.model import ToolSet

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TEXT = "Tell how warm it is in a city."


def write(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return str(path)


def codes(toolset: ToolSet) -> list[str]:
    return [d.code for d in toolset.diagnostics]


@pytest.mark.parametrize(
    "document",
    [
        {"tools": [{"name": "warmth", "description": TEXT, "inputSchema": SCHEMA}]},
        {"jsonrpc": "2.0", "id": 1, "result": {
            "tools": [{"name": "warmth", "description": TEXT, "inputSchema": SCHEMA}]}},
        [{"type": "function",
          "function": {"name": "warmth", "description": TEXT, "parameters": SCHEMA}}],
        {"tools": [{"type": "function", "name": "warmth", "description": TEXT, "strict": True,
                    "parameters": SCHEMA}]},
        {"functions": [{"name": "warmth", "description": TEXT, "parameters": SCHEMA}]},
        [{"name": "warmth", "description": TEXT, "input_schema": SCHEMA}],
        {"name": "warmth", "description": TEXT, "input_schema": SCHEMA},
    ],
    ids=["mcp", "json-rpc", "openai-chat", "openai-responses", "functions", "anthropic", "single"],
)  # fmt: skip
def test_every_list_format_is_recognised(document: Any, tmp_path: Path) -> None:
    """One tool, the same whatever its spelling."""
    toolset = load_toolset([write(tmp_path / "tools.json", document)])
    (tool,) = toolset.tools
    assert (tool.name, tool.description, tool.input_schema) == ("warmth", TEXT, SCHEMA)
    assert toolset.diagnostics == ()


def test_a_map_of_servers_gives_namespaces(tmp_path: Path) -> None:
    """Values may be listings, JSON-RPC answers or bare lists; pointers lead to each tool."""
    source = write(
        tmp_path / "servers.json",
        {
            "sky": {"tools": [{"name": "warmth", "description": TEXT}]},
            "sea": [{"name": "tide", "description": "Tell when the tide is high."}],
            "void": {"jsonrpc": "2.0", "result": {"tools": []}},
        },
    )
    toolset = load_toolset([source])
    assert [(t.name, t.namespace, t.pointer) for t in toolset.tools] == [
        ("tide", "sea", "/sea/0"),
        ("warmth", "sky", "/sky/tools/0"),
    ]


def test_json_lines_name_the_bad_line(tmp_path: Path) -> None:
    """One tool a line; a broken line is reported by number and the rest is kept."""
    lines = [json.dumps({"name": n, "description": f"Do {n}."}) for n in ("one", "two")]
    source = write(tmp_path / "tools.jsonl", f"{lines[0]}\n{{oops\n\n{lines[1]}\n")
    toolset = load_toolset([source])
    assert [t.name for t in toolset.tools] == ["one", "two"]
    (found,) = toolset.diagnostics
    assert found.code == "bad-line"
    assert "line 2" in found.message


SPOT, TREE = ({"$ref": f"#/components/schemas/{name}"} for name in ("Spot", "Tree"))
OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Tree nursery", "version": "1"},
    "paths": {
        "/trees/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {"operationId": "getTree", "summary": "Look a tree up.", "tags": ["trees"]},
            "put": {
                "operationId": "moveTree",
                "description": "Move a tree.",
                "parameters": [
                    {"name": "sid", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "id", "in": "query", "schema": {"type": "integer"}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": SPOT}},
                },
            },
        },
        "/trees": {
            "post": {
                "summary": "Plant a tree.",
                "requestBody": {
                    "content": {"application/json": {"schema": TREE}}
                },
            },
            "delete": {"operationId": "fell", "parameters": [{"$ref": "#/nowhere"}]},
        },
    },
    "components": {
        "parameters": {"Id": {"name": "id", "in": "path", "required": True,
                              "schema": {"type": "string"}, "description": "Which tree."}},
        "schemas": {
            "Spot": {"type": "object", "required": ["row"],
                     "properties": {"row": {"type": "integer"}, "note": {"type": "string"}}},
            "Tree": {"type": "object", "properties": {
                "kind": {"enum": ["oak", "elm"]},
                "grafts": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}},
        },
    },
}  # fmt: skip


def test_openapi_operations_become_tools(tmp_path: Path) -> None:
    """Parameters and body are merged, references resolved, a cycle kept under $defs."""
    toolset = load_toolset([write(tmp_path / "api.json", OPENAPI)])
    tools = {t.name: t for t in toolset.tools}
    assert set(tools) == {"getTree", "moveTree", "post_trees", "fell"}
    assert tools["getTree"].namespace == "Tree-nursery"
    assert tools["getTree"].tags == ("trees",)
    assert tools["getTree"].input_schema == {
        "type": "object",
        "properties": {"id": {"type": "string", "description": "Which tree."}},
        "required": ["id"],
    }
    move = tools["moveTree"].input_schema
    assert set(move["properties"]) == {"id", "query_id", "row", "note"}
    assert move["required"] == ["id", "row"]
    plant = tools["post_trees"].input_schema
    graft = plant["properties"]["grafts"]["items"]["$ref"]
    assert graft == "#/$defs/Tree"
    assert plant["$defs"]["Tree"]["properties"]["kind"] == {"enum": ["oak", "elm"]}
    found = {(d.code, d.tool) for d in toolset.diagnostics}
    assert ("unused-part", "moveTree") in found
    assert ("no-operation-id", "post_trees") in found
    assert ("unresolved-ref", "fell") in found
    assert ("recursive-schema", "post_trees") in found


def test_openapi_in_yaml_reads_as_in_json(tmp_path: Path) -> None:
    """The same document, the same tools."""
    import yaml  # noqa: PLC0415

    as_json = load_toolset([write(tmp_path / "api.json", OPENAPI)])
    as_yaml = load_toolset([write(tmp_path / "api.yaml", yaml.safe_dump(OPENAPI))])
    strip = lambda s: [(t.name, t.input_schema, t.description, t.pointer) for t in s.tools]  # noqa: E731
    assert strip(as_json) == strip(as_yaml)


def test_swagger_two_and_unknown_documents_say_what_is_read(tmp_path: Path) -> None:
    """No guess is made."""
    with pytest.raises(SourceError, match=r"3\.0 and 3\.1"):
        load_toolset([write(tmp_path / "old.json", {"swagger": "2.0", "paths": {}})])
    with pytest.raises(SourceError, match="no list of tools"):
        load_toolset([write(tmp_path / "other.json", {"hello": "world"})])
    with pytest.raises(SourceError, match="unknown format"):
        load_toolset([write(tmp_path / "x.json", [])], format="soap")


def test_one_bad_source_does_not_take_the_others_down(tmp_path: Path) -> None:
    """It is a finding; with --strict it is an error; alone it is an error."""
    good = write(tmp_path / "good.json", [{"name": "a", "description": "Do a."}])
    bad = write(tmp_path / "bad.json", "{oops")
    toolset = load_toolset([good, bad, str(tmp_path / "missing.json")])
    assert [t.name for t in toolset.tools] == ["a"]
    assert codes(toolset) == ["source-unreadable", "source-unreadable"]
    with pytest.raises(StrictError, match=r"bad\.json"):
        load_toolset([good, bad], strict=True)
    with pytest.raises(SourceError, match="column"):
        load_toolset([bad])


def test_entries_that_are_no_tools_are_set_aside_by_place(tmp_path: Path) -> None:
    """Every other entry stays."""
    entries = [
        {"name": "fine", "description": "Do it."},
        "text",
        {"description": "nameless"},
        {"name": 7},
        {"name": "  "},
        {"name": "a\nb"},
        {"name": "x" * 600},
        {"type": "web_search"},
        {"name": "also", "description": 5},
    ]
    toolset = load_toolset([write(tmp_path / "tools.json", {"tools": entries})])
    assert [t.name for t in toolset.tools] == ["also", "fine"]
    by_place = {d.pointer: d.code for d in toolset.diagnostics if d.pointer.count("/") >= 2}
    assert by_place["/tools/1"] == "not-a-tool"
    for index in (2, 3, 4, 5, 6):
        assert by_place[f"/tools/{index}/name"] == "bad-name"
    assert by_place["/tools/7"] == "hosted-tool"


def test_the_order_of_sources_changes_nothing(tmp_path: Path) -> None:
    """Collisions, duplicates and aliases included."""
    first = write(tmp_path / "a.json", {"one": [
        {"name": "find", "description": "Find files."},
        {"name": "open", "description": "Open it.", "aliases": ["show"]}]})  # fmt: skip
    second = write(tmp_path / "b.json", {"two": [
        {"name": "find", "description": "Find people."},
        {"name": "one.find", "description": "In the way."}]})  # fmt: skip
    third = write(tmp_path / "c.json", {"two": [
        {"name": "find", "description": "Find ships."},
        {"name": "find", "description": "Find people."}]})  # fmt: skip
    results = [load_toolset(o) for o in itertools.permutations([first, second, third])]
    toolset = results[0]
    assert all(other == toolset for other in results)
    names = [t.name for t in toolset.tools]
    assert len(names) == len(set(names)) == 5
    assert "one.find" in names
    assert "find" not in names
    assert sum(n.startswith("one.find~") for n in names) == 1
    assert sum(n.startswith("two.find~") for n in names) == 2
    assert "duplicate-tool" in codes(toolset)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "a.x"]),
                          st.sampled_from("pq")), max_size=10))  # fmt: skip
def test_no_tool_is_ever_lost(entries: list[tuple[str, str, str]]) -> None:
    """Whatever collides, tools kept plus duplicates reported is what was given."""
    import tempfile  # noqa: PLC0415

    listed = [
        {"name": name, "server": server, "description": text} for server, name, text in entries
    ]
    with tempfile.TemporaryDirectory() as folder:
        toolset = load_toolset([write(Path(folder) / "t.json", {"tools": listed})])
    assert len(toolset.tools) + codes(toolset).count("duplicate-tool") == len(entries)
    names = [t.name for t in toolset.tools]
    assert len(set(names)) == len(names)
    assert names == sorted(names)


def test_aliases_must_lead_to_one_tool(tmp_path: Path) -> None:
    """Old names are kept; those that would shadow or mislead are reported and left out."""
    source = write(tmp_path / "t.json", {"tools": [
        {"name": "new", "description": "A.", "aliases": ["old", "both", "new"]},
        {"name": "other", "description": "B.", "aliases": ["both", "new"]}]})  # fmt: skip
    toolset = load_toolset([source], aliases={"older": "new", "lost": "gone"})
    tools = {t.name: t.aliases for t in toolset.tools}
    assert tools == {"new": ("old", "older"), "other": ()}
    bad = [d.message for d in toolset.diagnostics if d.code == "bad-alias"]
    assert len(bad) == 3
    assert any("'lost' leads to 'gone'" in m for m in bad)
    with pytest.raises(SourceError, match="no JSON object"):
        load_toolset([source], aliases=Path(write(tmp_path / "aliases.json", [1])))


def test_names_that_look_alike_are_reported_as_a_group(tmp_path: Path) -> None:
    """Case, Cyrillic letters, full width, digits for letters, invisible characters."""
    names = [
        "getUser",
        "GetUser",
        "gеtUser",
        "ｇetUser",
        "get\u200bUser",
        "g3tUser",
        "läge",
        "/a&b c",
    ]
    entries = [{"name": n, "description": f"Do thing number {i}."} for i, n in enumerate(names)]
    toolset = load_toolset([write(tmp_path / "t.json", entries)])
    assert {t.name for t in toolset.tools} == set(names)
    alike = {d.tool for d in toolset.diagnostics if d.code == "look-alike-names"}
    assert alike == set(names[:5])
    unusual = {d.tool for d in toolset.diagnostics if d.code == "unusual-name"}
    assert unusual == {"gеtUser", "ｇetUser", "get\u200bUser", "läge", "/a&b c"}
    assert {d.tool for d in toolset.diagnostics if d.code == "hidden-in-name"} == {"get\u200bUser"}


def test_where_a_file_lies_is_no_part_of_a_catalog(tmp_path: Path) -> None:
    """The same files in another folder give the same tools; two of one name are told apart."""
    results = []
    for folder in ("here", "there"):
        for name in ("a", "b"):
            (tmp_path / folder / name).mkdir(parents=True)
            entry = {"name": f"{name}_tool", "description": f"Do {name}."}
            write(tmp_path / folder / name / "tools.json", [entry])
        base = tmp_path / folder
        results.append(load_toolset([str(base / "a" / "tools.json"), str(base / "b/tools.json")]))
    assert results[0] == results[1]
    assert [t.source for t in results[0].tools] == ["a/tools.json", "b/tools.json"]
