"""The engine's logic without a model: exact answers, fair order, bounded memory, single faults."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.engine import Engine, EngineConfig, Finished, WalkRequest
from decoder.errors import (
    CapacityError,
    DecoderError,
    PassError,
    RequestError,
    RowFaultError,
)
from decoder.kernels.base import F32, I32, KVLayer, Quantised
from decoder.kv import block_bytes
from decoder.trie import Trie
from tests.decoder.conftest import small_config
from tests.decoder.tries import Names, build_trie, exhaustive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decoder.config import ModelConfig
    from decoder.kv import KVPool
    from decoder.transformer import PackedRows

POISON = 96


def fake_logits(path: tuple[int, ...], tokens: Sequence[int]) -> np.ndarray:
    """Logits that depend on every token of the path and its order."""
    seed = hashlib.sha256(repr(path).encode()).digest()
    values = []
    for token in tokens:
        digest = hashlib.sha256(seed + bytes([token])).digest()
        values.append(int.from_bytes(digest[:4], "big") / 2**32 * 6 - 3)
    out = np.array(values, np.float32)
    if POISON in path:
        out[:] = np.nan
    return out


class PathRunner:
    """A runner that reads each row's path back out of the cache, as attention would.

    A token and its position stand where the scales of a key and a value do.
    """

    guess_tokens = 64

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.passes: list[int] = []
        self._paths: list[tuple[int, ...]] = []

    def forward(self, rows: PackedRows, kv: KVPool) -> Quantised:
        self.passes.append(len(rows.ids))
        assert len(set(rows.slot.tolist())) == len(rows.slot), "two rows write one slot"
        cache, block, offset = kv.layers[0], rows.slot // 64, rows.slot % 64
        cache.key_scale[block, 0, offset] = rows.ids
        cache.value_scale[block, 0, offset] = rows.position
        self._paths = [self._path(rows, int(row), cache) for row in rows.wanted]
        n = len(rows.wanted)
        return Quantised(np.zeros((2 * n, 8), np.int8), np.zeros(n, np.float32))

    def _path(self, rows: PackedRows, row: int, cache: KVLayer) -> tuple[int, ...]:
        index = rows.path
        tail = index.tail[index.tail_offsets[row] : index.tail_offsets[row + 1]]
        logical = [*range(int(index.prefix[row])), *tail.tolist()]
        table = index.table[int(index.table_offsets[row]) :]
        cells = [(int(table[s // 64]), 0, s % 64) for s in logical]
        positions = [int(cache.value_scale[cell]) for cell in cells]
        assert positions == list(range(len(cells)))
        return tuple(int(cache.key_scale[cell]) for cell in cells)

    def logits(self, hidden: Quantised, want_row: I32, want_token: I32) -> F32:
        return np.array(
            [
                fake_logits(self._paths[row], [token])[0]
                for row, token in zip(want_row.tolist(), want_token.tolist(), strict=True)
            ],
            np.float32,
        )


def run_all(engine: Engine) -> dict[int, Finished]:
    ended: dict[int, Finished] = {}
    for _ in range(10_000):
        if not engine.alive:
            return ended
        for one in engine.step():
            assert one.handle not in ended
            ended[one.handle] = one
    raise AssertionError("the engine does not come to an end")


def request(names: Names, prompt: Sequence[int], top_k: int = 1, **extra: object) -> WalkRequest:
    return WalkRequest(np.array(prompt, np.int32), build_trie(names), top_k=top_k, **extra)  # type: ignore[arg-type]


# Prefix-free strings: each ends in 0, which appears nowhere else.
NAMES = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=7).map(lambda t: (*t, 0)),
    min_size=1,
    max_size=40,
    unique=True,
)


@given(
    st.lists(
        st.tuples(NAMES, st.lists(st.integers(1, 90), min_size=1, max_size=150), st.data()),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1, 3, 16, 64, 400]),
    st.sampled_from([7, 64, 512]),
)
@settings(deadline=None, max_examples=120)
def test_top_k_is_what_trying_everything_gives(
    jobs: list[tuple[Names, list[int], st.DataObject]], tree_tokens: int, pass_tokens: int
) -> None:
    """Any tries, masks, k, neighbours, chunking and look-ahead: the same leaves, the same bits."""
    runner = PathRunner(small_config())
    config = EngineConfig(max_pass_tokens=pass_tokens, tree_tokens=tree_tokens)
    engine = Engine(runner, config)
    expected = {}
    for names, prompt, data in jobs:
        mask = np.array(
            data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
        )
        mask[data.draw(st.integers(0, len(names) - 1))] = True
        k = data.draw(st.integers(1, len(names) + 1))
        handle = engine.submit(request(names, prompt, k, allowed=mask))
        expected[handle] = exhaustive(names, mask, tuple(prompt), fake_logits)[:k]
    free = engine.free_blocks
    ended = run_all(engine)
    assert set(ended) == set(expected)
    for handle, truth in expected.items():
        result = ended[handle].result
        assert result is not None
        assert result.leaves.tolist() == [leaf for _, leaf in truth]
        assert result.logprobs.tobytes() == np.array([lp for lp, _ in truth]).tobytes()
    assert engine.free_blocks > free or all(len(e) == 1 for e in expected.values())


def test_a_shortlist_takes_one_pass() -> None:
    """All branches of a small trie ride along with the prompt."""
    runner = PathRunner(small_config())
    engine = Engine(runner)
    names = [(1, 2, 0), (1, 3, 4, 0), (2, 2, 0), (2, 5, 0), (3, 0)]
    engine.submit(request(names, range(1, 60), top_k=5))
    (ended,) = engine.step()
    assert ended.result is not None
    assert ended.result.passes == 1
    assert len(runner.passes) == 1
    # Only the tokens that lead to a branch are run: 1 and 2, and no name's own ending.
    assert ended.result.tree_tokens == 2
    assert ended.result.scored_tokens == 3 + 2 + 2


def test_one_allowed_leaf_needs_no_model() -> None:
    """A forced answer has probability one and runs nothing."""
    runner = PathRunner(small_config())
    engine = Engine(runner)
    engine.submit(request([(1, 0), (2, 0)], [5], allowed=np.array([False, True])))
    (ended,) = engine.step()
    assert ended.result is not None
    assert (ended.result.leaves.tolist(), ended.result.logprobs.tolist()) == ([1], [0.0])
    assert runner.passes == []


def test_a_fault_in_one_row_fails_that_request_alone() -> None:
    """Its neighbours' answers have the bits that they have without it."""
    names = [(1, 1, 0), (1, 2, 0), (2, 1, 0), (2, 2, 0)]
    prompts = [[5, 6], [7, POISON], [8, 9]]
    engine = Engine(PathRunner(small_config()))
    handles = [engine.submit(request(names, p, top_k=4)) for p in prompts]
    ended = run_all(engine)
    assert isinstance(ended[handles[1]].error, RowFaultError)
    for i in (0, 2):
        result = ended[handles[i]].result
        truth = exhaustive(names, np.ones(4, bool), tuple(prompts[i]), fake_logits)
        assert result is not None
        assert result.logprobs.tolist() == [lp for lp, _ in truth]


def test_cancel_at_any_step_gives_everything_back() -> None:
    """Slots and blocks return at once, and the others go on."""
    engine = Engine(PathRunner(small_config()), EngineConfig(max_pass_tokens=16, tree_tokens=2))
    total = engine.free_blocks
    names = [(a, b, c, 0) for a in (1, 2) for b in (1, 2) for c in (1, 2)]
    for steps in range(5):
        first = engine.submit(request(names, range(1, 40), top_k=8))
        second = engine.submit(request(names, range(2, 40), top_k=8))
        before = [one.handle for _ in range(steps) for one in engine.step()]
        assert first not in before
        assert engine.cancel(first)
        assert not engine.cancel(first)
        assert engine.alive <= 1
        ended = run_all(engine) | dict.fromkeys(before)
        assert first not in ended
        assert second in ended
        assert engine.free_blocks == total


def test_a_long_prompt_does_not_hold_up_a_short_one() -> None:
    """The short request ends while the long one is still being read."""
    config = EngineConfig(max_pass_tokens=64)
    engine = Engine(PathRunner(small_config()), config)
    names = [(1, 0), (2, 0)]
    long = engine.submit(request(names, [3] * 400))
    short = engine.submit(request(names, [4] * 20))
    order = []
    while engine.alive:
        order += [one.handle for one in engine.step()]
    assert order == [short, long]


def test_a_long_prompt_is_not_starved_by_short_ones() -> None:
    """With new short requests before every pass, the long one still ends, in bounded passes."""
    runner = PathRunner(small_config())
    engine = Engine(runner, EngineConfig(max_pass_tokens=64, prefix_bytes=0))
    names = [(1, 0), (2, 0)]
    long = engine.submit(request(names, [3] * 300))
    for step in range(60):
        for _ in range(3):
            engine.submit(request(names, [4 + step] * 25))  # more than a pass can hold
        if long in {one.handle for one in engine.step()}:
            break
        while engine.alive > 8:
            engine.cancel(max(engine._alive))
    # After five passes it is as old as its 300 tokens are long, and it needs five of its own.
    assert step < 12


def test_requests_alike_end_in_the_order_they_came() -> None:
    """Nobody overtakes an equal."""
    engine = Engine(PathRunner(small_config()), EngineConfig(max_pass_tokens=50, prefix_bytes=0))
    handles = [engine.submit(request([(1, 0), (2, 0)], [5 + i] * 40)) for i in range(6)]
    order = []
    while engine.alive:
        order += [one.handle for one in engine.step()]
    assert order == handles


def test_declared_limits_hold() -> None:
    """Slots and memory are refused with a typed error, and a pass never exceeds its rows."""
    config = small_config()
    block = block_bytes(config)
    engine = Engine(PathRunner(config), EngineConfig(max_slots=2, kv_bytes=4 * block))
    names = [(1, 0), (2, 0)]
    with pytest.raises(RequestError, match="would need 6 KV blocks"):
        engine.submit(request(names, [1] * 300))
    engine.submit(request(names, [1] * 60))
    with pytest.raises(CapacityError, match="KV blocks are needed"):
        engine.submit(request(names, [1] * 150))
    engine.submit(request(names, [1] * 60))
    with pytest.raises(CapacityError, match="all 2 slots"):
        engine.submit(request(names, [1]))
    assert len(run_all(engine)) == 2
    with pytest.raises(DecoderError, match="one block"):
        Engine(PathRunner(config), EngineConfig(kv_bytes=10))
    with pytest.raises(DecoderError, match="max_slots is 0"):
        EngineConfig(max_slots=0)


def test_walks_that_outgrow_memory_give_way_one_by_one() -> None:
    """When nobody can move, the last to come fails with a typed error; the first is answered."""
    config = small_config()
    block = block_bytes(config)
    engine = Engine(PathRunner(config), EngineConfig(kv_bytes=3 * block, tree_tokens=1))
    deep = [(*[1] * i, 2, 0) for i in range(1, 120)]
    first = engine.submit(request(deep, [9] * 60, top_k=200))
    second = engine.submit(request(deep, [8] * 60, top_k=200))
    ended = run_all(engine)
    assert ended[first].result is not None
    assert len(ended[first].result.leaves) == len(deep)
    assert isinstance(ended[second].error, CapacityError)


@pytest.mark.parametrize(
    ("prompt", "extra", "message"),
    [
        ([], {}, "no tokens"),
        ([97], {}, "outside 0..96"),
        ([-1], {}, "outside 0..96"),
        ([1] * 511, {}, "takes 512 in all"),
        ([1], {"allowed": np.zeros(2, bool)}, "no leaf"),
        ([1], {"allowed": np.ones(3, bool)}, "mask"),
        ([1], {"top_k": 0}, "top_k is 0"),
    ],
)
def test_bad_requests_are_refused_by_name(
    prompt: list[int], extra: dict[str, object], message: str
) -> None:
    """Nothing is taken in, and nothing is held."""
    engine = Engine(PathRunner(small_config()))
    total = engine.free_blocks
    with pytest.raises(RequestError, match=message):
        engine.submit(request([(1, 0), (2, 0)], prompt, **extra))  # type: ignore[arg-type]
    assert engine.alive == 0
    assert engine.free_blocks == total


def test_an_idle_engine_steps_at_once() -> None:
    """No work, no pass."""
    runner = PathRunner(small_config())
    assert Engine(runner).step() == []
    assert runner.passes == []


def test_tokens_that_the_model_does_not_have_are_refused() -> None:
    """They would index past the embedding table: in a prompt, a scored edge or a forced run."""
    engine = Engine(PathRunner(small_config()))
    pair = build_trie([(1, 0), (2, 0)])
    for prompt in (np.array([2**32 + 5]), np.array([2**64 - 1], np.uint64)):
        with pytest.raises(RequestError, match=r"outside 0\.\.96"):
            engine.submit(WalkRequest(prompt, pair))  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="token ids are integers"):
        engine.submit(WalkRequest(np.array([1.5, 2.0]), pair))  # type: ignore[arg-type]
    for names in ([(97, 0), (98, 0)], [(1, 97, 0), (2, 0)], [(97, 1, 0), (97, 2, 0)], [(-1, 0)]):
        with pytest.raises(RequestError, match="the trie holds a token outside"):
            engine.submit(request(names, [1]))
    assert engine.alive == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaf_hi": [5, 1, 3, 4]}, "share a node's leaves"),  # a leaf of two
        (
            {"leaf_lo": [0, 1, 2, 3], "leaf_hi": [4, 2, 3, 4]},
            "share a node's leaves",
        ),  # a gap before the first
        ({"leaf_hi": [4, 1, 2, 3]}, "share a node's leaves"),  # a gap after the last
        ({"edge_tokens": [2, 1, 3]}, "not ascending"),
        ({"edge_tokens": [1, 1, 3]}, "not ascending"),
        ({"edge_nodes": [1, 2, 0]}, "edge_nodes"),
    ],
)
def test_a_trie_that_contradicts_itself_is_refused(
    change: dict[str, list[int]], message: str
) -> None:
    """Every array is held against the others when the trie is made, not when a walk is lost."""
    arrays = {
        "root_run": [], "edge_offsets": [0, 3, 3, 3, 3], "edge_tokens": [1, 2, 3],
        "edge_nodes": [1, 2, 3], "run_offsets": [0, 0, 0, 0], "run_tokens": [],
        "leaf_lo": [0, 0, 1, 2], "leaf_hi": [3, 1, 2, 3],
    }  # fmt: skip
    Trie(**{name: np.array(value, np.int32) for name, value in arrays.items()})
    with pytest.raises(RequestError, match=message):
        Trie(**{name: np.array(value, np.int32) for name, value in {**arrays, **change}.items()})


class BreakingRunner(PathRunner):
    """Breaks off its first pass, as a model out of memory would."""

    def forward(self, rows: PackedRows, kv: KVPool) -> Quantised:
        if not self.passes:
            self.passes.append(0)
            raise MemoryError
        return super().forward(rows, kv)


def test_a_pass_that_breaks_off_leaves_no_request_half_read() -> None:
    """The exception is told, each request in the pass ends as failed, and the engine goes on."""
    engine = Engine(BreakingRunner(small_config()), EngineConfig(max_pass_tokens=8))
    total = engine.free_blocks
    names = [(1, 0), (2, 0)]
    forced = engine.submit(request(names, [5], allowed=np.array([False, True])))
    inside = engine.submit(request(names, [5] * 8))
    outside = engine.submit(request(names, [6] * 8))
    with pytest.raises(MemoryError):
        engine.step()
    ended = run_all(engine)
    assert ended[forced].result is not None
    assert isinstance(ended[inside].error, PassError)
    result = ended[outside].result
    assert result is not None
    truth = exhaustive(names, np.ones(2, bool), tuple([6] * 8), fake_logits)
    assert (result.leaves.tolist(), result.logprobs.tolist()) == ([truth[0][1]], [truth[0][0]])
    assert engine.free_blocks == total


@given(st.integers(1, 30), st.integers(1, 12), st.integers(8, 40))
@settings(deadline=None, max_examples=40)
def test_a_pass_never_exceeds_its_rows(run: int, count: int, pass_tokens: int) -> None:
    """Save for one forced run that is longer than a pass, which then has the pass to itself."""
    runner = PathRunner(small_config())
    config = EngineConfig(max_pass_tokens=pass_tokens)
    engine = Engine(runner, config)
    names = [(1, *[3] * run, 1, 0), (1, *[3] * run, 2, 0), (2, 0)]
    for i in range(count):
        engine.submit(request(names, [5 + i] * (7 + i), top_k=3))
    assert len(run_all(engine)) == count
    assert max(runner.passes) <= max(pass_tokens, run + 1)
