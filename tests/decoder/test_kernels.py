"""The native kernels and the reference must agree in every bit; the reference must be right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from decoder.errors import KernelError
from decoder.kernels import build, layout, make_kernels
from decoder.kernels.base import HeadShape, KVLayer, PathIndex, Quantised, QuantisedWeight
from decoder.kernels.native import NativeKernels
from decoder.kernels.reference import ReferenceKernels, lane_sum

NATIVE = make_kernels("native", threads=2)
WITHOUT_TILES = NativeKernels(2, allow_tiles=False)
REFERENCE = ReferenceKernels()
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def same(left: Quantised, right: Quantised) -> bool:
    return (
        left.planes.tobytes() == right.planes.tobytes()
        and left.scale.tobytes() == right.scale.tobytes()
    )


def rows_of(width: int) -> st.SearchStrategy[np.ndarray]:
    return st.integers(1, 9).flatmap(
        lambda n: arrays(np.float32, (n, width), elements=FLOATS, fill=st.nothing())
    )


@given(rows_of(40))
def test_quantise_agrees_on_any_float(x: np.ndarray) -> None:
    """Subnormals, zeros and the largest floats give the same planes and scales."""
    assert same(NATIVE.quantise(x), REFERENCE.quantise(x))


@given(rows_of(24))
@example(np.array([[6.6900837e16, 7.0151681e16] * 12], np.float32))
def test_quantise_keeps_sixteen_bits(x: np.ndarray) -> None:
    """What comes back is within half a step, and the roundings of a factor of up to 32,639.

    Inverse, product and scale are rounded once each: three times 32639 * 2^-24 is 0.0058 of a step.
    """
    rows = len(x)
    out = NATIVE.quantise(x)
    q = out.planes[:rows].astype(np.int64) * 256 + out.planes[rows:]
    assert np.abs(q).max() <= 32639
    back = q * out.scale.astype(np.float64)[:, None]
    amax = np.abs(x.astype(np.float64)).max(axis=1, keepdims=True)
    sound = amax[:, 0] >= 1e-30
    assert (np.abs(back - x)[sound] <= (amax / 32639 * 0.506)[sound]).all()
    assert (back[~sound] == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_marked_and_its_neighbours_are_not(bad: float) -> None:
    """Its scale is NaN; the rows around it have the bits that they have alone."""
    x = np.random.default_rng(1).normal(size=(5, 64)).astype(np.float32)
    alone = [NATIVE.quantise(x[i : i + 1]) for i in range(5)]
    x[2, 17] = bad
    for kernels in (NATIVE, REFERENCE):
        out = kernels.quantise(x)
        assert np.isnan(out.scale[2])
        assert not out.planes[2].any()
        for i in (0, 1, 3, 4):
            assert out.scale[i] == alone[i].scale[0]
            assert (out.planes[i] == alone[i].planes[0]).all()


@given(st.integers(0, 9) | st.just(3_000), st.sampled_from([1, 7, 64, 384, 1000]), st.integers())
def test_dots_are_exact(count: int, width: int, seed: int) -> None:
    """Whole rows of the largest values that fit, few rows and many, both kernels."""
    rng = np.random.default_rng(abs(seed))
    bound = int(np.sqrt((2**31 - 1) // width))
    rows = rng.integers(-bound, bound + 1, (count, width)).clip(-32768, 32767).astype(np.int16)
    row = rng.choice(np.array([-bound, bound]).clip(-32768, 32767), width).astype(np.int16)
    if count:
        rows[0] = row
    exact = rows.astype(np.int64) @ row.astype(np.int64)
    for kernels in (NATIVE, REFERENCE):
        found = kernels.dots(rows, row)
        assert found.dtype == np.int32
        assert (found == exact).all()


def test_dots_of_another_width_are_refused() -> None:
    """C would read past the row."""
    with pytest.raises(KernelError, match="rows of 4"):
        NATIVE.dots(np.zeros((2, 4), np.int16), np.zeros(3, np.int16))


@given(
    st.integers(1, 70),
    st.sampled_from([8, 64, 100, 576]),
    st.sampled_from([1, 8, 40, 192]),
    st.integers(),
)
@settings(deadline=None)
def test_products_are_exact(rows: int, width: int, out: int, seed: int) -> None:
    """Every product equals the sum in 64-bit integers, extremes included."""
    rng = np.random.default_rng(abs(seed))
    planes = rng.integers(-128, 128, (2 * rows, width), dtype=np.int8)
    planes[0] = -128
    weight = QuantisedWeight(
        rng.choice(np.array([-127, 127, 3], np.int8), (out, width)), np.ones(out, np.float32)
    )
    exact = planes.astype(np.int64) @ weight.values.astype(np.int64).T
    assert np.array_equal(NATIVE.product(planes, weight), exact)
    assert np.array_equal(WITHOUT_TILES.product(planes, weight), exact)
    assert np.array_equal(REFERENCE.product(planes, weight), exact)


def test_exp_is_within_its_stated_error() -> None:
    """Against f64, relative error is below 3e-7 from 0 down to -87, and 0 below that."""
    x = np.concatenate([np.linspace(-87, 0, 40001), [-87.5, -1e6]]).astype(np.float32)
    found = NATIVE.exp(x)
    assert found.tobytes() == REFERENCE.exp(x).tobytes()
    true = np.exp(x[:-2].astype(np.float64))
    assert (np.abs(found[:-2] / true - 1) < 3e-7).all()
    assert (found[-2:] == 0).all()


def test_gelu_is_within_its_stated_error() -> None:
    """Against the error function of the standard library, within 1e-6."""
    x = np.linspace(-12, 12, 20001).astype(np.float32)
    found = NATIVE.gelu(x)
    assert found.tobytes() == REFERENCE.gelu(x).tobytes()
    true = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()]
    assert np.abs(found - np.array(true)).max() < 1e-6


def test_lane_sum_has_the_order_that_is_written_down() -> None:
    """Numbers whose float sum depends on the order; the plain one differs."""
    x = (np.random.default_rng(5).normal(size=1003) * 1e3).astype(np.float32)
    lanes = [np.float32(0)] * 32
    for i, v in enumerate(x):
        lanes[i % 32] = np.float32(lanes[i % 32] + v)
    for w in (16, 8, 4, 2, 1):
        lanes = [np.float32(lanes[i] + lanes[i + w]) for i in range(w)]
    assert lane_sum(x) == lanes[0]
    in_a_line = np.float32(0)
    for v in x:
        in_a_line = np.float32(in_a_line + v)
    assert lane_sum(x) != in_a_line


@given(rows_of(56), st.integers(0, 2**31))
def test_norms_agree_on_any_float(x: np.ndarray, seed: int) -> None:
    """RMSNorm and LayerNorm give the same bits, overflow to infinity included."""
    rng = np.random.default_rng(seed)
    w, b = rng.normal(size=(2, 56)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        assert same(NATIVE.rmsnorm_quantise(x, w, 1e-5), REFERENCE.rmsnorm_quantise(x, w, 1e-5))
        left, right = x.copy(), x.copy()
        assert same(
            NATIVE.layernorm_quantise(left, w, b, 1e-12),
            REFERENCE.layernorm_quantise(right, w, b, 1e-12),
        )


@given(st.integers(1, 20), st.integers(0, 2**31))
def test_rows_after_products_agree(rows: int, seed: int) -> None:
    """Residual adds, SiLU, gelu and the gathered head give the same bits."""
    rng = np.random.default_rng(seed)
    n = 72
    acc = rng.integers(-(10**7), 10**7, (2 * rows, 2 * n), dtype=np.int32)
    half = np.ascontiguousarray(acc[:, :n])
    scale = (rng.random(rows) * 1e-3).astype(np.float32)
    columns = (rng.random(2 * n) * 1e-3).astype(np.float32)
    first = columns[:n].copy()
    w, b = rng.normal(size=(2, n)).astype(np.float32)
    x = rng.normal(size=(rows, n)).astype(np.float32)
    results = []
    for k in (NATIVE, REFERENCE):
        one, two = x.copy(), x.copy()
        parts = [
            k.silu_mul_quantise(acc, scale, columns),
            k.gelu_quantise(half, scale, first, b),
            k.residual_rmsnorm_quantise(half, scale, first, w, 1e-6, one),
            k.residual_layernorm_quantise(half, scale, first, b, w, b, 1e-6, two),
        ]
        hidden = k.quantise(x)
        table = QuantisedWeight(
            rng.integers(-127, 128, (30, n), dtype=np.int8), columns[:30].copy()
        )
        if k is NATIVE:
            shared = table
        want_row = np.arange(3 * rows, dtype=np.int32) % rows
        want_token = (np.arange(3 * rows, dtype=np.int32) * 7) % 30
        logits = k.gathered_head(hidden, shared, want_row, want_token)
        dense = k.dequantise(
            k.product(hidden.planes, shared), hidden.scale, shared.scale, None, None
        )
        assert logits.tobytes() == dense[want_row, want_token].tobytes()
        summed = k.dequantise(half, scale, first, b, x.copy())
        results.append(
            b"".join(p.planes.tobytes() + p.scale.tobytes() for p in parts)
            + one.tobytes() + two.tobytes() + logits.tobytes() + summed.tobytes()
        )  # fmt: skip
    assert results[0] == results[1]


def filled_cache(rng: np.random.Generator, shape: HeadShape, blocks: int) -> KVLayer:
    """Blocks that hold drawn keys and values at every position, and noise elsewhere."""
    cache = KVLayer(
        np.zeros((blocks, shape.kv_heads, layout.key_bytes(shape.head_dim)), np.int8),
        np.zeros((blocks, shape.kv_heads, layout.value_bytes(shape.head_dim)), np.int8),
        *np.zeros((2, blocks, shape.kv_heads, 64), np.float32),
    )
    slot = np.arange(64 * blocks, dtype=np.int64)
    heads = [
        layout.HeadIntegers(
            rng.integers(-32639, 32640, (len(slot), shape.kv_heads, shape.head_dim), np.int32),
            (rng.random((len(slot), shape.kv_heads)) * 1e-4).astype(np.float32),
        )
        for _ in range(2)
    ]
    layout.store(cache, slot, *heads)
    return cache


@given(
    st.integers(0, 2**31),
    st.sampled_from([(4, 2, 16), (9, 3, 64), (5, 1, 24), (12, 12, 32), (16, 2, 128)]),
    st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_attention_agrees_over_any_path(
    seed: int, geometry: tuple[int, int, int], tiles: bool
) -> None:
    """Prefixes that end at, before and past a block's border, with tails out of order."""
    rng = np.random.default_rng(seed)
    shape = HeadShape(*geometry)
    rows, blocks = int(rng.integers(1, 20)), 5
    q = (rng.normal(size=(rows, shape.heads, shape.head_dim)) * 2).astype(np.float32)
    cache = filled_cache(rng, shape, blocks)
    prefix = rng.choice([0, 1, 63, 64, 65, 127, 128, 200], rows).astype(np.int32)
    tails = [(rng.permutation(320 - p)[: rng.integers(1, 90)] + p).astype(np.int32) for p in prefix]
    second = rng.integers(0, rows + 1)  # rows from here on are another sequence
    path = PathIndex(
        table=np.concatenate([rng.permutation(blocks), rng.permutation(blocks)]).astype(np.int32),
        table_offsets=np.where(np.arange(rows) < second, 0, blocks).astype(np.int64),
        prefix=prefix,
        tail=np.concatenate(tails),
        tail_offsets=np.concatenate([[0], np.cumsum([len(t) for t in tails])]).astype(np.int64),
    )
    if second in (0, rows):  # one sequence: what none of its rows sees may hold anything
        seen = np.concatenate([np.arange(prefix.max()), *tails])
        unseen = np.setdiff1d(np.arange(320), seen)
        block = path.table[path.table_offsets[0] + unseen // 64]
        cache.key_scale[block, :, unseen % 64] = np.nan
        cache.value_scale[block, :, unseen % 64] = np.inf
    kernels = NATIVE if tiles else WITHOUT_TILES
    left = kernels.attention_quantise(q, cache, path, 0.125, shape)
    right = REFERENCE.attention_quantise(q, cache, path, 0.125, shape)
    assert same(left, right)


@given(st.integers(0, 2**31), st.sampled_from([16, 24, 64, 80, 128]))
def test_what_is_stored_is_loaded(seed: int, head_dim: int) -> None:
    """Keys and values of any head size come back from any slot, and no other slot changes."""
    rng = np.random.default_rng(seed)
    shape = HeadShape(2, 2, head_dim)
    cache = filled_cache(rng, shape, 2)
    everywhere = np.arange(128, dtype=np.int64)
    before = layout.load(cache, everywhere, head_dim)
    slot = rng.permutation(128)[:5].astype(np.int64)
    fresh = [
        layout.HeadIntegers(
            rng.integers(-32639, 32640, (5, 2, head_dim), np.int32),
            rng.random((5, 2), dtype=np.float32),
        )
        for _ in range(2)
    ]
    layout.store(cache, slot, fresh[0], fresh[1])
    after = layout.load(cache, everywhere, head_dim)
    for old, new, given_heads in zip(before, after, fresh, strict=True):
        old.integers[slot], old.scale[slot] = given_heads.integers, given_heads.scale
        assert np.array_equal(old.integers, new.integers)
        assert np.array_equal(old.scale, new.scale)


def test_attention_is_attention() -> None:
    """Against the textbook in f64, within what 16 bits allow."""
    rng = np.random.default_rng(3)
    shape = HeadShape(6, 2, 16)
    q = rng.normal(size=(1, 6, 16)).astype(np.float32)
    cache = filled_cache(rng, shape, 2)
    length = 100
    path = PathIndex(
        np.array([1, 0], np.int32), np.zeros(1, np.int64), np.array([length], np.int32),
        np.empty(0, np.int32), np.zeros(2, np.int64),
    )  # fmt: skip
    out = NATIVE.attention_quantise(q, cache, path, 0.25, shape)
    found = (out.planes[0].astype(np.float64) * 256 + out.planes[1]) * out.scale[0]
    slot = np.concatenate([np.arange(64, 128), np.arange(36)])
    k, v = (
        h.integers * h.scale.astype(np.float64)[..., None] for h in layout.load(cache, slot, 16)
    )
    expected = []
    for h in range(6):
        score = k[:, h // 3] @ q[0, h].astype(np.float64) * 0.25
        p = np.exp(score - score.max())
        expected.append((p / p.sum()) @ v[:, h // 3])
    largest = np.abs(v).max()
    assert np.abs(found - np.concatenate(expected)).max() < largest * 1e-4


def test_a_key_that_is_not_finite_loses_only_the_rows_that_see_it() -> None:
    """Its scale is NaN, so are the rows' that look at it; others have the bits they had."""
    rng = np.random.default_rng(4)
    shape = HeadShape(4, 2, 16)
    q = rng.normal(size=(3, 4, 16)).astype(np.float32)
    cache = filled_cache(rng, shape, 1)
    path = PathIndex(
        np.array([0], np.int32), np.zeros(3, np.int64), np.array([5, 9, 10], np.int32),
        np.empty(0, np.int32), np.zeros(4, np.int64),
    )  # fmt: skip
    before = NATIVE.attention_quantise(q, cache, path, 0.25, shape)
    cache.value_scale[0, 1, 9] = np.nan
    for kernels in (NATIVE, WITHOUT_TILES, REFERENCE):
        after = kernels.attention_quantise(q, cache, path, 0.25, shape)
        assert after.scale[:2].tobytes() == before.scale[:2].tobytes()
        assert after.planes[[0, 1, 3, 4]].tobytes() == before.planes[[0, 1, 3, 4]].tobytes()
        assert np.isnan(after.scale[2])


def test_wrong_arrays_are_refused_at_the_border() -> None:
    """An f64 array or a strided one never reaches C."""
    with pytest.raises(KernelError, match="float64"):
        NATIVE.quantise(np.zeros((2, 8)))  # type: ignore[arg-type]
    with pytest.raises(KernelError, match="C order: False"):
        NATIVE.quantise(np.zeros((2, 16), np.float32)[:, ::2])


def test_unknown_kernels_and_threads_are_refused() -> None:
    """Nothing falls back in silence."""
    with pytest.raises(KernelError, match="known: native, reference"):
        make_kernels("quick")
    with pytest.raises(KernelError, match="at least 1"):
        make_kernels("native", threads=0)


def test_a_missing_compiler_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without a compiler the error says what to install and what to ask for instead."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path_factory.mktemp("cache")))
    with pytest.raises(KernelError, match="no C compiler found"):
        make_kernels("native", threads=1)


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_library_is_compiled_again(
    damage: bytes | None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Empty, foreign or cut in half: none of it is ever loaded."""
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path_factory.mktemp("cache")))
    library = build.build_library()
    whole = library.read_bytes()
    library.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert build.build_library() == library
    assert library.read_bytes()[:4] == b"\x7fELF"
    assert len(library.read_bytes()) == len(whole)
    assert NativeKernels(1).exp(np.zeros(1, np.float32))[0] == 1
