"""A request's bits are its own: alone, in a crowd, in chunks, in a tree, on one thread or two."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.config import ModelConfig
from decoder.engine import Engine, EngineConfig, WalkRequest
from decoder.errors import RowFaultError
from decoder.fused import FusedTransformer, make_transformer
from decoder.kernels import layout, make_kernels
from decoder.kernels.base import F32, I32, PathIndex, Quantised
from decoder.kv import KVPool, blocks_for
from decoder.rotary import rotary_tables
from decoder.transformer import PackedRows, Transformer
from decoder.weights import pack_weights
from tests.decoder.conftest import random_tensors, small_config
from tests.decoder.tries import build_trie

ARCHITECTURES = ("llama", "qwen2", "qwen3")
NAMES = [(a, b, c, 0) for a in (1, 2, 3) for b in (1, 2, 3) for c in (1, 2)]


def model(architecture: str, *, kernels: str = "native", threads: int = 1) -> Transformer:
    config = small_config(architecture)
    weights = pack_weights(config, random_tensors(config).get)
    rotary = rotary_tables(config.context_length, config.head_dim, config.rope_theta)
    made = make_kernels(kernels, threads=threads)
    made.guess_tokens = 64  # so that guesses are proved on every CPU, cheap or not
    return make_transformer(config, weights, made, rotary)


@dataclass
class Line:
    """One sequence in a pass: which of its tokens are run, after those already in the cache."""

    tokens: np.ndarray
    start: int
    blocks: list[int]


def run_lines(runner: Transformer, kv: KVPool, lines: list[Line]) -> list[Quantised]:
    """Run each line's tokens from `start` on, all in one pass; return each one's hidden rows."""
    ids, position, slot, table, offsets, prefix = [], [], [], [], [], []
    for line in lines:
        place = np.arange(line.start, len(line.tokens), dtype=np.int32)
        blocks = np.array(line.blocks, np.int64)
        ids.append(line.tokens[line.start :].astype(np.int32))
        position.append(place)
        slot.append(blocks[place // 64] * 64 + place % 64)
        offsets += [len(table)] * len(place)
        table += line.blocks
        prefix.append(place + 1)
    rows = sum(len(i) for i in ids)
    packed = PackedRows(
        np.concatenate(ids), np.concatenate(position), np.concatenate(slot),
        PathIndex(
            np.array(table, np.int32), np.array(offsets, np.int64), np.concatenate(prefix),
            np.empty(0, np.int32), np.zeros(rows + 1, np.int64),
        ),
        np.arange(rows, dtype=np.int64),
    )  # fmt: skip
    hidden = runner.forward(packed, kv)
    results, at = [], 0
    for piece in ids:
        take = np.arange(at, at + len(piece))
        results.append(
            Quantised(
                np.concatenate([hidden.planes[take], hidden.planes[rows + take]]),
                hidden.scale[take],
            )
        )
        at += len(piece)
    return results


def bits(hidden: Quantised, kv: KVPool, line: Line, head_dim: int = 16) -> bytes:
    """Hidden planes and scales, and every key and value the line holds."""
    place = np.arange(len(line.tokens))
    slot = np.array(line.blocks, np.int64)[place // 64] * 64 + place % 64
    cache = b"".join(
        part.integers.tobytes() + part.scale.tobytes()
        for layer in kv.layers
        for part in layout.load(layer, slot, head_dim)
    )
    return hidden.planes.tobytes() + hidden.scale.tobytes() + cache


def alone(runner: Transformer, tokens: np.ndarray) -> bytes:
    kv = KVPool(runner.config, 8)
    line = Line(tokens, 0, kv.take(blocks_for(len(tokens))))
    return bits(run_lines(runner, kv, [line])[0], kv, line)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@given(
    lengths=st.lists(st.integers(1, 140), min_size=1, max_size=5),
    seed=st.integers(0, 2**31),
    threads=st.sampled_from([1, 2]),
)
@settings(deadline=None, max_examples=25)
def test_a_row_has_the_same_bits_among_any_neighbours(
    architecture: str, lengths: list[int], seed: int, threads: int
) -> None:
    """Hidden states and KV of every sequence equal those it has alone on one thread."""
    rng = np.random.default_rng(seed)
    runner = model(architecture, threads=threads)
    kv = KVPool(runner.config, 24)
    lines = [
        Line(rng.integers(0, 97, n).astype(np.int32), 0, kv.take(blocks_for(n))) for n in lengths
    ]
    together = run_lines(runner, kv, lines)
    single = model(architecture, threads=1)
    for line, hidden in zip(lines, together, strict=True):
        assert bits(hidden, kv, line) == alone(single, line.tokens)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@given(
    length=st.integers(2, 140), seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(1, 139), max_size=4),
)  # fmt: skip
@settings(deadline=None, max_examples=15)
def test_chunks_give_the_same_bits_as_the_whole(
    architecture: str, length: int, seed: int, cuts: list[int]
) -> None:
    """The last chunk's hidden rows and the whole cache equal those of one pass."""
    rng = np.random.default_rng(seed)
    runner = model(architecture)
    tokens = rng.integers(0, 97, length).astype(np.int32)
    kv = KVPool(runner.config, 8)
    blocks = kv.take(blocks_for(length))
    planes, scales, start = [], [], 0
    for end in [*sorted({c for c in cuts if c < length}), length]:
        (hidden,) = run_lines(runner, kv, [Line(tokens[:end], start, blocks)])
        n = len(hidden.scale)
        planes.append((hidden.planes[:n], hidden.planes[n:]))
        scales.append(hidden.scale)
        start = end
    joined = Quantised(
        np.concatenate(
            [np.concatenate([p[0] for p in planes]), np.concatenate([p[1] for p in planes])]
        ),
        np.concatenate(scales),
    )
    assert bits(joined, kv, Line(tokens, 0, blocks)) == alone(runner, tokens)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_step_by_step_equals_whole_prefill(architecture: str) -> None:
    """One token a pass, past a block's border: state bugs that batches hide would show."""
    runner = model(architecture)
    tokens = np.random.default_rng(4).integers(0, 97, 70).astype(np.int32)
    kv = KVPool(runner.config, 8)
    blocks = kv.take(2)
    rows = [run_lines(runner, kv, [Line(tokens[: i + 1], i, blocks)])[0] for i in range(70)]
    joined = Quantised(
        np.concatenate([[r.planes[0] for r in rows], [r.planes[1] for r in rows]]),
        np.concatenate([r.scale for r in rows]),
    )
    assert bits(joined, kv, Line(tokens, 0, blocks)) == alone(runner, tokens)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("length", [1, 20, 130])
def test_one_call_gives_the_bits_of_its_operations(architecture: str, length: int) -> None:
    """Few rows are shared by columns, many by rows; each equals the pass operation by operation."""
    fused = model(architecture, threads=2)
    assert isinstance(fused, FusedTransformer)
    apart = Transformer(fused.config, fused.weights, fused.kernels, fused.rotary)
    tokens = np.random.default_rng(9).integers(0, 97, length).astype(np.int32)
    assert alone(fused, tokens) == alone(apart, tokens)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_native_equals_reference_through_a_whole_model(architecture: str) -> None:
    """Hidden states and cache, bit for bit."""
    tokens = np.random.default_rng(6).integers(0, 97, 80).astype(np.int32)
    assert alone(model(architecture), tokens) == alone(
        model(architecture, kernels="reference"), tokens
    )


@given(
    prompts=st.lists(st.integers(1, 100), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
    tree_tokens=st.sampled_from([1, 5, 64]),
    pass_tokens=st.sampled_from([16, 512]),
    leave=st.integers(0, 3),
)
@settings(deadline=None, max_examples=25)
def test_answers_have_the_same_bits_whatever_the_policy(
    prompts: list[int], seed: int, tree_tokens: int, pass_tokens: int, leave: int
) -> None:
    """Any neighbours, one of them cancelled midway, any chunking, any look-ahead."""
    rng = np.random.default_rng(seed)
    runner = model("llama")
    trie = build_trie(NAMES)
    requests = [
        WalkRequest(rng.integers(0, 97, n).astype(np.int32), trie, top_k=len(NAMES))
        for n in prompts
    ]
    config = EngineConfig(tree_tokens=tree_tokens, max_pass_tokens=pass_tokens)
    engine = Engine(runner, config)
    ghost = engine.submit(WalkRequest(rng.integers(0, 97, 90).astype(np.int32), trie))
    handles = [engine.submit(r) for r in requests]
    found = {}
    for step in range(10_000):
        if step == leave:
            engine.cancel(ghost)
        if not engine.alive:
            break
        found |= {f.handle: f.result for f in engine.step()}
    for handle, one in zip(handles, requests, strict=True):
        single = Engine(runner)
        single.submit(one)
        (truth,) = single.step()
        assert truth.result is not None
        result = found[handle]
        assert result is not None
        assert result.leaves.tobytes() == truth.result.leaves.tobytes()
        assert result.logprobs.tobytes() == truth.result.logprobs.tobytes()


@given(
    lengths=st.lists(st.integers(1, 90), min_size=2, max_size=5),
    faulty=st.integers(0, 4), arrivals=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    seed=st.integers(0, 2**31), threads=st.sampled_from([1, 2]),
)  # fmt: skip
@settings(deadline=None, max_examples=25)
def test_a_faulty_neighbour_and_any_arrival_change_no_bit(
    lengths: list[int], faulty: int, arrivals: list[int], seed: int, threads: int
) -> None:
    """One prompt drives the model to infinity; it fails alone, whenever each of them came."""
    rng = np.random.default_rng(seed)
    runner = overflowing_model(threads)
    trie = build_trie(NAMES)
    prompts = [rng.integers(0, OVERFLOWING, n).astype(np.int32) for n in lengths]
    faulty %= len(prompts)
    prompts[faulty][rng.integers(len(prompts[faulty]))] = OVERFLOWING
    requests = [WalkRequest(prompt, trie, top_k=len(NAMES)) for prompt in prompts]
    engine = Engine(runner, EngineConfig(max_pass_tokens=32))
    handles, ended = {}, {}
    for step in range(10_000):
        for number, one in enumerate(requests):
            if arrivals[number] == step:
                handles[engine.submit(one)] = number
        ended |= {f.handle: f for f in engine.step()}
        if step > max(arrivals) and not engine.alive:
            break
    for handle, number in handles.items():
        if number == faulty:
            assert isinstance(ended[handle].error, RowFaultError)
            continue
        single = Engine(overflowing_model(1), EngineConfig(prefix_bytes=0))
        single.submit(requests[number])
        found = ended[handle].result
        truth = single.step()[0].result
        assert found is not None
        assert truth is not None
        assert found.leaves.tobytes() == truth.leaves.tobytes()
        assert found.logprobs.tobytes() == truth.logprobs.tobytes()


OVERFLOWING = 96


@functools.cache
def overflowing_model(threads: int) -> Transformer:
    """A model with one token whose embedding no norm can bring back: its squares are infinite."""
    config = small_config()
    weights = pack_weights(config, random_tensors(config).get)
    scale = weights.embedding.scale.copy()
    scale[OVERFLOWING] = np.float32(3e36)
    embedding = dataclasses.replace(weights.embedding, scale=scale)
    weights = dataclasses.replace(weights, embedding=embedding)
    rotary = rotary_tables(config.context_length, config.head_dim, config.rope_theta)
    return make_transformer(config, weights, make_kernels("native", threads=threads), rotary)


class FloatRunner(Transformer):
    """The negative control: the same model with plain float products, batch-wide as BLAS likes."""

    def forward(self, rows: PackedRows, kv: KVPool) -> Quantised:
        self.kernels = FloatKernels(self.kernels)  # type: ignore[assignment]
        return super().forward(rows, kv)


class FloatKernels:
    """Kernels whose product is a float32 BLAS call: its order of sums depends on the shape."""

    def __init__(self, exact: object) -> None:
        self._exact = exact

    def __getattr__(self, name: str) -> object:
        return getattr(self._exact, name)

    def product(self, planes: np.ndarray, weight: object) -> I32:
        values: F32 = weight.values.astype(np.float32)  # type: ignore[attr-defined]
        float_sum = planes.astype(np.float32) * np.float32(0.1) @ values.T
        return np.ascontiguousarray((float_sum * np.float32(1000)).astype(np.int32))


def test_the_harness_catches_a_float_engine() -> None:
    """Negative control: with float products the same comparison must fail somewhere."""
    config = ModelConfig(**{
        **{f: getattr(small_config(), f) for f in ModelConfig.__slots__},
        "hidden_size": 576, "intermediate_size": 1536,
    })  # fmt: skip
    weights = pack_weights(config, random_tensors(config).get)
    rotary = rotary_tables(config.context_length, config.head_dim, config.rope_theta)
    runner = FloatRunner(config, weights, make_kernels("native", threads=1), rotary)
    rng = np.random.default_rng(8)
    caught = False
    for length in (1, 3, 33, 100):
        kv = KVPool(config, 16)
        lines = [
            Line(rng.integers(0, 97, n).astype(np.int32), 0, kv.take(blocks_for(n)))
            for n in (length, 120, 7)
        ]
        together = run_lines(runner, kv, lines)
        for line, hidden in zip(lines, together, strict=True):
            caught = caught or bits(hidden, kv, line) != alone(runner, line.tokens)
    assert caught
