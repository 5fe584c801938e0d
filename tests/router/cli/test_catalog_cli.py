"""`pointsman catalog`: outputs for people and machines, exit codes, hostile input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from catalog_compiler.artifact import open_artifact
from router.cli.catalog import catalog

TOOLS: list[dict[str, Any]] = [
    {
        "name": "kettle_boil",
        "description": "Boils the water that is in the kitchen kettle.",
        "inputSchema": {"type": "object", "properties": {"litres": {"type": "number"}}},
    },
    {
        "name": "lamp_on",
        "description": "Lights the lamp in the hall until it is put out.",
        "inputSchema": {"type": "object", "properties": {}},
    },
    {
        "name": "train_book",
        "description": "Books a seat by the window of the night train.",
        "inputSchema": {"type": "object", "properties": {"day": {"type": "string"}}},
    },
]


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a byte-level tokenizer with ChatML tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def write_tools(path: Path, tools: list[dict[str, Any]]) -> Path:
    """Write an MCP tools/list result."""
    path.write_text(json.dumps({"tools": tools}))
    return path


def run(*arguments: object) -> Result:
    """Run `pointsman catalog` in this process."""
    return CliRunner().invoke(catalog, [str(argument) for argument in arguments])


@pytest.fixture
def compiled(tmp_path: Path, tokenizer_file: Path) -> Path:
    """Compile the three tools."""
    source = write_tools(tmp_path / "tools.json", TOOLS)
    out = tmp_path / "home.catalog"
    result = run("compile", source, "-o", out, "--tokenizer", tokenizer_file, "--no-index")
    assert result.exit_code == 0, result.output
    return out


def test_compile_for_people(compiled: Path, tokenizer_file: Path, tmp_path: Path) -> None:
    """A line says what was made; a second run gives the same file."""
    before = compiled.read_bytes()
    result = run(
        *("compile", tmp_path / "tools.json", "-o", compiled),
        *("--tokenizer", tokenizer_file, "--no-index"),
    )
    assert result.exit_code == 0
    assert "3 tools" in result.stdout
    assert open_artifact(compiled).digest in result.stdout
    assert compiled.read_bytes() == before


def test_compile_for_machines(tmp_path: Path, tokenizer_file: Path) -> None:
    """--json prints one object; in a folder the file is named by its digest."""
    source = write_tools(tmp_path / "tools.json", TOOLS)
    folder = tmp_path / "out"
    folder.mkdir()
    result = run(
        *("compile", source, "-o", folder, "--tokenizer", tokenizer_file),
        *("--no-index", "--json"),
    )
    record = json.loads(result.stdout)
    assert record["tools"] == 3
    assert record["none_text"] == "none"
    assert Path(record["output"]).name == f"{record['digest']}.catalog"
    assert record["prompt_tokens"] == int(open_artifact(Path(record["output"])).token_counts.sum())


def test_strict_compile_leaves_nothing(tmp_path: Path, tokenizer_file: Path) -> None:
    """A tool that has to be set aside fails --strict with 1, and is a finding without it."""
    source = write_tools(tmp_path / "tools.json", [*TOOLS, {"name": "", "description": "x"}])
    out = tmp_path / "x.catalog"
    options = ("compile", source, "-o", out, "--tokenizer", tokenizer_file, "--no-index")
    result = run(*options, "--strict")
    assert result.exit_code == 1, result.output
    assert not out.exists()
    result = run(*options, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["findings"]["error"] >= 1


def test_compile_never_overwrites_what_is_no_catalog(tmp_path: Path, tokenizer_file: Path) -> None:
    """The input given as output by mistake survives."""
    source = write_tools(tmp_path / "tools.json", TOOLS)
    before = source.read_bytes()
    result = run("compile", source, "-o", source, "--tokenizer", tokenizer_file, "--no-index")
    assert result.exit_code == 3
    assert "not overwritten" in result.stderr
    assert source.read_bytes() == before


def test_a_damaged_catalog_at_the_output_is_replaced(
    compiled: Path, tokenizer_file: Path, tmp_path: Path
) -> None:
    """It is compiled from nothing, and the result is sound."""
    good = compiled.read_bytes()
    compiled.write_bytes(good[:-10])
    result = run(
        *("compile", tmp_path / "tools.json", "-o", compiled),
        *("--tokenizer", tokenizer_file, "--no-index"),
    )
    assert result.exit_code == 0
    assert compiled.read_bytes() == good


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "\0\1\2"])
def test_unreadable_input(content: str, tmp_path: Path, tokenizer_file: Path) -> None:
    """What is no tool schema gives exit 3, a message, and no output."""
    source = tmp_path / "bad.json"
    source.write_text(content)
    out = tmp_path / "x.catalog"
    result = run("compile", source, "-o", out, "--tokenizer", tokenizer_file, "--no-index")
    assert result.exit_code == 3, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stdout == ""
    assert not out.exists()


def test_a_bad_tokenizer(tmp_path: Path) -> None:
    """A file that is no tokenizer is named; contradictory options are wrong usage."""
    source = write_tools(tmp_path / "tools.json", TOOLS)
    options = ("compile", source, "-o", tmp_path / "x.catalog", "--no-index")
    result = run(*options, "--tokenizer", source)
    assert result.exit_code == 3
    assert "tokenizer" in result.stderr
    assert run(*options, "--tokenizer", source, "--model", source).exit_code == 2
    assert run(*options, "--end-of-turn", "x").exit_code == 2


def test_show(compiled: Path) -> None:
    """The catalog, one tool, and both for machines."""
    result = run("show", compiled)
    assert result.exit_code == 0
    for tool in TOOLS:
        (line,) = [row for row in result.stdout.splitlines() if row.startswith(tool["name"])]
        assert line.endswith(tool["description"])
    record = json.loads(run("show", compiled, "--json").stdout)
    assert [tool["name"] for tool in record["tools"]] == [tool["name"] for tool in TOOLS]
    result = run("show", compiled, "kettle_boil")
    assert "litres" in result.stdout
    record = json.loads(run("show", compiled, "lamp_on", "--json").stdout)
    assert record["description"] == TOOLS[1]["description"]
    assert record["tokens"] > 0


def test_show_what_is_not_there(compiled: Path, tmp_path: Path) -> None:
    """An unknown tool suggests a near one; a file that is no catalog is refused."""
    result = run("show", compiled, "kettle_boyl")
    assert result.exit_code == 3
    assert "kettle_boil" in result.stderr
    assert run("show", write_tools(tmp_path / "x.json", TOOLS)).exit_code == 3
    assert run("show", tmp_path / "missing").exit_code == 2


def test_diff(compiled: Path, tmp_path: Path) -> None:
    """Catalogs and raw inputs compare; exit 1 exactly when they differ."""
    assert run("diff", compiled, compiled).exit_code == 0
    changed = [
        {**TOOLS[0], "description": "Cooks soup."},
        {**TOOLS[1], "name": "light_the_lamp"},
        {"name": "garden_mow", "description": "Mows the lawn.", "inputSchema": {}},
    ]
    other = write_tools(tmp_path / "other.json", changed)
    result = run("diff", compiled, other)
    assert result.exit_code == 1
    for line in (
        "added    garden_mow",
        "removed  train_book",
        "renamed  lamp_on -> light_the_lamp (same definition)",
        "changed  kettle_boil",
        "Cooks soup",
        "1 added, 1 removed, 1 renamed, 1 changed",
    ):
        assert line in result.stdout
    record = json.loads(run("diff", compiled, other, "--json").stdout)
    assert record["added"] == ["garden_mow"]
    assert run("diff", compiled, tmp_path / "missing").exit_code == 3


def test_lint(tmp_path: Path) -> None:
    """Clean is 0, an error is 1, a warning is 1 only under --strict."""
    clean = write_tools(tmp_path / "clean.json", TOOLS)
    result = run("lint", clean, "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["tools"]) == (0, 3)
    bad = write_tools(tmp_path / "bad.json", [*TOOLS, {"description": "no name"}])
    result = run("lint", bad)
    assert result.exit_code == 1
    assert "error[" in result.stdout
    bare = write_tools(tmp_path / "bare.json", [*TOOLS, {"name": "bare", "inputSchema": {}}])
    assert json.loads(run("lint", bare, "--json").stdout)["findings"]["warning"] >= 1
    assert run("lint", bare).exit_code == 0
    assert run("lint", bare, "--strict").exit_code == 1


@pytest.mark.model
def test_lint_deep(tmp_path: Path) -> None:
    """Pairs are told as notes, so that even --strict stays at 0."""
    twin = {**TOOLS[0], "name": f"{TOOLS[0]['name']}_again"}
    source = write_tools(tmp_path / "tools.json", [*TOOLS, twin])
    assert "hard-to-tell-apart" not in run("lint", source).stdout
    result = run("lint", source, "--deep", "--json")
    record = json.loads(result.stdout)
    told = [each for each in record["diagnostics"] if each["code"] == "hard-to-tell-apart"]
    assert twin["name"] in {each["tool"] for each in told} | {
        name for each in told for name in each["related"]
    }


def test_many_findings_are_counted_by_code(tmp_path: Path, tokenizer_file: Path) -> None:
    """`compile` prints errors and a count of each kind; `lint` prints every finding."""
    bare = [{"name": f"bare_{number}", "inputSchema": {}} for number in range(40)]
    source = write_tools(tmp_path / "tools.json", [*bare, {"description": "no name"}])
    out = tmp_path / "x.catalog"
    result = run("compile", source, "-o", out, "--tokenizer", tokenizer_file, "--no-index")
    assert "warning[empty-description] 40 such as bare_" in result.stdout
    assert "#/tools/40" in result.stdout
    assert "#/tools/39" not in result.stdout
    assert "#/tools/39" in run("lint", source).stdout


def test_report(compiled: Path, tmp_path: Path) -> None:
    """A page is written; a catalog is never written over."""
    page = tmp_path / "page.html"
    result = run("report", compiled, "-o", page, "--title", "Home <1>")
    assert result.exit_code == 0
    assert "Home &lt;1&gt;" in page.read_text()
    assert run("report", compiled, "-o", compiled).exit_code == 3
    assert run("report", page, "-o", tmp_path / "y.html").exit_code == 3


def test_hostile_texts_act_nowhere_on_a_terminal(tmp_path: Path, tokenizer_file: Path) -> None:
    """Escape sequences, markup and bidi marks of a catalog are printed as text."""
    hostile = "x\x1b]0;owned\x07[bold red]y[/]\u202e:smile:"
    tools = [*TOOLS, {"name": hostile, "description": hostile, "inputSchema": {}}]
    source = write_tools(tmp_path / "tools.json", tools)
    out = tmp_path / "x.catalog"
    outputs = [
        run("compile", source, "-o", out, "--tokenizer", tokenizer_file, "--no-index"),
        run("show", out),
        run("show", out, "--json"),
        run("lint", source),
        run("diff", write_tools(tmp_path / "other.json", TOOLS), source),
        run("show", out, hostile),
    ]
    for result in outputs:
        assert "\x1b" not in result.output
        assert "\u202e" not in result.output
        assert not isinstance(result.exception, Exception) or isinstance(
            result.exception, SystemExit
        )


def test_looking_needs_no_model() -> None:
    """The commands that only look start without torch, the decoder's kernels or the MCP SDK."""
    script = (
        "import sys, router.cli.catalog; "
        "heavy = {'torch', 'mcp', 'grpc', 'decoder.engine'} & set(sys.modules); "
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_show_tells_what_of_a_schema_holds_for_arguments(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    """Enforced, checked afterwards, or refused; for people and for machines."""
    schemas: dict[str, Any] = {
        "enforced": {"properties": {"litres": {"type": "integer", "minimum": 1}}},
        "checked": {"properties": {"all": {"type": "array", "uniqueItems": True}}},
        "refused": {
            "properties": {"text": {"allOf": [{"const": 1}, {"const": 2}]}},
            "required": ["text"],
        },
    }
    source = write_tools(
        tmp_path / "tools.json",
        [
            {
                "name": name,
                "description": f"A tool whose schema is {name}.",
                "inputSchema": {"type": "object", **schema},
            }
            for name, schema in schemas.items()
        ],
    )
    out = tmp_path / "tools.catalog"
    done = run("compile", source, "-o", out, "--tokenizer", tokenizer_file, "--no-index")
    assert done.exit_code == 0, done.output
    told = {name: run("show", out, name).stdout for name in schemas}
    records = {
        name: json.loads(run("show", out, name, "--json").stdout)["arguments"] for name in schemas
    }
    assert "arguments: decoded; the grammar enforces the whole schema" in told["enforced"]
    assert records["enforced"] == {"decoded": True, "refusal": None, "checked_after": []}
    assert "arguments: decoded, then checked" in told["checked"]
    (note,) = records["checked"]["checked_after"]
    assert note["pointer"].startswith("/properties/all")
    assert f"[{note['code']}]" in told["checked"]
    refusal = records["refused"]["refusal"]
    assert records["refused"]["decoded"] is False
    assert (
        f"arguments: refused at {refusal['pointer'] or '/'}: [{refusal['code']}]" in told["refused"]
    )
    assert refusal["mend"] in told["refused"]
