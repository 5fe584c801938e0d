"""How the kernels are compiled: sources and flags.

Run `python -m decoder.kernels.build` to build ahead of time.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from decoder.native_library import NativeLibrary

KERNELS = NativeLibrary(
    name="native",
    source=Path(__file__).with_name("native.c"),
    headers=("stated.h", "products.h", "attention.h", "pass.h"),
    flags=(
        *("-O3", "-march=native", "-std=c11", "-fPIC", "-shared", "-fopenmp"),
        # The definition has no fused multiply-add; a contraction would change bits.
        *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
        # Vectors wider than the registers are passed between inlined functions alone.
        "-Wno-psabi",
        # Compilers shy away from the widest registers, whose first users slowed their clock.
        *(("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()),
    ),
)


def build_library() -> Path:
    """Return the compiled kernels; see `NativeLibrary.build`."""
    return KERNELS.build()


if __name__ == "__main__":
    sys.stdout.write(f"{build_library()}\n")
