"""The compiled arguments in a catalog: stored, reused, and told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from catalog_compiler.arguments import catalog
from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema
from catalog_compiler.arguments.tables import grammar_at
from catalog_compiler.artifact import CompiledCatalog
from catalog_compiler.compile import compile_catalog
from catalog_compiler.errors import ArtifactError
from catalog_compiler.grammar.placement import Placement
from catalog_compiler.model import ToolSet
from tests.catalog_compiler.compiling.conftest import byte_level, make_tool

if TYPE_CHECKING:
    from catalog_compiler.model import Tool

TOKENIZER = byte_level()
CITY = {"type": "string", "minLength": 1, "pattern": "^[A-Z]"}
SHADE = {"type": "string", "format": "shade-of-grey"}
LIST = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}


def tool(name: str, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return make_tool(name, f"It is {name}.", input_schema=schema, pointer=f"/tools/{name}")


TOOLS = (
    tool("kettle", litres={"type": "number", "minimum": 0}, city=CITY),
    tool("lamp", place=CITY, tree={"$ref": "#/properties/tree/$defs/n", "$defs": {"n": {}}}),
    tool("train", numbers=LIST, shade=SHADE),
    tool("wrong", number={"type": "integer", "minimum": 3, "maximum": 2}),
    make_tool("bare", "It has no schema."),
)


def compiled(*tools: Tool, previous: CompiledCatalog | None = None) -> CompiledCatalog:
    data = compile_catalog(
        ToolSet(tools, ()), TOKENIZER, Placement(), tokenizer_digest="t", previous=previous
    )
    return CompiledCatalog.from_bytes(data)


def test_every_tools_grammar_comes_back() -> None:
    """By its root; where arguments are refused there is none, with the reason."""
    catalog = compiled(*TOOLS)
    roots = dict(zip(catalog.names, catalog.arguments["roots"].tolist(), strict=True))
    grammar = grammar_at(catalog.arguments, roots["kettle"])
    assert accepts(grammar, {"litres": 2.5, "city": "Ulm"})
    assert not accepts(grammar, {"litres": -1})
    assert not accepts(grammar, {"litres": 1, "other": 1})  # what is not declared is not written
    assert (roots["wrong"], roots["bare"]) == (-1, -1)
    notes = {name: catalog.argument_notes(place) for place, name in enumerate(catalog.names)}
    refusals = {name: own.refusal for name, own in notes.items() if own.refusal is not None}
    codes = {name: refusal.code for name, refusal in refusals.items()}
    assert codes == {"wrong": "arguments-impossible", "bare": "arguments-unknown"}
    assert [note.pointer for note in notes["train"].checked_after] == [
        "/properties/numbers/uniqueItems"
    ]
    assert notes["kettle"].checked_after == ()


def test_a_fault_of_the_compiler_is_one_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails on one schema refuses its arguments by name; the others are compiled."""

    def failing(schema: Any, **options: Any) -> Any:
        if "city" in schema["properties"]:
            raise OverflowError("a number is too large")
        return compile_schema(schema, **options)

    monkeypatch.setattr(catalog, "compile_schema", failing)
    made = compiled(*TOOLS[:2])
    roots = dict(zip(made.names, made.arguments["roots"].tolist(), strict=True))
    assert (roots["kettle"], roots["lamp"] >= 0) == (-1, True)
    (told,) = (found for found in made.diagnostics if found.code == "arguments-refused")
    assert told.tool == "kettle"
    assert "OverflowError: a number is too large (arguments-fault)" in told.message


def test_the_owner_is_told() -> None:
    """Of what is refused and of what is checked afterwards, with the place; the tool is kept."""
    catalog = compiled(*TOOLS)
    told = {(found.tool, found.code): found for found in catalog.diagnostics}
    assert set(told) == {
        ("train", "arguments-checked-after"),
        ("train", "arguments-not-enforced"),
        ("wrong", "arguments-refused"),
    }
    assert "shade-of-grey" in told["train", "arguments-not-enforced"].message
    assert "/properties/numbers/uniqueItems" in told["train", "arguments-checked-after"].message
    assert told["wrong", "arguments-refused"].pointer == "/tools/wrong"
    assert len(catalog) == len(TOOLS)


def test_an_earlier_compilation_changes_no_bit() -> None:
    """One tool changed, one gone, one new: the bytes of a fresh compilation."""
    before = compiled(*TOOLS)
    changed = (tool("kettle", litres={"type": "integer"}), *TOOLS[2:], tool("new", city=CITY))
    assert compiled(*changed, previous=before).digest == compiled(*changed).digest
    assert compiled(*TOOLS, previous=before).digest == before.digest


def test_what_has_not_changed_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the changed tool's schema is read."""
    before = compiled(*TOOLS)
    read = []

    def reading(schema: Any, **options: Any) -> Any:
        read.append(schema)
        return original(schema, **options)

    from catalog_compiler.arguments import catalog as module  # noqa: PLC0415

    original = module.compile_schema
    monkeypatch.setattr(module, "compile_schema", reading)
    changed = tool("kettle", litres={"type": "integer"})
    compiled(changed, *TOOLS[1:], previous=before)
    assert read == [changed.input_schema]


def test_ten_thousand_tools_stay_small() -> None:
    """Tools that differ in one key share all else: a few dozen bytes of tables for each."""
    tools = [
        tool(f"tool_{number:05}", litres={"type": "number"}, city=CITY, when={"format": "date"})
        for number in range(2_000)
    ]
    several = compiled(*tools)
    assert len(several.arguments["nodes"]) == len(compiled(tools[0]).arguments["nodes"])
    other = compiled(*(tool(f"t{n:05}", **{f"key_{n:05}": CITY}) for n in range(500)))
    assert len(other.arguments["nodes"]) == 500 + 1
    assert len(other.arguments["automata"]) == 1


def test_altered_notes_and_tables_are_refused() -> None:
    """By name, when they are read."""
    catalog = compiled(*TOOLS)
    with pytest.raises(ArtifactError, match="malformed"):
        type(catalog.argument_notes(0)).from_json(b'{"refusal": 3}')
    arrays = {name: np.array(array) for name, array in catalog.arguments.items()}
    arrays["nodes"][:, 0] = 99
    with pytest.raises(ArtifactError, match="no kind 99"):
        grammar_at(arrays, int(arrays["roots"][1]))
