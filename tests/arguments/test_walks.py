"""From schema to tables to machine to text: whatever is written validates, and all can be written.

Schemas and catalogs go through the compiler and the decoder's machine as they do in service; a
random walk stands for the model, since it says what no model would.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments.arrange import arrange
from catalog_compiler.arguments.schema import compile_schema, validator
from catalog_compiler.arguments.tables import ArgumentPool
from catalog_compiler.frontend import load_toolset
from decoder.arguments import ArgumentMachine, ArgumentTables, TokenVocabulary
from decoder.errors import BudgetError
from tests.catalog_compiler.arguments.test_schema_random import AGAIN, SCHEMAS, VALUES

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_compiler.arguments.nodes import ArgumentGrammar
    from decoder.arguments import ArgumentSession

PIECES = (
    *(b'", "', b'": ', b'{"', b'"}', b"], ", b": [", b"true", b"null", b'a": ', b"\\u00", b"\\ud8"),
    *(b"12", b".5", b"-1", b"ab", b"aa", "é".encode(), "🙂".encode(), b"\xf0\x9f", b"20", b"-0"),
)
VOCABULARY = TokenVocabulary([*(bytes([byte]) for byte in range(256)), *PIECES, None])
WALKED_TOKENS = 60


def machine_of(*grammars: ArgumentGrammar, kernels: str) -> tuple[ArgumentMachine, list[int]]:
    pool = ArgumentPool()
    roots = [pool.add(grammar) for grammar in grammars]
    arrays = {"roots": np.array(roots, np.int32), **pool.to_arrays()}
    machine = ArgumentMachine(ArgumentTables.from_arrays(arrays), VOCABULARY, kernels=kernels)
    return machine, roots


def walked(session: ArgumentSession, choose: random.Random, most: int = WALKED_TOKENS) -> bytes:
    """Write random tokens, then end in the shortest way."""
    text = b""
    for _ in range(most):
        if session.finished or (session.accepts and choose.random() < 0.2):
            break
        allowed = session.allowed()
        if not len(allowed):
            assert session.accepts, f"no token after {text!r}"
            break
        token = int(choose.choice(allowed))
        session.advance(token)
        text += VOCABULARY.spelling(token) or b""
    rest = session.shortest()
    assert session.advance_bytes(rest), (text, rest)
    assert session.accepts
    return text + rest


def read(text: bytes) -> Any:
    """Read a text as JSON, refusing keys that come twice."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), f"a key comes twice in {text!r}"
        return dict(pairs)

    return json.loads(text, object_pairs_hook=members, parse_float=Decimal)


@pytest.mark.parametrize("kernels", ["reference", "native"])
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
@given(SCHEMAS, AGAIN, st.integers(0, 2**32))
def test_what_is_written_validates(
    kernels: str, schema: dict[str, Any], again: Any, seed: int
) -> None:
    """Any walk through any schema's machine, under the standard validator."""
    schema = {**schema, "$defs": {"again": again}}
    compiled = compile_schema(schema)
    if compiled.grammar is None:
        return
    machine, (root,) = machine_of(compiled.grammar, kernels=kernels)
    errors = validator(schema)
    for walk in range(2):
        text = walked(machine.begin(root), random.Random(seed + walk))
        try:
            found = errors(read(text))
        except RecursionError:  # the validator follows a $ref that leads back to itself
            return
        assert compiled.checked_after or not found, (json.dumps(schema), text, found)


@pytest.mark.parametrize("kernels", ["reference", "native"])
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
@given(SCHEMAS, AGAIN, st.lists(st.sampled_from(VALUES), min_size=6, max_size=12))
def test_what_is_valid_can_be_written(
    kernels: str, schema: dict[str, Any], again: Any, values: list[Any]
) -> None:
    """Every valid value has a spelling that the machine takes; an invalid one has none."""
    schema = {**schema, "$defs": {"again": again}}
    compiled = compile_schema(schema)
    errors = validator(schema)
    if compiled.grammar is None:
        return
    machine, (root,) = machine_of(compiled.grammar, kernels=kernels)
    for value in values:
        taken = False
        for text in arrange(compiled.grammar, value):
            session = machine.begin(root)
            taken = taken or (session.advance_bytes(text.encode()) and session.accepts)
        try:
            valid = errors(value) == []
        except RecursionError:
            return
        if valid:
            assert taken, (json.dumps(schema), value)
        elif not compiled.checked_after:
            assert not taken, (json.dumps(schema), value)


@pytest.mark.slow
@pytest.mark.shared_data
def test_real_schemas_are_walked_into_valid_values(shared_data: Path) -> None:
    """Of every real schema at hand, three walks each."""
    path = shared_data / "schemas" / "maskbench_dev.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    wrong = []
    for number, row in enumerate(rows):
        compiled = compile_schema(row["schema"])
        if compiled.grammar is None:
            continue
        machine, (root,) = machine_of(compiled.grammar, kernels="native")
        errors = validator(row["schema"])
        for walk in range(3):
            text = walked(machine.begin(root), random.Random(10 * number + walk))
            if errors(read(text)) and not compiled.checked_after:
                wrong.append((row["id"], text))
    assert wrong == []


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize("catalog", ["github_mcp", "livemcpbench", "toucan_live"])
def test_every_tool_of_real_catalogs_gets_valid_arguments(shared_data: Path, catalog: str) -> None:
    """All tools in one pool, as they are served: all of the arguments validate."""
    toolset = load_toolset([str(shared_data / "catalogs" / f"{catalog}.json")])
    compiled = [
        compile_schema(tool.input_schema, root_object=True, close_objects=True)
        for tool in toolset.tools
    ]
    kept = [
        (tool, each) for tool, each in zip(toolset.tools, compiled, strict=True) if each.grammar
    ]
    assert len(kept) > 0.99 * len(toolset.tools)
    grammars = [each.grammar for _, each in kept if each.grammar is not None]
    machine, roots = machine_of(*grammars, kernels="native")
    wrong = []
    for number, ((tool, each), root) in enumerate(zip(kept, roots, strict=True)):
        errors = validator(tool.input_schema)
        text = walked(machine.begin(root), random.Random(number))
        value = read(text)
        if (errors(value) and not each.checked_after) or not isinstance(value, dict):
            wrong.append((tool.name, text))
    assert wrong == []


@pytest.mark.parametrize("kernels", ["reference", "native"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 2**40},
        {"type": "string", "minLength": 2**40, "pattern": "^a+$"},
        {"type": "array", "minItems": 2**40},
        {"type": "object", "minProperties": 2**40},
    ],
)
def test_what_is_beyond_reach_begins_and_says_so(schema: dict[str, Any], kernels: str) -> None:
    """A budget is too small for it, whatever it is; that is told at once."""
    grammar = compile_schema(schema).grammar
    assert grammar is not None
    machine, (root,) = machine_of(grammar, kernels=kernels)
    with pytest.raises(BudgetError, match="lower the schema's bounds"):
        machine.begin(root).shortest()


def test_the_shortest_of_many_items() -> None:
    """The first ones have schemas of their own; the others are alike."""
    schema = {"minItems": 4, "type": "array", "prefixItems": [{"const": "a"}, {"const": [1]}]}
    grammar = compile_schema(schema).grammar
    assert grammar is not None
    machine, (root,) = machine_of(grammar, kernels="reference")
    assert json.loads(machine.begin(root).shortest()) == ["a", [1], 0, 0]
