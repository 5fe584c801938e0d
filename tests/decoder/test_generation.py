"""Texts written under a grammar: the best allowed token each time, budgets, company, faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.engine import Engine, EngineConfig, Finished, GenerateRequest, WalkRequest
from decoder.errors import BudgetError, DecoderError, RequestError, RowFaultError
from decoder.kv import block_bytes
from tests.decoder.conftest import small_config
from tests.decoder.test_engine import POISON, PathRunner, fake_logits
from tests.decoder.tries import build_trie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decoder.kernels.base import F32, I32, Quantised

WORDS = (b"a", b"b", b"ab", b"ba", b'"', b'":', b":", b"{", b'{"', b"}", b'"}', b", ", b"\xc3")
FIRST = 3
"""The id of the first of WORDS."""


class WordSpeller:
    """Longest words first."""

    def spell(self, text: bytes) -> tuple[int, ...]:
        tokens = []
        while text:
            best = max((w for w in WORDS if text.startswith(w)), key=len)
            tokens.append(FIRST + WORDS.index(best))
            text = text[len(best) :]
        return tuple(tokens)

    def spelling(self, token: int) -> bytes:
        return WORDS[token - FIRST]


SPELLER = WordSpeller()


@dataclass(eq=False)
class OneOf:
    """A grammar of some whole texts; a string is what stands between two quotes."""

    texts: Sequence[bytes]
    written: bytes = b""
    advanced: list[int] = field(default_factory=list)

    @property
    def _left(self) -> list[bytes]:
        return [text[len(self.written) :] for text in self.texts if text.startswith(self.written)]

    @property
    def accepts(self) -> bool:
        return b"" in self._left

    @property
    def finished(self) -> bool:
        return self._left == [b""]

    def allowed(self) -> np.ndarray:
        fits = [any(rest.startswith(word) for rest in self._left) for word in WORDS]
        return (FIRST + np.flatnonzero(fits)).astype(np.int32)

    def advance(self, token: int) -> None:
        if token not in self.allowed():
            raise RequestError(f"token {token} is not allowed after {self.written!r}")
        self.written += WORDS[token - FIRST]
        self.advanced.append(token)

    def forced(self) -> bytes:
        left = self._left
        length = 0
        while all(len(rest) > length for rest in left) and len({r[length] for r in left}) == 1:
            length += 1
        return left[0][:length]

    def shortest(self) -> bytes:
        return min(self._left, key=lambda rest: (len(rest), rest))

    def closing(self) -> bytes:
        if self.written.count(b'"') % 2 == 0:
            return b""
        return min((r[: r.index(b'"') + 1] for r in self._left), key=len)


def letters(*counts: int) -> list[bytes]:
    """Objects whose strings are so many letters, each a or b."""
    texts = []
    for count in counts:
        for number in range(2**count):
            word = bytes(b"ab"[number >> place & 1] for place in range(count))
            texts.append(b'{"a":"' + word + b'"}')
    return texts


def engine(runner: PathRunner | None = None, **config: int) -> Engine:
    runner = runner or PathRunner(small_config())
    limits: dict[str, int] = {"max_slots": 8, "kv_bytes": 40 * block_bytes(runner.config)} | config
    return Engine(runner, EngineConfig(**limits))


def ask(prompt: Sequence[int], texts: Sequence[bytes], tokens: int = 40, **more: int):
    return GenerateRequest(np.array(prompt, np.int32), OneOf(texts), SPELLER, tokens, **more)


def run(machine: Engine, *requests: GenerateRequest | WalkRequest) -> dict[int, Finished]:
    handles = [machine.submit(request) for request in requests]
    ended: dict[int, Finished] = {}
    for _ in range(500):
        for finished in machine.step():
            ended[finished.handle] = finished
        if len(ended) == len(handles):
            return {place: ended[handle] for place, handle in enumerate(handles)}
    raise AssertionError("the engine does not end")


def greedy(prompt: Sequence[int], texts: Sequence[bytes]) -> list[int]:
    """The best token each time, by asking the model at every token that has a choice."""
    grammar, path = OneOf(texts), tuple(prompt)
    while not grammar.finished:
        allowed = grammar.allowed()
        run_ahead = SPELLER.spell(grammar.forced())
        if grammar.forced() == grammar.shortest():
            chosen = list(run_ahead)
        elif len(run_ahead) > 1:
            chosen = list(run_ahead[:-1])
        else:
            chosen = [int(allowed[np.argmax(fake_logits(path, allowed.tolist()))])]
        for token in chosen:
            grammar.advance(token)
            path += (token,)
    return grammar.advanced


@given(
    prompt=st.lists(st.integers(3, 90), min_size=1, max_size=130),
    counts=st.sets(st.integers(0, 4), min_size=1),
)
@settings(max_examples=60, deadline=None)
def test_the_best_allowed_token_each_time(prompt: list[int], counts: set[int]) -> None:
    """As a reader that asks at every choice finds; the text is one of the grammar's."""
    texts = letters(*counts)
    generated = run(engine(), ask(prompt, texts))[0].generated
    assert generated is not None
    assert generated.tokens.tolist() == greedy(prompt, texts)
    assert generated.text in texts
    assert not generated.cut
    assert generated.prompt_tokens == len(prompt)
    assert generated.logprob <= 0.0


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_company_changes_nothing(data: st.DataObject) -> None:
    """Walks, generations, chunks of any size, prompts read before: the answer alone."""
    prompts = data.draw(
        st.lists(st.lists(st.integers(3, 90), min_size=1, max_size=100), min_size=1, max_size=5)
    )
    chunk = data.draw(st.integers(2, 64))
    texts = letters(0, 1, 3)
    shared = engine(max_pass_tokens=chunk, prefix_bytes=data.draw(st.sampled_from([0, 1 << 20])))
    trie = build_trie([(5, 6), (5, 7), (8,)])
    walks = [WalkRequest(np.array(p, np.int32), trie, None, 3) for p in prompts[:2]]
    for _ in range(2):
        ended = run(shared, *[ask(p, texts) for p in prompts], *walks)
        for place, prompt in enumerate(prompts):
            generated, alone = ended[place].generated, run(engine(), ask(prompt, texts))[0]
            assert generated is not None
            assert alone.generated is not None
            assert generated.tokens.tolist() == alone.generated.tokens.tolist()
            assert generated.logprob == alone.generated.logprob
        for place, walk in enumerate(walks):
            result, by_itself = ended[len(prompts) + place].result, run(engine(), walk)[0].result
            assert result is not None
            assert by_itself is not None
            assert result.leaves.tolist() == by_itself.leaves.tolist()
            assert result.logprobs.tolist() == by_itself.logprobs.tolist()


def test_what_has_no_choice_needs_no_model() -> None:
    """A grammar of one text is written without a pass."""
    runner = PathRunner(small_config())
    machine = engine(runner)
    generated = run(machine, ask([5], [b'{"a":"b"}']))[0].generated
    assert generated is not None
    assert generated.text == b'{"a":"b"}'
    assert (generated.logprob, generated.passes, runner.passes) == (0.0, 0, [])


def test_forced_text_goes_in_with_the_next_pass() -> None:
    """Prompt and opening are read in one pass, and what follows the choice is not read at all."""
    runner = PathRunner(small_config())
    texts = [b'{"ab":"a"}', b'{"ab":"b"}']
    generated = run(engine(runner), ask([7, 8], texts))[0].generated
    assert generated is not None
    opening = SPELLER.spell(b'{"ab":"')
    assert runner.passes == [2 + len(opening)]
    assert (generated.passes, generated.scored_tokens) == (1, 2)


def test_a_budget_closes_the_text_in_the_shortest_way() -> None:
    """Never longer than allowed, always of the grammar, and told."""
    texts, cuts = letters(*range(7)), set()
    for budget in range(6, 30):
        generated = run(engine(), ask([5, 6], texts, budget))[0].generated
        assert generated is not None
        assert generated.text in texts
        assert len(generated.tokens) <= budget
        assert generated.cut or generated.tokens.tolist() == greedy([5, 6], texts)
        cuts.add(generated.cut)
    assert cuts == {True, False}


def test_a_budget_that_holds_no_text_is_refused() -> None:
    """At once, and one that a choice makes too small later fails that request alone."""
    machine = engine()
    with pytest.raises(BudgetError, match="takes 5 tokens"):
        machine.submit(ask([5], letters(0), 4))
    with pytest.raises(RequestError, match="at least 1"):
        machine.submit(ask([5], letters(0), 0))
    assert machine.alive == 0
    # A first letter commits the text to thirty.
    texts = [b'{"a":""}', b'{"a":"' + b"a" * 29 + b'b"}', b'{"a":"' + b"b" * 29 + b'a"}']
    ended = [run(machine, ask([first], texts, 16))[0] for first in range(5, 30)]
    assert {type(one.error) for one in ended} == {BudgetError, type(None)}
    assert machine.alive == 0


def test_a_string_is_closed_after_its_own_budget() -> None:
    """In the shortest way that the grammar has."""
    texts = [b'{"a":"' + b"a" * count + b'"}' for count in range(40)]
    generated = run(engine(), ask([5], texts, 60, max_string_tokens=3))[0].generated
    assert generated is not None
    assert generated.text in texts
    assert len(generated.text) <= len(b'{"a":""}') + 4
    long = [b'{"a":"' + b"a" * count + b'"}' for count in (20, 30)]
    generated = run(engine(), ask([5], long, 60, max_string_tokens=3))[0].generated
    assert generated is not None
    assert generated.text == long[0]  # the string could not be closed sooner
    assert generated.cut


def test_an_end_is_a_choice_where_more_may_follow() -> None:
    """A text that may go on ends where the end token is the best."""
    texts, end = [b"a" * count for count in range(1, 6)], 2
    seen = set()
    for first in range(20, 60):
        generated = run(engine(), ask([first], texts, 30, end_token=end))[0].generated
        assert generated is not None
        assert generated.text in texts
        seen.add(len(generated.text))
        path = (first, *generated.tokens.tolist())
        if len(generated.text) < 5:
            a = FIRST + WORDS.index(b"a")
            here = fake_logits(path, [a, end])
            assert here[1] > here[0]
    assert len(seen) > 2


@pytest.mark.parametrize(("word", "rounds"), [(b"ab", 3), (b"::", 9)])
def test_what_goes_round_in_circles_is_left(word: bytes, rounds: int) -> None:
    """After three rounds with a word in them; signs and digits may repeat as they like."""

    class Circling(PathRunner):
        def logits(self, hidden: Quantised, want_row: I32, want_token: I32) -> F32:
            quote = FIRST + WORDS.index(b'"')
            return np.where(want_token == quote, np.float32(-1), np.float32(1)).astype(np.float32)

    once = word + b", "
    texts = [b'{"a":"' + once * count + b'"}' for count in range(10)]
    generated = run(engine(Circling(small_config())), ask([5], texts, 200))[0].generated
    assert generated is not None
    assert generated.text == texts[rounds]
    assert not generated.cut


def test_a_fault_is_its_own_requests() -> None:
    """Logits that are not finite, a grammar without tokens, foreign tokens; the others go on."""

    class Stuck(OneOf):
        def allowed(self) -> np.ndarray:
            return np.array([], np.int32) if b':"' in self.written else super().allowed()

    class Foreign(OneOf):
        def allowed(self) -> np.ndarray:
            return np.array([5, 10_000], np.int32)

        def forced(self) -> bytes:
            return b""

    machine = engine()
    stuck = GenerateRequest(np.array([5], np.int32), Stuck(letters(2)), SPELLER, 40)
    foreign = GenerateRequest(np.array([5], np.int32), Foreign(letters(2)), SPELLER, 40)
    with pytest.raises(RequestError, match="no token"):
        machine.submit(stuck)
    ended = run(machine, ask([POISON], letters(1, 2)), foreign, ask([5], letters(1, 2)))
    assert isinstance(ended[0].error, RowFaultError)
    assert isinstance(ended[1].error, RequestError)
    assert ended[2].generated is not None
    assert machine.alive == 0
    assert machine.free_blocks == 40


def test_a_cancel_gives_everything_back() -> None:
    """After any number of passes."""
    for passes in range(6):
        machine = engine(prefix_bytes=0)
        handle = machine.submit(ask(range(3, 90), letters(3, 4)))
        for _ in range(passes):
            machine.step()
        machine.cancel(handle)
        assert (machine.alive, machine.free_blocks) == (0, 40)
        assert machine.step() == []


def test_memory_for_the_whole_text_is_taken_at_once() -> None:
    """One that has begun never lacks memory for its own text."""
    config = small_config()
    machine = engine(PathRunner(config), kv_bytes=3 * block_bytes(config), prefix_bytes=0)
    machine.submit(ask(range(3, 60), letters(1, 2), tokens=64))
    assert machine.free_blocks == 1
    with pytest.raises(DecoderError, match="KV"):
        machine.submit(ask(range(3, 60), letters(1, 2), tokens=64))
    assert machine.free_blocks == 1
