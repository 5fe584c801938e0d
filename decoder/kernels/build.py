"""Compile `native.c` on the machine that runs it, once, into the cache.

Owns the compiler call and where its result lies. The library is built for this very CPU, so it is
keyed by the source, the flags, the compiler and the CPU's own feature flags, and never shipped.

Run `python -m decoder.kernels.build` to build ahead of time.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from decoder.cache import cache_dir, read_sealed, write_sealed
from decoder.errors import KernelError

SOURCE = Path(__file__).with_name("native.c")
HEADERS = tuple(
    SOURCE.with_name(name) for name in ("stated.h", "products.h", "attention.h", "pass.h")
)
FLAGS = (
    *("-O3", "-march=native", "-std=c11", "-fPIC", "-shared", "-fopenmp"),
    # The definition has no fused multiply-add; a contraction would change bits.
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    # Vectors wider than the registers are passed between inlined functions alone.
    "-Wno-psabi",
    # Compilers shy away from the widest registers, whose first users slowed their clock.
    *(("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()),
)


def build_library() -> Path:
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
    target = cache_dir("kernels") / f"native-{_key(compiler)}.so"
    if read_sealed(target) is None:  # a damaged library would crash, or compute wrongly
        _compile(compiler, target)
    return target


def _key(compiler: str) -> str:
    digest = hashlib.sha256()
    for source in (SOURCE, *HEADERS):
        digest.update(source.read_bytes())
    digest.update("\0".join(FLAGS).encode())
    version = _run([compiler, "-dumpfullversion", "-dumpversion"])
    digest.update(f"{compiler}\0{version.stdout}\0{platform.machine()}\0{_cpu_flags()}".encode())
    return digest.hexdigest()[:24]


def _cpu_flags() -> str:
    """Return the CPU's feature flags, since a cache may be shared by machines that differ."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return next((ln for ln in text.splitlines() if ln.startswith(("flags", "Features"))), "")


def _compile(compiler: str, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / "native.so"
            done = _run([compiler, *FLAGS, "-o", str(made), str(SOURCE), "-lm"])
            if done.returncode != 0:
                raise KernelError(
                    f"{compiler} could not compile {SOURCE}: {done.stderr.strip()[-2000:]}; mend "
                    "the compiler, or ask for the slow kernels with kernels='reference'"
                )
            write_sealed(target, made.read_bytes())
    except OSError as error:
        raise KernelError(
            f"cannot write {target}: {error}; set POINTSMAN_CACHE to a folder that can be written"
        ) from error


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise KernelError(f"cannot run {command[0]}: {error}; set CC to a C compiler") from error


if __name__ == "__main__":
    sys.stdout.write(f"{build_library()}\n")
