"""Compile C sources on the machine that runs them, once, into the cache.

Owns the compiler call and where its result lies. A library is built for this very CPU, so it is
keyed by its sources, the flags, the compiler and the CPU's own feature flags, and never shipped.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from decoder.cache import cache_dir, read_sealed, write_sealed
from decoder.errors import KernelError


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """One library: a source, the headers that are its own, and how it is compiled.

    Attributes:
        name: of the file in the cache.
        source: the C file.
        headers: names of files beside it.
        flags: for the compiler.

    """

    name: str
    source: Path
    headers: tuple[str, ...]
    flags: tuple[str, ...]

    def build(self) -> Path:
        """Return the compiled library, compiling it first where it is not cached.

        Raises:
            KernelError: no C compiler, a failed compilation, or a cache that can't be written.

        """
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            raise KernelError(
                "no C compiler found (looked for $CC, cc, gcc): install one, or ask for the slow "
                "kernels with kernels='reference'"
            )
        target = cache_dir("kernels") / f"{self.name}-{self._key(compiler)}.so"
        if read_sealed(target) is None:  # a damaged library would crash, or compute wrongly
            self._compile(compiler, target)
        return target

    def _key(self, compiler: str) -> str:
        digest = hashlib.sha256()
        for source in (self.source, *map(self.source.with_name, self.headers)):
            digest.update(source.read_bytes())
        digest.update("\0".join(self.flags).encode())
        version = _run([compiler, "-dumpfullversion", "-dumpversion"]).stdout
        digest.update(f"{compiler}\0{version}\0{platform.machine()}\0{_cpu_flags()}".encode())
        return digest.hexdigest()[:24]

    def _compile(self, compiler: str, target: Path) -> None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                made = Path(scratch) / "native.so"
                done = _run([compiler, *self.flags, "-o", str(made), str(self.source), "-lm"])
                if done.returncode != 0:
                    raise KernelError(
                        f"{compiler} could not compile {self.source}: "
                        f"{done.stderr.strip()[-2000:]}; mend the compiler, or ask for the slow "
                        "kernels with kernels='reference'"
                    )
                write_sealed(target, made.read_bytes())
        except OSError as error:
            raise KernelError(
                f"cannot write {target}: {error}; set POINTSMAN_CACHE to a folder that can be "
                "written"
            ) from error


def _cpu_flags() -> str:
    """Return the CPU's feature flags, since a cache may be shared by machines that differ."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return next((ln for ln in text.splitlines() if ln.startswith(("flags", "Features"))), "")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise KernelError(f"cannot run {command[0]}: {error}; set CC to a C compiler") from error
