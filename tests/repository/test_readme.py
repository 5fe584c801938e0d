"""What the documents tell people to type exists, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from router.cli.main import COMMANDS, pointsman

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):(?!=)", MAKEFILE, re.MULTILINE))
IDS = [str(path.relative_to(REPOSITORY)) for path in DOCUMENTS]


def code(path: Path) -> str:
    """Return what stands between backticks, in blocks and in lines."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def test_every_target_is_phony_and_helped() -> None:
    """`make help` lists each target that a person may call."""
    phony = set(re.findall(r"^\.PHONY: ([a-z]+)$", MAKEFILE, re.MULTILINE))
    helped = set(re.findall(r"^([a-z]+):.*## ", MAKEFILE, re.MULTILINE))
    assert TARGETS == phony == helped
    assert {"demo", "test", "venv", "assets", "lint", "format", "proto", "lock"} <= TARGETS


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_make_targets_exist(path: Path) -> None:
    """No document names a make target that is not there."""
    named = set(re.findall(r"(?:^|[`$ ])make ([a-z]+)", code(path), re.MULTILINE))
    assert named <= TARGETS


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_commands_and_options_exist(path: Path) -> None:
    """No document names a subcommand or an option that `pointsman` does not know."""
    context = click.Context(pointsman)
    for line in re.findall(r"(?:^|[`$ ])pointsman ([^`\n]+)", code(path), re.MULTILINE):
        words = line.split()
        if words[0] not in COMMANDS:
            assert words[0].isupper() or words[0].startswith("-"), line
            continue
        command = pointsman.get_command(context, words[0])
        assert command is not None
        if isinstance(command, click.Group) and len(words) > 1 and words[1].islower():
            inner = command.get_command(context, words[1])
            assert inner is not None, line
            command = inner
        known = {option for parameter in command.params for option in parameter.opts}
        known |= {option for parameter in command.params for option in parameter.secondary_opts}
        used = {word.split("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert used <= known | {"--help", "-h"}, line


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_links_lead_somewhere(path: Path) -> None:
    """Each relative link names a file of the repository."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_python_examples_compile() -> None:
    """The README's Python is Python, and what it imports from us is there."""
    text = DOCUMENTS[0].read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(block, "README.md", "exec")
        imports = [line for line in block.splitlines() if re.match(r"(from|import) ", line)]
        exec("\n".join(imports), {})
