"""Proof, at start, that this very machine computes what NUMERICS.md defines.

Owns the checks and their small inputs. A machine whose int8 products saturate (AVX2 without VNNI),
or whose compiler broke the order of operations, must not serve: it would answer with other bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decoder import golden_request
from decoder.errors import SelfCheckError
from decoder.kernels import layout
from decoder.kernels.base import (
    BLOCK_POSITIONS,
    F32,
    I8,
    HeadShape,
    Kernels,
    KVLayer,
    PathIndex,
    Quantised,
    QuantisedWeight,
)
from decoder.kernels.reference import ReferenceKernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from decoder.model import LoadedModel

_SEED = 20261201
_MANY_ROWS = 256
"""Planes of a prompt of 128 tokens."""


def self_check(model: LoadedModel) -> None:
    """Check products on the model's own shapes, every kernel, and one golden request.

    Takes less than a second.

    Raises:
        SelfCheckError: saying which operation differs.

    """
    kernels = model.transformer.kernels
    layer = model.transformer.weights.layers[0]
    rng = np.random.default_rng(_SEED)
    for name, weight in (
        ("qkv", layer.qkv),
        ("output", layer.output),
        ("gate_up", layer.gate_up),
        ("down", layer.down),
    ):
        _check_product(kernels, name, weight, rng)
    _check_rows(kernels, rng)
    _check_golden_request(kernels)


def _check_golden_request(kernels: Kernels) -> None:
    """Hold one whole request, through scheduler and walk, to the bits it must have."""
    found = golden_request.answer_digest(kernels)
    if found != golden_request.DIGEST:
        raise SelfCheckError(
            f"the golden request gave {found[:16]} in place of {golden_request.DIGEST[:16]} with "
            f"the {kernels.name} kernels, so answers would not be those of other machines; rebuild "
            "the kernels (python -m decoder.kernels.build), try another compiler through CC, or "
            "run with kernels='reference'"
        )


def _check_product(
    kernels: Kernels, name: str, weight: QuantisedWeight, rng: np.random.Generator
) -> None:
    """Compare with exact sums, on random planes and on those that saturate a 16-bit adder.

    The model's own shapes, whole: a library may choose another routine for another shape.
    """
    width = weight.values.shape[1]
    hostile = QuantisedWeight(
        np.concatenate([np.full((8, width), 127), np.full((8, width), -127)]).astype(np.int8),
        np.ones(16, np.float32),
    )
    exact, hostile_exact = (w.values.astype(np.float64).T for w in (weight, hostile))
    for rows in (2, 6, 34):
        noise = rng.integers(-128, 128, (rows, width), dtype=np.int8)
        low = np.full((rows, width), -128, np.int8)
        high = np.full((rows, width), 127, np.int8)
        for planes in (noise, low, high):
            _compare_product(kernels, name, planes, weight, exact)
            _compare_product(kernels, name, planes, hostile, hostile_exact)
    many = rng.integers(-128, 128, (_MANY_ROWS, width), dtype=np.int8)
    _compare_product(kernels, name, many, weight, exact)


def _compare_product(
    kernels: Kernels,
    name: str,
    planes: I8,
    weight: QuantisedWeight,
    transposed: NDArray[np.float64],
) -> None:
    # Exact in f64 in any order: every partial sum is an integer far below 2^53.
    exact = planes.astype(np.float64) @ transposed
    found = kernels.product(planes, weight)
    if not np.array_equal(found, exact):
        worst = int(np.abs(found.astype(np.float64) - exact).max())
        raise SelfCheckError(
            f"the int8 product of shape {planes.shape} x {weight.values.shape} ({name}) is off by "
            f"up to {worst} on this CPU, so answers would not be reproducible; run on a CPU with "
            "exact int8 products (AVX-512 VNNI, AVX-VNNI, AMX or ARM dot product), or with "
            "kernels='reference'"
        )


def _check_rows(kernels: Kernels, rng: np.random.Generator) -> None:
    """Compare the per-row kernels with the reference, bit for bit."""
    reference = ReferenceKernels()
    rows, width = 5, 96
    shape = HeadShape(heads=4, kv_heads=2, head_dim=16)
    x = rng.normal(size=(rows, width)).astype(np.float32)
    w = rng.normal(size=width).astype(np.float32)
    acc = rng.integers(-(10**6), 10**6, (2 * rows, 2 * width), dtype=np.int32)
    scale = rng.random(rows, dtype=np.float32) * np.float32(1e-3)
    columns = rng.random(2 * width, dtype=np.float32) * np.float32(1e-3)
    qkv = np.ascontiguousarray(acc[:, :128])
    angles = rng.random((rows, 8), dtype=np.float32)
    q = rng.normal(size=(rows, 4, 16)).astype(np.float32)
    cache = _filled_cache(rng, shape)
    path = PathIndex(
        table=np.array([2, 0, 1], np.int32),
        table_offsets=np.zeros(rows, np.int64),
        prefix=np.array([1, 63, 64, 65, 130], np.int32),
        tail=np.array([150, 131, 160], np.int32),
        tail_offsets=np.array([0, 0, 1, 3, 3, 3], np.int64),
    )

    def stored(k: Kernels) -> bytes:
        own = KVLayer(
            cache.keys.copy(),
            cache.values.copy(),
            cache.key_scale.copy(),
            cache.value_scale.copy(),
        )
        place = np.arange(rows, dtype=np.int32)
        rotated = k.qkv_store(
            qkv, scale, columns[:128].copy(), None, None, None, 1e-5, (angles, angles), place,
            place.astype(np.int64) * 37, shape, own,
        )  # fmt: skip
        return rotated.tobytes() + b"".join(part.tobytes() for part in _parts(own))

    def residual(k: Kernels) -> bytes:
        own = x.copy()
        rows_out = k.residual_rmsnorm_quantise(half, scale, columns[:width].copy(), w, 1e-5, own)
        return own.tobytes() + _bytes(rows_out)

    half = np.ascontiguousarray(acc[:, :width])
    table = QuantisedWeight(
        rng.integers(-127, 128, (50, width), dtype=np.int8), columns[:50].copy()
    )
    hidden = reference.quantise(x)
    ids = rng.integers(0, 50, rows).astype(np.int32)
    query = rng.integers(-4000, 4001, width).astype(np.int16)
    some_row = np.arange(rows, dtype=np.int32)[::-1].copy()
    checks: dict[str, Callable[[Kernels], bytes]] = {
        "embed": lambda k: k.embed(table, ids).tobytes(),
        "quantise": lambda k: _bytes(k.quantise(x)),
        "dequantise": lambda k: k.dequantise(
            half, scale, columns[:width].copy(), w, None
        ).tobytes(),
        "residual_rmsnorm_quantise": residual,
        "gathered_head": lambda k: k.gathered_head(hidden, table, some_row, ids).tobytes(),
        "dots": lambda k: k.dots(table.values.astype(np.int16) * 31, query).tobytes(),
        "rmsnorm_quantise": lambda k: _bytes(k.rmsnorm_quantise(x, w, 1e-5)),
        "silu_mul_quantise": lambda k: _bytes(k.silu_mul_quantise(acc, scale, columns)),
        "qkv_store": stored,
        "attention_quantise": lambda k: _bytes(k.attention_quantise(q, cache, path, 0.25, shape)),
    }
    for name, run in checks.items():
        if run(kernels) != run(reference):
            raise SelfCheckError(
                f"the {kernels.name} kernel {name} does not give the bits that NUMERICS.md "
                "defines on this machine; rebuild the kernels (python -m decoder.kernels.build), "
                "try another compiler through CC, or run with kernels='reference'"
            )


def _parts(cache: KVLayer) -> tuple[I8, I8, F32, F32]:
    return cache.keys, cache.values, cache.key_scale, cache.value_scale


def _filled_cache(rng: np.random.Generator, shape: HeadShape) -> KVLayer:
    """Return three blocks that hold drawn keys and values at every position."""
    blocks, heads, d = 3, shape.kv_heads, shape.head_dim
    slots = np.arange(blocks * BLOCK_POSITIONS, dtype=np.int64)
    cache = KVLayer(
        np.zeros((blocks, heads, layout.key_bytes(d)), np.int8),
        np.zeros((blocks, heads, layout.value_bytes(d)), np.int8),
        np.zeros((blocks, heads, BLOCK_POSITIONS), np.float32),
        np.zeros((blocks, heads, BLOCK_POSITIONS), np.float32),
    )
    keys, values = (
        layout.HeadIntegers(
            rng.integers(-32639, 32640, (len(slots), heads, d), dtype=np.int32),
            rng.random((len(slots), heads), dtype=np.float32) * np.float32(1e-4),
        )
        for _ in range(2)
    )
    layout.store(cache, slots, keys, values)
    return cache


def _bytes(rows: Quantised) -> bytes:
    return rows.planes.tobytes() + rows.scale.tobytes()
