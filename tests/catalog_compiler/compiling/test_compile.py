"""Compiling: same input, same bytes; an earlier compilation changes the time and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog_compiler import container, records
from catalog_compiler.artifact import CompiledCatalog, open_artifact, write_artifact
from catalog_compiler.compile import Extras, compile_catalog
from catalog_compiler.errors import ArtifactError, CatalogError, GrammarError
from catalog_compiler.grammar import NONE_LEAF, Placement
from catalog_compiler.model import Diagnostic, Severity, Tool, ToolSet

from .conftest import FINDINGS, TOOLS, byte_level, characters, make_tool

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer


def compile_(tools: tuple[Tool, ...], tokenizer: Tokenizer, **options: Any) -> bytes:
    """Compile with the placement and tokenizer digest all tests share."""
    options.setdefault("tokenizer_digest", "tokenizer-1")
    return compile_catalog(ToolSet(tools, FINDINGS), tokenizer, Placement(), **options)


def opened(tools: tuple[Tool, ...], tokenizer: Tokenizer, **options: Any) -> CompiledCatalog:
    """Compile and open."""
    return CompiledCatalog.from_bytes(compile_(tools, tokenizer, **options))


def test_everything_comes_back(chat_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Tools, findings, names, placement and trie are read back from the file."""
    path = write_artifact(compile_(TOOLS, chat_tokenizer), tmp_path / "home.catalog")
    catalog = open_artifact(path)
    assert catalog.tools == TOOLS
    assert catalog.names == tuple(tool.name for tool in TOOLS)
    assert [catalog.tool(index) for index in range(len(catalog))] == list(TOOLS)
    assert catalog.diagnostics == FINDINGS
    assert catalog.placement == Placement(none_text="none")
    assert catalog.tokenizer_digest == "tokenizer-1"
    assert catalog.indices["lamp_on"] == 2
    assert sorted(catalog.trie.leaf_tool.tolist()) == [NONE_LEAF, 0, 1, 2, 3, 4]
    for index, tool in enumerate(TOOLS):
        text = records.definition_text(tool)
        assert catalog.token_counts[index] == len(chat_tokenizer.encode(text).ids)
    with pytest.raises(IndexError):
        catalog.tool(5)
    with pytest.raises(IndexError):
        catalog.tool(-1)


def test_content_addressed_writing(chat_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """In a folder the file is named by its digest; what is no catalog is not written."""
    data = compile_(TOOLS, chat_tokenizer)
    path = write_artifact(data, tmp_path)
    assert path.name == f"{open_artifact(path).digest}.catalog"
    with pytest.raises(ArtifactError):
        write_artifact(data[:-1], tmp_path / "x.catalog")
    assert not (tmp_path / "x.catalog").exists()


SCRIPT = """
import sys
from tests_compiling.conftest import TOOLS, FINDINGS, byte_level
from catalog_compiler.compile import compile_catalog
from catalog_compiler.grammar import Placement
from catalog_compiler.model import ToolSet
sys.stdout.buffer.write(
    compile_catalog(ToolSet(TOOLS, FINDINGS), byte_level(), Placement(), tokenizer_digest="t")
)
"""


def test_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Two processes with different hash seeds write the same file as this one."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    (tmp_path / "tests_compiling").symlink_to(here)
    outputs = {
        compile_catalog(ToolSet(TOOLS, FINDINGS), byte_level(), Placement(), tokenizer_digest="t")
    }
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_order_of_the_tools_changes_nothing(chat_tokenizer: Tokenizer) -> None:
    """Tools are sorted by name whoever hands them in."""
    assert compile_(TOOLS, chat_tokenizer) == compile_(TOOLS[::-1], chat_tokenizer)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
tools_ = st.builds(
    Tool,
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    source_name=st.text(),
    namespace=st.text(),
    aliases=st.lists(st.text()).map(tuple),
    title=st.text(),
    description=st.text(),
    input_schema=st.dictionaries(st.text(), json_values),
    tags=st.lists(st.text()).map(tuple),
    source=st.text(),
    pointer=st.text(),
)


@given(tools_)
def test_a_tool_survives_storage(tool: Tool) -> None:
    """Any tool, half surrogates in its texts included, comes back equal, keys in their order."""
    text = records.tool_to_json(tool)
    back = records.tool_from_json(text)
    assert back == tool
    assert list(back.input_schema) == list(tool.input_schema)
    assert records.tool_to_json(back) == text
    records.definition_text(tool).encode()


@settings(max_examples=30, deadline=None)
@given(st.lists(tools_, min_size=1, max_size=5, unique_by=lambda tool: tool.name), st.data())
def test_recompiling_gives_the_bytes_of_a_cold_build(
    tools: list[Tool], data: st.DataObject
) -> None:
    """Whatever was added, removed or changed since the earlier compilation."""
    tokenizer = BYTE_LEVEL
    before = [
        replace(tool, description=tool.description + data.draw(st.sampled_from(["", " changed"])))
        for tool in tools
        if data.draw(st.booleans())
    ]
    previous = opened((*before, make_tool("gone")), tokenizer, extras=lengths, extras_key="1")
    cold = compile_(tuple(tools), tokenizer, extras=lengths, extras_key="1")
    warm = compile_(tuple(tools), tokenizer, extras=lengths, extras_key="1", previous=previous)
    assert warm == cold


BYTE_LEVEL = byte_level()


def lengths(tools: tuple[Tool, ...], _earlier: Extras) -> Extras:
    """Give one row a tool, as a retrieval index would."""
    return {"rows": np.array([[len(tool.description)] * 2 for tool in tools], dtype=np.int16)}


class Counting:
    """Stands in for a tokenizer and counts the texts it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.inner = tokenizer
        self.texts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def encode_batch_fast(self, texts: list[str], **options: Any) -> Any:
        """Count and encode."""
        self.texts += len(texts)
        return self.inner.encode_batch_fast(texts, **options)


def test_unchanged_definitions_are_not_counted_again(chat_tokenizer: Tokenizer) -> None:
    """After one change one definition is tokenised; the names always are, they prove the trie."""
    previous = opened(TOOLS, chat_tokenizer)
    changed = (replace(TOOLS[0], description="Boils."), *TOOLS[1:])
    names = len(TOOLS) + 1
    for tools, digest, expected in (
        (TOOLS, "tokenizer-1", 0),
        (changed, "tokenizer-1", 1),
        (TOOLS, "tokenizer-2", len(TOOLS)),
    ):
        counting = Counting(chat_tokenizer)
        compile_(tools, counting, previous=previous, tokenizer_digest=digest)  # type: ignore[arg-type]
        assert counting.texts == names + expected


def test_texts_of_megabytes_are_counted_in_bounded_time(chat_tokenizer: Tokenizer) -> None:
    """Ten megabytes without a blank are counted in pieces, once for equal definitions."""
    catalog = opened((make_tool("huge", "é" * 5_000_000), TOOLS[0]), chat_tokenizer)
    assert catalog.tool(0).description == "é" * 5_000_000
    assert catalog.token_counts[0] > 1_000_000
    counting = Counting(chat_tokenizer)
    text = records.definition_text(TOOLS[0])
    assert catalog.token_counts[1] == len(counting.encode(text).ids)


def test_a_moved_tool_is_unchanged(chat_tokenizer: Tokenizer) -> None:
    """A pointer that moved (a tool was inserted before) costs no new count."""
    previous = opened(TOOLS, chat_tokenizer)
    moved = tuple(replace(tool, pointer="/tools/99") for tool in TOOLS)
    counting = Counting(chat_tokenizer)
    compile_(moved, counting, previous=previous)  # type: ignore[arg-type]
    assert counting.texts == len(TOOLS) + 1


def test_extras_are_stored_and_handed_back(chat_tokenizer: Tokenizer) -> None:
    """The builder gets the kept tools, and earlier extras exactly where the key is the same."""
    calls: list[tuple[tuple[Tool, ...], list[str]]] = []

    def build(tools: tuple[Tool, ...], earlier: Extras) -> Extras:
        calls.append((tools, sorted(earlier)))
        return lengths(tools, earlier)

    bad = make_tool("half\ud800")
    first = opened((bad, *TOOLS), chat_tokenizer, extras=build, extras_key="encoder-1")
    assert first.extras_key == "encoder-1"
    assert first.extras["rows"].shape == (len(TOOLS), 2)
    opened(TOOLS, chat_tokenizer, extras=build, extras_key="encoder-1", previous=first)
    opened(TOOLS, chat_tokenizer, extras=build, extras_key="encoder-2", previous=first)
    assert [earlier for _tools, earlier in calls] == [[], ["rows"], []]
    assert all(tools == TOOLS for tools, _earlier in calls)
    assert opened(TOOLS, chat_tokenizer, extras_key="unused").extras_key == ""


def test_bad_tools_are_set_aside_alone(chat_tokenizer: Tokenizer) -> None:
    """NaN, cycles, odd keys, deep nesting, huge numbers and unroutable names cost one tool each."""
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    deep: Any = {}
    for _ in range(100_000):
        deep = {"d": deep}
    bad = {
        "nan": float("nan"),
        "cycle": cycle,
        "number_key": {1: "x"},
        "deep": deep,
        "object": object(),
        "huge": 10**5000,
        "tuple": ("a",),
    }
    tools = [make_tool(name, input_schema={"x": value}) for name, value in bad.items()]
    tools += [make_tool("half\ud800", pointer="/9"), make_tool("")]
    catalog = opened((*tools, *TOOLS), chat_tokenizer)
    assert catalog.tools == TOOLS
    found = {d.tool: d for d in catalog.diagnostics if d.severity is Severity.ERROR}
    assert {found[name].code for name in bad} == {"schema-not-json"}
    assert found["half\\ud800"].code == "name-not-unicode"
    assert found["half\\ud800"].pointer == "/9"
    assert found[""].code == "name-empty"
    assert set(FINDINGS) <= set(catalog.diagnostics)
    while deep:  # taken apart step by step, which a recursive destructor could not do
        deep = deep.pop("d")


def test_a_tokenizer_that_lacks_characters_costs_those_tools() -> None:
    """The catalog is compiled without them, each with its finding."""
    catalog = opened(TOOLS, characters())
    assert catalog.names == tuple(tool.name for tool in TOOLS)
    catalog = opened((*TOOLS, make_tool("日本")), characters())
    assert len(catalog) == len(TOOLS)
    assert [d.tool for d in catalog.diagnostics if d.code == "name-not-spellable"] == ["日本"]


def test_errors_that_leave_nothing(chat_tokenizer: Tokenizer) -> None:
    """No tool, no routable tool, and two of one name are errors."""
    with pytest.raises(GrammarError, match="at least one tool"):
        compile_((), chat_tokenizer)
    with pytest.raises(GrammarError, match="none of the 1"):
        compile_((make_tool("\ud800"),), chat_tokenizer)
    with pytest.raises(CatalogError, match="two tools are named 'lamp_on'"):
        compile_((*TOOLS, TOOLS[2]), chat_tokenizer)


def test_diagnostics_survive_storage() -> None:
    """Every field comes back; other JSON is refused."""
    odd = Diagnostic(Severity.INFO, "c", "m\ud800", "m", "s", "/p", "t", ("a", "b"))
    text = records.diagnostics_to_json([odd, *FINDINGS])
    assert records.diagnostics_from_json(text) == (odd, *FINDINGS)
    for wrong in (b"{", b"[1]", b'[{"severity":"odd"}]', b"[" * 100_000):
        with pytest.raises(ArtifactError):
            records.diagnostics_from_json(wrong)
    for wrong in (b"[]", b'{"name":1}', text):
        with pytest.raises(ArtifactError):
            records.tool_from_json(wrong)


@given(st.data())
def test_arrays_that_disagree_are_refused(data: st.DataObject) -> None:
    """A well-formed container whose arrays contradict each other is no catalog."""
    source = container.unpack(CATALOG, "it")
    arrays: dict[str, Any] = dict(source.arrays)
    metadata = dict(source.metadata)
    which = data.draw(st.sampled_from([*sorted(arrays), *sorted(metadata)]))
    if which in metadata:
        del metadata[which]
    elif data.draw(st.booleans()):
        del arrays[which]
    else:
        arrays[which] = data.draw(
            st.sampled_from([arrays[which][np.newaxis], arrays[which].astype(np.float64)])
        )
    catalog_data = container.pack(metadata, arrays)
    with pytest.raises(ArtifactError):
        CompiledCatalog.from_bytes(catalog_data)


CATALOG = compile_(TOOLS, BYTE_LEVEL)


@settings(max_examples=200)
@given(st.integers(0, len(CATALOG) * 8 - 1))
def test_no_flipped_bit_opens(bit: int) -> None:
    """Whichever bit of a real catalog is flipped, it is refused."""
    harmed = bytearray(CATALOG)
    harmed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ArtifactError):
        CompiledCatalog.from_bytes(bytes(harmed))
