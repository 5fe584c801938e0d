"""The repository's own rules: imports, locked packages, and what must never lie in it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
SENTENCE_LENGTH = 40
"""Characters: a description of the data that begins like this in the tree was copied."""


def project() -> dict[str, Any]:
    document = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    table: dict[str, Any] = document["project"]
    return table


def locked() -> dict[str, str]:
    lines = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def tracked() -> list[Path]:
    """Return the files that git knows, skipping where this is no git checkout."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = (REPOSITORY / name for name in done.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


@pytest.mark.slow
def test_import_rules_hold() -> None:
    """No package imports one that DESIGN keeps it from."""
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("extra", ["runtime", "dev"])
def test_lock_satisfies_pyproject(extra: str) -> None:
    """Each package that pyproject.toml asks for is locked at a version that it allows."""
    pins = locked()
    extras = project()["optional-dependencies"]
    asked = list(project()["dependencies"] if extra == "runtime" else extras["dev"])
    for text in asked:
        requirement = Requirement(text)
        if requirement.name == project()["name"]:  # it asks for more of its own extras
            asked += [further for wanted in requirement.extras for further in extras[wanted]]
            continue
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked; run make lock"
        assert requirement.specifier.contains(version), f"{text}, but {version} is locked"


def test_lock_holds_exact_plain_versions() -> None:
    """No ranges and no local builds: those are not on every index."""
    for name, version in locked().items():
        assert re.fullmatch(r"[0-9][A-Za-z0-9.!]*", version), f"{name}=={version}"


def test_lock_is_closed() -> None:
    """What locked packages need on this machine is locked too, as far as it is installed."""
    pins = locked()
    # Parts of a CUDA build of torch belong to the index that offers it.
    elsewhere = re.compile(r"nvidia-|cuda-|triton$|pip$")
    for name in pins:
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            needed_name = canonicalize_name(requirement.name)
            if needed and not elsewhere.match(needed_name):
                assert needed_name in pins, f"{name} needs {text}, which is not locked"


def test_grpcio_is_held_where_calls_are_cancelled_and_limits_hold() -> None:
    """Every grpcio package stays within 1.80 to 1.82 (DESIGN 6)."""
    texts = [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]
    found = [Requirement(text) for text in texts if text.startswith("grpcio")]
    assert len(found) >= 5
    for requirement in found:
        for version, allowed in (("1.79.9", False), ("1.80.0", True), ("1.82.9", True)):
            assert requirement.specifier.contains(version) is allowed, requirement
        assert not requirement.specifier.contains("1.83.0"), requirement


def test_installed_packages_are_the_locked_ones() -> None:
    """Tests run on what the lock says, or they prove nothing about it."""
    wrong = {
        name: (metadata.version(name).split("+")[0], version)
        for name, version in locked().items()
        if metadata.version(name).split("+")[0] != version
    }
    assert not wrong, f"installed, locked: {wrong}; run make venv"


def test_no_weights_or_packages_are_tracked() -> None:
    """Weights, archives and compiled files are fetched or built, never committed."""
    suffixes = {".gguf", ".safetensors", ".whl", ".bin", ".so", ".catalog", ".pt", ".zip", ".gz"}
    assert not [path for path in tracked() if path.suffix in suffixes]
    assert not [path for path in tracked() if path.stat().st_size > 1_000_000]


@pytest.mark.shared_data
@pytest.mark.slow
def test_no_sentence_of_the_development_data_is_tracked(shared_data: Path) -> None:
    """No description or query of the data stands in any file of ours."""
    sentences: set[str] = set()
    text_value = re.compile(rf'"(?:description|query)": "((?:[^"\\]|\\.){{{SENTENCE_LENGTH},}}?)"')
    for path in [*shared_data.glob("catalogs/*.json"), *shared_data.glob("eval/*/*.json*")]:
        sentences.update(text_value.findall(path.read_text(encoding="utf-8")))
    assert len(sentences) > 1000
    # A description of ours may say the same thing as another's only if it is not this long.
    starts = {sentence[:SENTENCE_LENGTH] for sentence in sentences}
    for path in tracked():
        try:
            ours = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        copied = {
            ours[at : at + SENTENCE_LENGTH]
            for at in range(len(ours) - SENTENCE_LENGTH + 1)
            if ours[at : at + SENTENCE_LENGTH] in starts
        }
        assert not copied, f"{path.relative_to(REPOSITORY)} holds {copied}"
