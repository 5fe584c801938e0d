"""Input made to collide, to crash or to take for ever. Each was once seen to succeed.

Sizes are such that quadratic work would take minutes: the suite would not end, and needs no clock.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.errors import CatalogError, SourceError
from catalog_compiler.frontend import load_toolset, source_labels
from catalog_compiler.model import Tool, ToolSet
from catalog_compiler.names import settle_names
from tests.catalog_compiler.reading.test_readers import codes, write


def entry(name: str, description: str = "Do it.", schema: Any = None, **extra: Any) -> Any:
    return {"name": name, "description": description, "inputSchema": schema or {}, **extra}


def read(tmp_path: Path, value: Any, suffix: str = "json") -> ToolSet:
    return load_toolset([write(tmp_path / f"tools.{suffix}", value)])


def names(toolset: ToolSet) -> list[str]:
    return [tool.name for tool in toolset.tools]


PARTS = st.sampled_from(["a", "a b", "a-b", "b", "a.b", "b.c", "c", "", "a/b"])


@given(st.lists(st.tuples(PARTS, PARTS.filter(bool), st.sampled_from("xy")), max_size=14))
def test_routed_names_are_unique_whatever_collides(rows: list[tuple[str, str, str]]) -> None:
    """Servers that read the same, names with dots in them, equal and unequal contents."""
    tools = [
        Tool(n, n, namespace=space, description=text, source=f"{i}.json", pointer=f"/{i}")
        for i, (space, n, text) in enumerate(rows)
    ]
    settled, _ = settle_names(tools)
    assert len({tool.name for tool in settled}) == len(settled)
    again, _ = settle_names(tools[::-1])
    assert sorted(t.name for t in again) == sorted(t.name for t in settled)


def test_servers_that_read_the_same_are_told_apart(tmp_path: Path) -> None:
    """And a tool that is already called what a digest would give."""
    toolset = read(tmp_path, {"a b": [entry("find")], "a-b": [entry("find")]})
    assert len(set(names(toolset))) == 2
    pair = {"a": [entry("f", "One."), entry("f", "Two.")]}
    given_name = names(read(tmp_path, pair))[0]
    toolset = read(tmp_path, {**pair, "z": [entry(given_name, "Three.")]})
    assert len(set(names(toolset))) == 3
    assert given_name in names(toolset)


def test_a_repetition_leaves_its_aliases(tmp_path: Path) -> None:
    """What is kept once answers to all the old names."""
    toolset = read(tmp_path, [entry("new"), entry("new", aliases=["old"])])
    assert [t.aliases for t in toolset.tools] == [("old",)]


def test_a_huge_server_name_is_clipped(tmp_path: Path) -> None:
    """In the routed name and in the namespace."""
    tools = [entry("f", "One.", server="n" * 1_000_000), entry("f", "Two.", server="m\n")]
    toolset = read(tmp_path, {"tools": tools})
    assert max(map(len, names(toolset))) < 100
    assert {t.namespace for t in toolset.tools} == {"n" * 512, "m"}


@pytest.mark.parametrize("server", ["²", "9" * 5000, "١"])
def test_digits_that_are_no_index_are_names(tmp_path: Path, server: str) -> None:
    """Other scripts' digits and numbers too long to be read."""
    assert len(read(tmp_path, {server: [entry("a")]}).tools) == 1
    schema = {"properties": {"x": {"$ref": f"#/required/{server}"}}, "required": ["x"]}
    assert codes(read(tmp_path, [entry("a", schema=schema)])) == ["unresolved-ref"]


def test_references_may_be_percent_encoded(tmp_path: Path) -> None:
    """A `$ref` is a URI reference (RFC 3986), so a blank in a name is `%20`."""
    schema = {"properties": {"x": {"$ref": "#/$defs/A%20B"}}, "$defs": {"A B": {"type": "string"}}}
    assert codes(read(tmp_path, [entry("a", schema=schema)])) == []


@pytest.mark.filterwarnings("error")
def test_a_pattern_that_python_warns_of_is_a_pattern(tmp_path: Path) -> None:
    """A set within a set."""
    schema = {"properties": {"x": {"type": "string", "pattern": "[[a]b]"}}}
    assert codes(read(tmp_path, [entry("a", schema=schema)])) == []


def test_json_lines_findings_carry_their_line(tmp_path: Path) -> None:
    """The pointer begins with the number of the tool."""
    text = '{"name":"a","description":"A."}\n{"name":"b","description":"B.","description":"C."}\n'
    (found,) = read(tmp_path, text, "jsonl").diagnostics
    assert (found.code, found.pointer) == ("duplicate-key", "/1/description")


def test_json_with_a_trailing_comma_is_refused(tmp_path: Path) -> None:
    """Only a file that is named so is read as YAML."""
    text = '[{"name":"a","description":"A.",},]'
    with pytest.raises(SourceError, match="column"):
        read(tmp_path, text)
    assert names(read(tmp_path, text, "yaml")) == ["a"]


def test_a_literal_stand_in_is_text(tmp_path: Path) -> None:
    """No document can spell what marks an over-deep value."""
    toolset = read(tmp_path, '[{"name":"a","description":"\\u0000deep\\u0000","x":NaN}]')
    assert toolset.tools[0].description == "\0deep\0"
    assert "too-deep" not in codes(toolset)


YAML_HEAD = "tools:\n- name: a\n  description: A.\n"


@pytest.mark.parametrize(
    "text",
    ["x: !!int abc", "x: !!bool abc", 'x: "\\UFFFFFFFF"', "x: !!set {a}", "? [k]\n  : 1", "x: *no",
     "x: &me [*me]", "x: !python/name:os.system"],
)  # fmt: skip
def test_yaml_that_json_can_not_have_is_refused_by_line(tmp_path: Path, text: str) -> None:
    """Never another exception."""
    with pytest.raises(SourceError, match="line"):
        read(tmp_path, f"{YAML_HEAD}  {text}\n", "yaml")


def test_yaml_words_are_words(tmp_path: Path) -> None:
    """The core schema of YAML 1.2: `no`, `on`, dates and version numbers in keys stay text."""
    text = YAML_HEAD + (
        "  inputSchema:\n    properties:\n      no: {type: string}\n      on: {enum: [on, off]}\n"
        "      1.10: {default: 0x1f}\n      when: {default: 2024-01-02}\n"
        "      base: &b {minimum: 1, maximum: 3}\n      more: {<<: *b, maximum: 5}\n"
        "      null: {default: null, enum: [true, -1, 1e3, .5, ~, 'true', 1_000]}\n"
    )
    properties = read(tmp_path, text, "yaml").tools[0].input_schema["properties"]
    assert properties == {
        "no": {"type": "string"},
        "on": {"enum": ["on", "off"]},
        "1.10": {"default": 31},
        "when": {"default": "2024-01-02"},
        "base": {"minimum": 1, "maximum": 3},
        "more": {"minimum": 1, "maximum": 5},
        "null": {"default": None, "enum": [True, -1, 1000.0, 0.5, None, "true", "1_000"]},
    }


def test_yaml_numbers_out_of_range_are_null_and_said(tmp_path: Path) -> None:
    """As in JSON."""
    toolset = read(tmp_path, f"{YAML_HEAD}  x: [{'9' * 5000}, .inf, -.Inf, .nan, 1e999]\n", "yaml")
    assert codes(toolset) == ["not-a-number"] * 5


@pytest.mark.parametrize("key", ["b: *a8", "b:\n  ? *a8\n  : 1", "b:\n  <<: *a8"])
def test_yaml_aliases_can_not_multiply(tmp_path: Path, key: str) -> None:
    """As a value, as a key, as a merge."""
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(SourceError, match="expands"):
        read(tmp_path, "\n".join([*rows, key]), "yaml")


def test_yaml_deep_by_aliases_costs_that_value_alone(tmp_path: Path) -> None:
    """Each line is one deeper than the last."""
    rows = ["x0: &x0 [1]", *(f"x{i}: &x{i} [*x{i - 1}]" for i in range(1, 400))]
    toolset = read(tmp_path, "\n".join([YAML_HEAD.rstrip(), *rows]), "yaml")
    assert names(toolset) == ["a"]
    assert "too-deep" in codes(toolset)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii"), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(codec="ascii", exclude_characters="\x7f")), inner, max_size=3
        )
    ),
    max_leaves=20,
)


@given(VALUES)
def test_yaml_written_by_the_library_reads_as_json(value: Any) -> None:
    """What is dumped with explicit quoting comes back."""
    import yaml  # noqa: PLC0415

    from catalog_compiler.readers import strict_yaml  # noqa: PLC0415

    text = yaml.safe_dump(value, default_style='"', allow_unicode=True)
    assert strict_yaml.parse(text, "x", 60) == (json.loads(json.dumps(value)), [])


def test_work_grows_with_the_input_and_not_with_its_square(tmp_path: Path) -> None:
    """Unclosed strings, chains of references, and thousands of twins."""
    with pytest.raises(SourceError):
        read(tmp_path, "[" * 100 + '"' + '\\"' * 300_000)
    chain: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(18_000)}
    assert read(tmp_path, [entry("a", schema={"$defs": {**chain, "d18000": {}}})]).tools
    anchored = {f"d{i}": {"$ref": "#x"} for i in range(15_000)}
    schema = {"$defs": {**anchored, "x": {"$anchor": "x"}}}
    assert codes(read(tmp_path, [entry("a", schema=schema)])) == []
    for tools in (
        [entry(f"n{i}") for i in range(20_000)],
        [entry("n", f"Does {i}.") for i in range(20_000)],
    ):
        assert len(read(tmp_path, tools).tools) == 20_000


def test_thousands_of_look_alikes_each_name_a_few(tmp_path: Path) -> None:
    """`related` is short however many there are."""
    letters = itertools.product(*[(c, c.upper()) for c in "abcdefghijkl"])
    toolset = read(tmp_path, [entry("".join(word), f"Does {i}.") for i, word in enumerate(letters)])
    alike = [d for d in toolset.diagnostics if d.code == "look-alike-names"]
    assert len(alike) == 4096
    assert {len(d.related) for d in alike} == {10}


def test_a_hundred_near_twins_are_all_found(tmp_path: Path) -> None:
    """However common their words are."""
    text = "Look a book up in the public library by title, author or year, and return its shelf "
    toolset = read(tmp_path, [entry(f"tool_{i}", f"{text}{i}.") for i in range(100)])
    assert codes(toolset).count("indistinguishable") == 100


def api(paths: Any, **schemas: Any) -> Any:
    return {"openapi": "3.0.3", "info": {"title": "x"}, "paths": paths,
            "components": {"schemas": schemas}}  # fmt: skip


def posting(schema: Any, name: str) -> Any:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"post": {"operationId": name, "description": f"{name}.", "requestBody": body}}


def test_a_long_chain_of_openapi_references_is_followed_by_list(tmp_path: Path) -> None:
    """A thousand deep, every definition whole."""
    step = "#/components/schemas/s"
    chain: dict[str, Any] = {
        f"s{i}": {"type": "object", "properties": {"n": {"$ref": f"{step}{i + 1}"}}}
        for i in range(1000)
    }
    paths = {"/a": posting({"$ref": f"{step}0"}, "go")}
    (tool,) = read(tmp_path, api(paths, **chain, s1000={"type": "string"})).tools
    text = json.dumps(tool.input_schema)
    assert text.count('"$ref"') == len(tool.input_schema["$defs"])
    assert '"type": "string"' in text


def test_a_large_shared_schema_is_left_open_and_said(tmp_path: Path) -> None:
    """It is not copied into hundreds of tools."""
    big = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20_000)}}
    paths = {f"/a{i}": posting({"$ref": "#/components/schemas/big"}, f"o{i}") for i in range(200)}
    toolset = read(tmp_path, api(paths, big=big))
    assert codes(toolset).count("schema-too-large") == 200
    assert max(len(json.dumps(t.input_schema)) for t in toolset.tools) < 1000


def test_openapi_names_and_labels_are_checked(tmp_path: Path) -> None:
    """An operationId like any other name; no parameter takes another's place."""
    gets = {
        "get": {"operationId": "a\u0007b"}, "put": {"operationId": "x" * 600},
        "post": {"operationId": "a\ud800"},
    }  # fmt: skip
    toolset = read(tmp_path, api({"/a": gets}))
    assert names(toolset) == ["get_a", "post_a", "put_a"]
    listed = [
        {"name": "query_id", "in": "query", "schema": {"const": 1}},
        {"name": "id", "in": "path", "schema": {"const": 2}},
        {"name": "id", "in": "query", "schema": {"const": 3}},
    ]
    operation = {"get": {"operationId": "o", "parameters": listed}}
    schema = read(tmp_path, api({"/a": operation})).tools[0].input_schema
    assert sorted(p["const"] for p in schema["properties"].values()) == [1, 2, 3]


def test_openapi_3_0_spellings_are_translated(tmp_path: Path) -> None:
    """`nullable` and boolean exclusive bounds become draft 2020-12's."""
    listed = [
        {"name": "q", "in": "query", "schema": {"type": "string", "nullable": True}},
        {"name": "n", "in": "query",
         "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
        {"name": "m", "in": "query",
         "schema": {"type": "integer", "maximum": 9, "exclusiveMaximum": False}},
    ]  # fmt: skip
    operation = {"get": {"operationId": "o", "parameters": listed}}
    toolset = read(tmp_path, api({"/a": operation}))
    assert toolset.tools[0].input_schema["properties"] == {
        "q": {"type": ["string", "null"]},
        "n": {"type": "integer", "exclusiveMinimum": 0},
        "m": {"type": "integer", "maximum": 9},
    }
    assert "foreign-type" in codes(toolset)


def test_one_odd_server_entry_costs_itself(tmp_path: Path) -> None:
    """The others are asked."""
    config = {"mcpServers": {"odd": {"serverUrl": "x"}, "none": 5, "gone": {"command": "/no/such"}}}
    with pytest.raises(SourceError, match=r"odd has neither.*gone: FileNotFoundError"):
        read(tmp_path, config)


def test_secrets_in_a_url_stay_out_of_the_catalog() -> None:
    """User, password and query are no part of a source's name."""
    assert source_labels(["https://me:key@example.org:8/mcp?token=abc#x"]) == [
        "https://example.org:8/mcp"
    ]


def test_a_deep_alias_file_is_refused(tmp_path: Path) -> None:
    """By a typed error."""
    deep = Path(write(tmp_path / "aliases.json", "[" * 100_000))
    tools = write(tmp_path / "tools.json", [entry("a")])
    with pytest.raises(CatalogError):
        load_toolset([tools], aliases=deep)
