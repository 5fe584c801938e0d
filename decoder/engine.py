"""The engine: requests in, one packed forward pass a step, leaves with log-probabilities out.

Owns the slots, the KV blocks and the order of work (continuous batching: between two passes
finished requests leave and waiting rows enter). Never decides what a tool is. Whatever is packed
together, a request's bits are its own: every row sees only its own request's path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from decoder.errors import CapacityError, DecoderError, PassError, RequestError
from decoder.generation import GenerateRequest, GenerateResult, Generation, tokens_array
from decoder.kernels.base import BLOCK_POSITIONS, F32, I32, PathIndex, Quantised
from decoder.kv import KVPool, block_bytes, blocks_for
from decoder.prefix import PrefixCache, PrefixMatch
from decoder.requests import WalkRequest, WalkResult
from decoder.transformer import PackedRows
from decoder.trie import AllowedTrie
from decoder.walk import Node, Walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from decoder.config import ModelConfig


__all__ = [
    "Engine",
    "EngineConfig",
    "Finished",
    "GenerateRequest",
    "GenerateResult",
    "Runner",
    "WalkRequest",
    "WalkResult",
]

TOKENS_A_PASS_OF_AGE = 64
"""Prompt tokens that a request may have more than another for each pass it came before it."""


class Runner(Protocol):
    """What the engine needs of a model; `decoder.transformer.Transformer` is one."""

    config: ModelConfig

    @property
    def guess_tokens(self) -> int:
        """Trie tokens that are worth running beside a needed one though they may not be needed."""
        ...

    def forward(self, rows: PackedRows, kv: KVPool) -> Quantised:
        """Run the rows; return the wanted ones' hidden state."""
        ...

    def logits(self, hidden: Quantised, want_row: I32, want_token: I32) -> F32:
        """Return the logits of (row, token) pairs."""
        ...


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How much the engine may hold and how it packs.

    Attributes:
        max_slots: requests alive at once.
        kv_bytes: bytes of keys and values in all; never exceeded.
        max_pass_tokens: most rows in one forward pass. Forced tokens up to one branch are never
            split, so a run longer than this has a pass of its own.
        prefix_bytes: most bytes, of `kv_bytes`, that keep what finished prompts have read for the
            next that begin alike; 0 keeps nothing. They are given up when requests need them.
        tree_tokens: most trie tokens that one request runs in a pass, fewer where the runner says
            that guesses cost it dear. More means fewer passes and more work that may turn out
            unneeded; the answer's bits are the same.

    """

    max_slots: int = 16
    kv_bytes: int = 1 << 30
    max_pass_tokens: int = 256
    prefix_bytes: int = 128 << 20
    tree_tokens: int = 64

    def __post_init__(self) -> None:
        """Refuse values that can't work."""
        for name in ("max_slots", "kv_bytes", "max_pass_tokens", "tree_tokens"):
            if getattr(self, name) < 1:
                raise DecoderError(f"EngineConfig.{name} is {getattr(self, name)}; give at least 1")
        if self.prefix_bytes < 0:
            raise DecoderError(f"EngineConfig.prefix_bytes is {self.prefix_bytes}; give 0 or more")


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A request that ended in this step: `result` (of a walk), `generated` or `error`, only one."""

    handle: int
    result: WalkResult | None
    error: DecoderError | None
    generated: GenerateResult | None = None


@dataclass(slots=True, eq=False)
class _Alive:
    """A request's state: how much of its prompt is read, and its walk or what it writes.

    `blocks` holds the shared blocks first, then its own. `age` counts the passes since it came.
    What a generation writes is appended to its prompt, since it is read in the very same way;
    `asked` tokens of it are the caller's.
    """

    handle: int
    prompt: I32
    asked: int
    work: Walk | Generation
    match: PrefixMatch
    blocks: list[int]
    next_slot: int
    fed: int = 0
    age: int = 0
    scored_tokens: int = 0
    tree_tokens: int = 0
    passes: int = 0


@dataclass(slots=True, eq=False)
class _Plan:
    """The rows being packed for one pass."""

    ids: list[I32] = field(default_factory=list)
    position: list[I32] = field(default_factory=list)
    slot: list[NDArray[np.int64]] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    table_offsets: list[int] = field(default_factory=list)
    prefix: list[I32] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    tail_offsets: list[int] = field(default_factory=lambda: [0])
    wanted: list[tuple[int, _Alive, Node | None]] = field(default_factory=list)
    states: list[_Alive] = field(default_factory=list)
    rows: int = 0


class Engine:
    """Runs requests against one model.

    Args:
        runner: the model.
        config: limits.

    """

    def __init__(self, runner: Runner, config: EngineConfig | None = None) -> None:
        self.config = config or EngineConfig()
        self._runner = runner
        needed = block_bytes(runner.config)
        blocks = self.config.kv_bytes // needed
        if blocks < 1:
            raise DecoderError(
                f"kv_bytes is {self.config.kv_bytes}; one block of {BLOCK_POSITIONS} positions "
                f"takes {needed}"
            )
        self._kv = KVPool(runner.config, blocks)
        self._prefixes = PrefixCache(self._kv, min(blocks, self.config.prefix_bytes // needed))
        self._alive: dict[int, _Alive] = {}
        self._ended: list[Finished] = []  # outcomes that a broken pass kept from being told
        self._next_handle = 1

    @property
    def alive(self) -> int:
        """Requests that hold a slot."""
        return len(self._alive)

    @property
    def kv_tokens(self) -> int:
        """Positions that the whole KV memory holds."""
        return self._kv.blocks * BLOCK_POSITIONS

    @property
    def free_blocks(self) -> int:
        """KV blocks that no request alive holds; some may keep what earlier prompts read."""
        return self._kv.free_blocks + self._prefixes.unused

    def submit(self, request: WalkRequest | GenerateRequest) -> int:
        """Take a request in; return its handle.

        Raises:
            RequestError: an empty or too long prompt, a foreign token, nothing allowed;
                BudgetError where no text fits `max_tokens`.
            CapacityError: no slot or not enough KV memory is free now.

        """
        given = np.asarray(request.prompt)
        self._check_prompt(given, request)
        prompt = np.ascontiguousarray(given, dtype=np.int32)
        if len(self._alive) >= self.config.max_slots:
            raise CapacityError(
                f"all {self.config.max_slots} slots are in use; wait for a request to finish"
            )
        asked, work = len(prompt), self._work(request)
        if isinstance(work, Generation):
            prompt = np.concatenate([prompt, tokens_array(work.start())])
        handle = self._next_handle
        self._next_handle += 1
        state = _Alive(handle, prompt, asked, work, PrefixMatch(()), [], next_slot=asked)
        if not work.done:
            self._begin(state)
        self._alive[handle] = state
        return handle

    def cancel(self, handle: int) -> bool:
        """Give a request up and free what it holds; False where it is not alive."""
        state = self._alive.pop(handle, None)
        if state is None:
            return False
        self._give_back(state)
        return True

    def step(self) -> list[Finished]:
        """Run one forward pass over what is alive; return the requests that ended.

        With nothing alive it returns an empty list at once. Where the model itself breaks off, its
        exception goes on to the caller, the requests of that pass give back what they hold, and
        the next step tells their outcome: a `PassError` each.
        """
        # Where one leaf alone is allowed, no model is needed.
        decided = [state for state in self._alive.values() if state.work.done]
        finished, self._ended = self._ended, []
        finished += [self._finish(state) for state in decided]
        plan = self._plan(finished)
        if plan.rows:
            try:
                self._run(plan, finished)
            except BaseException as error:
                # Their prompts count as read though they are not: none of them can go on.
                reason = f"the forward pass broke off ({type(error).__name__}); ask again"
                alive = [state for state in plan.states if state.handle in self._alive]
                finished += [self._fail(state, PassError(reason)) for state in alive]
                self._ended = finished
                raise
        return finished

    def _work(self, request: WalkRequest | GenerateRequest) -> Walk | Generation:
        if isinstance(request, GenerateRequest):
            return Generation(request)
        if request.top_k < 1:
            raise RequestError(f"top_k is {request.top_k}; ask for at least 1")
        return Walk(AllowedTrie(request.trie, request.allowed), request.top_k)

    def _check_prompt(
        self, prompt: NDArray[np.generic], request: WalkRequest | GenerateRequest
    ) -> None:
        config = self._runner.config
        if prompt.ndim != 1 or not len(prompt):
            raise RequestError("the prompt has no tokens; give at least one")
        if not np.issubdtype(prompt.dtype, np.integer):
            raise RequestError(f"the prompt is {prompt.dtype}; token ids are integers")
        if isinstance(request, GenerateRequest):
            most, what = request.max_tokens, "what is to be written takes up to"
        else:
            trie = request.trie
            if trie.lowest_token < 0 or trie.highest_token >= config.vocab_size:
                raise RequestError(
                    f"the trie holds a token outside 0..{config.vocab_size - 1}; was it compiled "
                    "for another tokenizer?"
                )
            most, what = trie.depth, "the longest name has"
        if len(prompt) + most > config.context_length:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens and {what} {most}; the model takes "
                f"{config.context_length} in all"
            )
        if int(prompt.min()) < 0 or int(prompt.max()) >= config.vocab_size:
            raise RequestError(
                f"the prompt holds a token outside 0..{config.vocab_size - 1}; was it made by "
                "another tokenizer?"
            )

    def _begin(self, state: _Alive) -> None:
        """Take what the request needs to read its prompt, and take over what is read already."""
        prompt = state.prompt.tolist()
        # What a generation may need is taken at once: one that has begun can always end.
        work = state.work
        ahead = work.request.max_tokens if isinstance(work, Generation) else self.config.tree_tokens
        needed = blocks_for(state.asked + ahead)
        if needed > self._kv.blocks:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens and would need {needed} KV blocks of the "
                f"{self._kv.blocks} there are; shorten it or declare more KV memory"
            )
        match = self._prefixes.match(prompt)
        self._prefixes.hold(match)
        try:
            own = self._take_blocks(needed - len(match.shared))
        except CapacityError:
            self._prefixes.release(match)
            raise
        if match.copied is not None:
            if self._prefixes.keeps(match.copied):
                self._kv.copy(match.copied.block, own[0])
            else:  # it was given up to make room for this very request
                match = PrefixMatch(match.shared)
        state.match, state.fed = match, match.tokens
        state.blocks = [*(node.block for node in match.shared), *own]

    def _take_blocks(self, count: int) -> list[int]:
        """Take blocks, from what earlier prompts left where there are no others."""
        self._prefixes.give_up(count - self._kv.free_blocks)
        return self._kv.take(count)

    def _give_back(self, state: _Alive) -> None:
        """Give back what the request holds."""
        self._kv.give_back(state.blocks[len(state.match.shared) :])
        self._prefixes.release(state.match)
        state.blocks, state.match = [], PrefixMatch(())

    def _plan(self, finished: list[Finished]) -> _Plan:
        """Pack the next pass: who has least left to read first, who is older sooner."""
        plan = _Plan()
        stalled: tuple[_Alive, CapacityError] | None = None
        for state in sorted(self._alive.values(), key=_turn):
            room = self.config.max_pass_tokens - plan.rows
            state.age += 1
            if room > 0:
                try:
                    self._plan_request(plan, state, room)
                except CapacityError as error:
                    if stalled is None or state.handle > stalled[0].handle:
                        stalled = state, error
        if stalled and not plan.rows:
            # Nobody can move: the one that came last gives way, so that the others can.
            finished.append(self._fail(*stalled))
        return plan

    def _plan_request(self, plan: _Plan, state: _Alive, limit: int) -> None:
        """Add the request's next rows: a chunk of its prompt, then trie tokens if that ends it."""
        chunk = min(len(state.prompt) - state.fed, limit)
        ends = state.fed + chunk == len(state.prompt)
        nodes: list[Node] = []
        if ends and isinstance(state.work, Walk):
            tree_budget = max(1, min(self.config.tree_tokens, limit - chunk))
            nodes = state.work.wanted_nodes(tree_budget, self._runner.guess_tokens)
            if chunk and nodes and _new_tokens(nodes) > max(limit - chunk, 0):
                # The first wanted branch alone does not fit beside the prompt: next pass.
                nodes = [] if nodes[0].branch.tokens else nodes[:1]
            if plan.rows and plan.rows + chunk + _new_tokens(nodes) > self.config.max_pass_tokens:
                nodes = []  # a long run of forced tokens waits for a pass with room
            self._reserve(state, _new_tokens(nodes))
        if not chunk and not nodes:
            return
        table_offset = len(plan.table)
        plan.table.extend(state.blocks)
        plan.states.append(state)
        state.passes += 1
        if chunk:
            slots = np.arange(state.fed, state.fed + chunk, dtype=np.int32)
            self._add_rows(plan, state, table_offset, state.prompt[slots], slots, slots, slots + 1)
            plan.tail_offsets.extend([len(plan.tail)] * chunk)
            state.fed += chunk
        if ends and isinstance(state.work, Generation):
            plan.wanted.append((plan.rows - 1, state, None))
        for node in nodes:
            self._plan_node(plan, state, table_offset, node)

    def _plan_node(self, plan: _Plan, state: _Alive, table_offset: int, node: Node) -> None:
        """Add the token rows that lead to a branch; each sees the prompt and its own path."""
        path = node.parent.path_slots if node.parent else ()
        start = len(state.prompt)
        for token in node.branch.tokens:
            slot = state.next_slot
            state.next_slot += 1
            position = start + len(path)
            path = (*path, slot)
            one = np.array([token], np.int32)
            self._add_rows(
                plan,
                state,
                table_offset,
                one,
                np.array([position], np.int32),
                np.array([slot], np.int32),
                np.array([start], np.int32),
            )
            plan.tail.extend(path)
            plan.tail_offsets.append(len(plan.tail))
            state.tree_tokens += 1
        node.path_slots = path
        # A first branch without tokens of its own is scored at the prompt's last row, which is
        # the row just added.
        plan.wanted.append((plan.rows - 1, state, node))

    def _add_rows(
        self,
        plan: _Plan,
        state: _Alive,
        table_offset: int,
        ids: I32,
        position: I32,
        slots: I32,
        prefix: I32,
    ) -> None:
        blocks = np.asarray(state.blocks, np.int64)
        plan.ids.append(ids)
        plan.position.append(position)
        plan.slot.append(
            blocks[slots // BLOCK_POSITIONS] * BLOCK_POSITIONS + slots % BLOCK_POSITIONS
        )
        plan.prefix.append(prefix)
        plan.table_offsets.extend([table_offset] * len(ids))
        plan.rows += len(ids)

    def _reserve(self, state: _Alive, tokens: int) -> None:
        missing = blocks_for(state.next_slot + tokens) - len(state.blocks)
        if missing > 0:
            state.blocks.extend(self._take_blocks(missing))

    def _run(self, plan: _Plan, finished: list[Finished]) -> None:
        wanted = np.array(sorted({row for row, _, _ in plan.wanted}), np.int64)
        hidden = self._runner.forward(_packed(plan, wanted), self._kv)
        if not len(wanted):
            return
        place = np.searchsorted(wanted, [row for row, _, _ in plan.wanted]).astype(np.int32)
        tokens = self._wanted_tokens(plan, finished)
        want_row = np.repeat(place, [len(t) for t in tokens]).astype(np.int32)
        logits = self._runner.logits(hidden, want_row, np.concatenate(tokens).astype(np.int32))
        self._score(plan, [len(t) for t in tokens], logits, finished)

    def _wanted_tokens(self, plan: _Plan, finished: list[Finished]) -> list[I32]:
        """Return, for each wanted row, the tokens whose logits are wanted."""
        tokens: list[I32] = []
        for _, state, node in plan.wanted:
            own = tokens_array(())
            try:
                own = _tokens_asked(state, node, self._runner.config.vocab_size)
            except DecoderError as error:
                finished.append(self._fail(state, error))
            tokens.append(own)
        return tokens

    def _score(
        self, plan: _Plan, counts: Sequence[int], logits: F32, finished: list[Finished]
    ) -> None:
        """Hand every wanted row its tokens' logits, then let the requests go on."""
        start = 0
        touched: dict[int, _Alive] = {}
        for (_, state, node), count in zip(plan.wanted, counts, strict=True):
            piece = logits[start : start + count]
            start += count
            if state.handle not in self._alive:
                continue
            try:
                self._take(state, node, piece)
                state.scored_tokens += count
                touched[state.handle] = state
            except DecoderError as error:
                touched.pop(state.handle, None)
                finished.append(self._fail(state, error))
        for state in touched.values():
            if isinstance(state.work, Walk):
                state.work.advance()
            if state.work.done:
                finished.append(self._finish(state))

    def _take(self, state: _Alive, node: Node | None, logits: F32) -> None:
        """Let one request go on by what was wanted of one row."""
        if isinstance(state.work, Generation):
            written = state.work.choose(logits)
            state.prompt = np.concatenate([state.prompt, tokens_array(written)])
        else:
            assert node is not None
            state.work.score(node, state.work.child_edges(node), logits)

    def _finish(self, state: _Alive) -> Finished:
        if state.fed >= state.asked:
            own = state.blocks[len(state.match.shared) :]
            self._prefixes.keep(state.prompt[: state.asked].tolist(), state.match, own)
            state.blocks[len(state.match.shared) :] = own
        cached = min(state.match.tokens, state.asked)
        self.cancel(state.handle)
        result = _result(state, cached)
        if isinstance(result, GenerateResult):
            return Finished(state.handle, None, None, result)
        return Finished(state.handle, result, None)

    def _fail(self, state: _Alive, error: DecoderError) -> Finished:
        self.cancel(state.handle)
        return Finished(state.handle, None, error)


def _tokens_asked(state: _Alive, node: Node | None, vocab_size: int) -> I32:
    """Return the tokens whose logits the request wants of a row."""
    if isinstance(state.work, Walk):
        assert node is not None
        return state.work.edge_tokens(state.work.child_edges(node))
    asked = state.work.asked()
    if int(asked.min()) < 0 or int(asked.max()) >= vocab_size:
        raise RequestError(
            f"the grammar allows a token outside 0..{vocab_size - 1}; is it for another tokenizer?"
        )
    return asked


def _result(state: _Alive, cached: int) -> WalkResult | GenerateResult:
    work = state.work
    if isinstance(work, Generation):
        return GenerateResult(
            text=work.text,
            tokens=tokens_array(work.tokens),
            logprob=work.logprob,
            cut=work.cut,
            prompt_tokens=state.asked,
            cached_tokens=cached,
            scored_tokens=state.scored_tokens,
            passes=state.passes,
        )
    return WalkResult(
        leaves=np.array(work.leaves, np.int32),
        logprobs=np.array(work.logprobs, np.float64),
        prompt_tokens=state.asked,
        cached_tokens=cached,
        scored_tokens=state.scored_tokens,
        tree_tokens=state.tree_tokens,
        passes=state.passes,
    )


def _turn(state: _Alive) -> tuple[int, int]:
    """Order of service: the shortest rest first, and each pass of age makes up for some."""
    rest = len(state.prompt) - state.fed
    return rest - TOKENS_A_PASS_OF_AGE * state.age, state.handle


def _new_tokens(nodes: Sequence[Node]) -> int:
    return sum(len(node.branch.tokens) for node in nodes)


def _packed(plan: _Plan, wanted: NDArray[np.int64]) -> PackedRows:
    return PackedRows(
        ids=np.concatenate(plan.ids).astype(np.int32),
        position=np.concatenate(plan.position).astype(np.int32),
        slot=np.concatenate(plan.slot),
        path=PathIndex(
            table=np.array(plan.table, np.int32),
            table_offsets=np.array(plan.table_offsets, np.int64),
            prefix=np.concatenate(plan.prefix).astype(np.int32),
            tail=np.array(plan.tail, np.int32),
            tail_offsets=np.array(plan.tail_offsets, np.int64),
        ),
        wanted=wanted,
    )
