"""Real schemas: the rows of the development data and the official test suite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema, validator
from tests.catalog_compiler.arguments.invariants import check

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_compiler.arguments.schema import CompiledSchema

FUNCTION_CALLS = ("Glaiveai2K", "BFCL", "MCPspec")
FOREIGN = {"ref-remote", "ref-dynamic", "dialect-unknown"}


def wrong(compiled: CompiledSchema, schema: Any, tests: list[Any], *, formats: bool) -> list[Any]:
    """Return the tests that the grammar, with the check after it, answers wrongly."""
    if compiled.grammar is None:
        return []
    check(compiled.grammar)
    errors = validator(schema, assert_formats=formats)
    found = []
    for test in tests:
        accepted = accepts(compiled.grammar, test["data"])
        if accepted and compiled.checked_after:
            accepted = errors(test["data"]) == []
        if accepted != test["valid"]:
            found.append(test)
    return found


@pytest.mark.shared_data
@pytest.mark.slow
def test_rows(shared_data: Path) -> None:
    """No invalid value is accepted, no valid one refused, and function calls compile."""
    lines = (shared_data / "schemas" / "maskbench_dev.jsonl").read_text(encoding="utf-8")
    failures, refused, total = [], 0, 0
    for line in lines.splitlines():
        row = json.loads(line)
        compiled = compile_schema(row["schema"])
        if wrong(compiled, row["schema"], row["tests"], formats=True):
            failures.append(row["id"])
        if row["set"] in FUNCTION_CALLS:
            total += 1
            refused += compiled.grammar is None
    assert failures == []
    assert refused <= total * 0.05


@pytest.mark.shared_data
@pytest.mark.slow
def test_official_suite(shared_data: Path) -> None:
    """Every answer of the suite, where formats only describe."""
    path = shared_data / "schemas" / "json_schema_test_suite_2020_12.json"
    failures = []
    for keyword, groups in json.loads(path.read_text(encoding="utf-8")).items():
        for group in groups:
            compiled = compile_schema(group["schema"], assert_formats=False)
            name = f"{keyword}: {group['description']}"
            if wrong(compiled, group["schema"], group["tests"], formats=False):
                failures.append(name)
            elif compiled.refusal is not None and compiled.refusal.code not in FOREIGN:
                assert compiled.refusal.code == "arguments-impossible", name
                assert not any(test["valid"] for test in group["tests"]), name
    assert failures == []


@pytest.mark.shared_data
@pytest.mark.parametrize("catalog", ["github_mcp", "livemcpbench", "toucan_live"])
def test_catalogs(shared_data: Path, catalog: str) -> None:
    """The tools of every catalog compile, or say why not."""
    document = json.loads((shared_data / "catalogs" / f"{catalog}.json").read_text("utf-8"))
    schemas = list(input_schemas(document))
    assert len(schemas) > 50
    for schema in schemas:
        compiled = compile_schema(schema, root_object=True)
        assert compiled.grammar is not None or compiled.refusal is not None
        if compiled.grammar is not None:
            check(compiled.grammar)


def input_schemas(value: Any) -> Any:
    """Yield whatever the document calls an input schema."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("inputSchema", "input_schema") and isinstance(each, dict):
                yield each
            else:
                yield from input_schemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from input_schemas(each)
