"""The functions of the benchmark's package: which, in what order, and what is wrong with a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from demo.bfcl import CATEGORIES, BfclError, read_functions, write_catalog
from router import assets

if TYPE_CHECKING:
    from pathlib import Path


def function(name: str, description: str = "Does it.") -> dict[str, object]:
    return {"name": name, "description": description, "parameters": {"type": "dict"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for category in CATEGORIES:
        (tmp_path / f"BFCL_v4_{category}.json").write_text(
            json.dumps({"id": "0", "question": [["secret"]], "function": [function(category)]})
            + "\n",
            encoding="utf-8",
        )
    return tmp_path


def test_functions_come_from_every_category_in_order(folder: Path) -> None:
    """Each category gives its functions, as MCP tools, and no question comes along."""
    tools = read_functions(folder)
    assert [tool["name"] for tool in tools] == list(CATEGORIES)
    assert set(tools[0]) == {"name", "description", "inputSchema"}
    assert "secret" not in json.dumps(tools)


def test_first_definition_of_a_name_wins(folder: Path) -> None:
    """A name that comes again, in the same file or a later one, changes nothing."""
    first, second = (folder / f"BFCL_v4_{category}.json" for category in CATEGORIES[:2])
    again = [function(CATEGORIES[0], "Again."), function("new")]
    with first.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"function": again}) + "\n")
    second.write_text(json.dumps({"function": [function("new", "Later.")]}), encoding="utf-8")
    tools = {tool["name"]: tool["description"] for tool in read_functions(folder)}
    assert tools[CATEGORIES[0]] == "Does it."
    assert tools["new"] == "Does it."


def test_missing_file_is_named(folder: Path) -> None:
    """The message names the file and how to get it."""
    (folder / "BFCL_v4_multiple.json").unlink()
    with pytest.raises(BfclError, match=r"BFCL_v4_multiple\.json .*router\.assets fetch"):
        read_functions(folder)


@pytest.mark.parametrize("line", ["{", "[]", '{"function": [{"name": "x"}]}', "null"])
def test_line_without_functions_is_named(folder: Path, line: str) -> None:
    """The message names file and line."""
    with (folder / "BFCL_v4_multiple.json").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(BfclError, match=r"BFCL_v4_multiple\.json, line 2"):
        read_functions(folder)


def test_package_holds_1246_functions(tmp_path: Path) -> None:
    """The pinned package gives 1,246 names, written as a list that is read back the same."""
    path = tmp_path / "bfcl.json"
    assert write_catalog(assets.bfcl_dir(), path) == 1246
    tools = json.loads(path.read_text(encoding="utf-8"))["tools"]
    assert len({tool["name"] for tool in tools}) == 1246


@pytest.mark.shared_data
def test_same_functions_as_the_development_data(shared_data: Path) -> None:
    """The catalog that accuracy is measured on has the same names, texts and schemas."""
    path = shared_data / "eval" / "bfcl_union" / "catalog.json"
    theirs = json.loads(path.read_text(encoding="utf-8"))["tools"]
    assert read_functions(assets.bfcl_dir()) == theirs
