"""What was read before is found again, changes no bit, and never takes more than its share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.engine import Engine, EngineConfig, WalkRequest
from decoder.errors import CapacityError, DecoderError
from decoder.kernels import layout
from decoder.kv import KVPool, block_bytes
from decoder.prefix import MIN_COPIED_TOKENS, PrefixCache, PrefixMatch
from tests.decoder.conftest import small_config
from tests.decoder.test_engine import PathRunner, fake_logits, request, run_all
from tests.decoder.test_invariance import NAMES, Line, model, run_lines
from tests.decoder.tries import build_trie, exhaustive

PAIR = [(1, 0), (2, 0), (3, 4, 0), (3, 5, 0)]
BLOCK = block_bytes(small_config())


def filled(prompts: list[list[int]], max_blocks: int = 8) -> PrefixCache:
    """Return a cache that was left these prompts in order, each read whole."""
    pool = KVPool(small_config(), 32)
    cache = PrefixCache(pool, max_blocks)
    for prompt in prompts:
        cache.keep(prompt, PrefixMatch(()), pool.take(-(-len(prompt) // 64)))
    return cache


def test_whole_blocks_are_shared_and_the_rest_copied() -> None:
    """Of 150 tokens, 128 lie in whole blocks; the last token of a prompt is never cached."""
    first = [*range(1, 91), *range(1, 61)]
    cache = filled([first])
    match = cache.match([*first[:140], 77, 78])
    assert (len(match.shared), match.copied_tokens, match.tokens) == (2, 12, 140)
    again = cache.match(first)
    assert again.tokens == 149
    assert cache.match([9, *first]).tokens == 0
    assert cache.match(first[:1]).tokens == 0


def test_too_little_in_common_is_read_again() -> None:
    """A copy of a block is not worth a few tokens."""
    cache = filled([list(range(1, 60))])
    few = list(range(1, MIN_COPIED_TOKENS))
    assert cache.match([*few, 80, 81]).tokens == 0
    assert cache.match([*few, MIN_COPIED_TOKENS, 80, 81]).tokens == MIN_COPIED_TOKENS


def test_the_longest_agreement_is_found_among_many() -> None:
    """Whatever stands beside it in order."""
    prompts = [[5, *([7] * n), 9, *([3] * 40)] for n in (3, 9, 17, 30)]
    cache = filled(prompts, max_blocks=20)
    match = cache.match([5, *([7] * 17), 9, 3, 3, 80, 81])
    assert match.tokens == 1 + 17 + 1 + 2
    match = cache.match([5, *([7] * 50), 80])
    assert match.tokens == 1 + 30


def test_the_least_recently_used_goes_first_and_parents_last() -> None:
    """Three prompts of two blocks and room for five."""
    prompts = [[p] * 128 for p in (1, 2, 3)]
    cache = filled(prompts, max_blocks=5)
    assert cache.blocks == 5
    assert cache.match([*prompts[0], 0]).tokens == 64  # lost its second block, not its first
    assert cache.match([*prompts[1], 0]).tokens == 128
    assert cache.match([*prompts[2], 0]).tokens == 128


def test_what_a_longer_prompt_says_too_is_not_kept_twice() -> None:
    """A part of a block goes when a block comes that begins with it, in either order."""
    short, long = [4] * 20, [4] * 50
    for prompts in ([short, long], [long, short]):
        cache = filled(prompts)
        assert cache.blocks == 1
        assert cache.match([*long, 0]).tokens == 50


def test_a_repeated_prompt_reads_one_token() -> None:
    """And gives the same answer, in fewer rows."""
    runner = PathRunner(small_config())
    engine = Engine(runner)
    prompt = [*range(1, 91), *range(1, 60)]
    results = []
    for _ in range(2):
        engine.submit(request(PAIR, prompt, top_k=4))
        (ended,) = run_all(engine).values()
        assert ended.result is not None
        results.append(ended.result)
    assert [r.cached_tokens for r in results] == [0, len(prompt) - 1]
    assert results[0].logprobs.tobytes() == results[1].logprobs.tobytes()
    assert runner.passes == [len(prompt) + 1, 1 + 1]


def test_nothing_is_kept_where_none_may() -> None:
    """prefix_bytes=0 reads every prompt whole; a negative number is refused."""
    engine = Engine(PathRunner(small_config()), EngineConfig(prefix_bytes=0))
    for _ in range(2):
        engine.submit(request(PAIR, [5] * 100))
        (ended,) = run_all(engine).values()
        assert ended.result is not None
        assert ended.result.cached_tokens == 0
    with pytest.raises(DecoderError, match="prefix_bytes is -1"):
        EngineConfig(prefix_bytes=-1)


def test_what_is_kept_gives_way_to_the_living() -> None:
    """A cache that fills the pool refuses nobody; what a living request reads stays."""
    config = EngineConfig(kv_bytes=4 * BLOCK, prefix_bytes=4 * BLOCK, tree_tokens=2)
    engine = Engine(PathRunner(small_config()), config)
    for token in (5, 6):
        engine.submit(request(PAIR, [token] * 100))
        run_all(engine)
    engine.submit(request(PAIR, [6] * 110))  # shares a block and copies one
    with pytest.raises(CapacityError):
        engine.submit(request(PAIR, [7] * 190))
    engine.submit(request(PAIR, [7] * 70))
    ended = list(run_all(engine).values())
    assert all(one.result is not None for one in ended)
    assert engine.free_blocks == 4


STARTS = ([11] * 70, [11] * 20 + [12] * 60, [13] * 5, [])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(range(len(STARTS))), st.integers(1, 3), st.integers(1, 80),
            st.integers(0, 3), st.booleans(),
        ),
        min_size=1, max_size=12,
    ),
    st.sampled_from([4, 7, 40]),
    st.sampled_from([0, 2, 40]),
    st.sampled_from([16, 256]),
)  # fmt: skip
@settings(deadline=None, max_examples=150)
def test_any_history_gives_the_answers_of_none(
    jobs: list[tuple[int, int, int, int, bool]], blocks: int, kept: int, pass_tokens: int
) -> None:
    """Prompts that begin alike, at once and after one another, some cancelled, in little memory."""
    config = EngineConfig(
        kv_bytes=blocks * BLOCK, prefix_bytes=kept * BLOCK, max_pass_tokens=pass_tokens,
        tree_tokens=3,
    )  # fmt: skip
    engine = Engine(PathRunner(small_config()), config)
    expected, ended = {}, {}
    for start, token, length, steps, leave in jobs:
        prompt = [*STARTS[start], *[token] * length]
        try:
            handle = engine.submit(request(PAIR, prompt, top_k=4))
        except CapacityError:
            continue
        if not leave:
            expected[handle] = prompt
        for _ in range(steps):
            ended |= {one.handle: one for one in engine.step()}
        if leave:
            engine.cancel(handle)
            ended.pop(handle, None)
    ended |= run_all(engine)
    for handle, prompt in expected.items():
        if isinstance(ended[handle].error, CapacityError):
            continue  # gave way when nobody could move
        result = ended[handle].result
        assert result is not None
        truth = exhaustive(PAIR, np.ones(4, bool), tuple(prompt), fake_logits)
        assert result.logprobs.tobytes() == np.array([lp for lp, _ in truth]).tobytes()
    assert engine.free_blocks == blocks
    assert engine._prefixes.blocks <= kept


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@given(
    common=st.integers(0, 150), lengths=st.lists(st.integers(1, 90), min_size=2, max_size=4),
    seed=st.integers(0, 2**31),
)  # fmt: skip
@settings(deadline=None, max_examples=20)
def test_a_warm_cache_gives_the_bits_of_a_cold_one(
    architecture: str, common: int, lengths: list[int], seed: int
) -> None:
    """Log-probabilities, and every key and value of each prompt, through a real model."""
    rng = np.random.default_rng(seed)
    runner = model(architecture, threads=2)
    trie = build_trie(NAMES)
    warm = Engine(runner, EngineConfig(kv_bytes=64 * BLOCK))
    head = rng.integers(0, 97, common)
    for length in lengths:
        prompt = np.concatenate([head, rng.integers(0, 97, length)]).astype(np.int32)
        results = []
        for engine in (warm, Engine(runner, EngineConfig(prefix_bytes=0, kv_bytes=64 * BLOCK))):
            engine.submit(WalkRequest(prompt, trie, top_k=len(NAMES)))
            (ended,) = run_all(engine).values()
            assert ended.result is not None
            results.append(ended.result)
        assert results[0].logprobs.tobytes() == results[1].logprobs.tobytes()
        assert results[0].leaves.tobytes() == results[1].leaves.tobytes()
        match = warm._prefixes.match([*prompt.tolist(), 0])
        assert match.tokens >= len(prompt) - MIN_COPIED_TOKENS
        blocks = [node.block for node in match.shared]
        blocks += [match.copied.block] if match.copied else []
        place = np.arange(match.tokens)
        slot = np.array(blocks, np.int64)[place // 64] * 64 + place % 64
        alone = KVPool(runner.config, 8)
        own = alone.take(-(-len(prompt) // 64))
        run_lines(runner, alone, [Line(prompt, 0, own)])
        own_slot = np.array(own, np.int64)[place // 64] * 64 + place % 64
        for layer, other in zip(warm._kv.layers, alone.layers, strict=True):
            for mine, its in zip(
                layout.load(layer, slot, runner.config.head_dim),
                layout.load(other, own_slot, runner.config.head_dim),
                strict=True,
            ):
                assert mine.integers.tobytes() == its.integers.tobytes()
                assert mine.scale.tobytes() == its.scale.tobytes()
