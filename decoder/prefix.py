"""Keys and values of finished prompts, kept for the next that begin alike.

Owns the tree of cached blocks, who uses which, and what is given up first. A hit changes no bit:
keys and values of a position depend on the tokens up to it and on nothing else. Never runs a model.

A node is a block of up to 64 prompt tokens below the blocks before it. Whole blocks are shared as
they lie; of a block that agrees only at its beginning, a copy is made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from decoder.kernels.base import BLOCK_POSITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decoder.kv import KVPool

MIN_COPIED_TOKENS = 8
"""Below this many tokens a copy of a block costs more than reading them again."""

_Tokens = tuple[int, ...]


@dataclass(slots=True, eq=False)
class CachedBlock:
    """A block of a prompt that was read.

    Attributes:
        tokens: up to 64; only whole blocks have others below them.
        block: its number in the pool, -1 at the root.
        parent: the block before it, None at the root.
        users: requests alive that read it where it lies.
        below: blocks that follow, by their tokens.
        order: the keys of `below`, ascending.

    """

    tokens: _Tokens
    block: int
    parent: CachedBlock | None
    users: int = 0
    below: dict[_Tokens, CachedBlock] = field(default_factory=dict)
    order: list[_Tokens] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """What is cached of a prompt.

    Attributes:
        shared: whole blocks from the prompt's beginning on, in order.
        copied: a block whose first `copied_tokens` tokens follow them, or None.
        copied_tokens: how many.

    """

    shared: tuple[CachedBlock, ...]
    copied: CachedBlock | None = None
    copied_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Prompt tokens that need not be read."""
        return len(self.shared) * BLOCK_POSITIONS + self.copied_tokens


class PrefixCache:
    """Cached blocks of one pool; the least recently used are given up first.

    Args:
        pool: who lends the blocks.
        max_blocks: most blocks kept; 0 keeps nothing.

    """

    def __init__(self, pool: KVPool, max_blocks: int) -> None:
        self._pool = pool
        self._max_blocks = max_blocks
        self._root = CachedBlock((), -1, None)
        # Blocks by when they were last used, oldest first; one above is never older than those
        # below it, since it is touched after them.
        self._recent: OrderedDict[int, CachedBlock] = OrderedDict()

    @property
    def blocks(self) -> int:
        """Blocks that are kept."""
        return len(self._recent)

    @property
    def unused(self) -> int:
        """Blocks that could be given up now."""
        return sum(not node.users for node in self._recent.values())

    def match(self, prompt: Sequence[int]) -> PrefixMatch:
        """Return what is cached of the prompt, its last token left out: that one must be read."""
        node, shared, start = self._root, [], 0
        end = len(prompt) - 1
        while start + BLOCK_POSITIONS <= end:
            found = node.below.get(tuple(prompt[start : start + BLOCK_POSITIONS]))
            if found is None:
                break
            shared.append(found)
            node, start = found, start + BLOCK_POSITIONS
        rest = tuple(prompt[start : min(start + BLOCK_POSITIONS, end)])
        nearest, length = _nearest(node, rest)
        if nearest is None or length < MIN_COPIED_TOKENS:
            return PrefixMatch(tuple(shared))
        return PrefixMatch(tuple(shared), nearest, length)

    def hold(self, match: PrefixMatch) -> None:
        """Keep the match's blocks while a request reads them. Each hold wants one `release`."""
        for node in match.shared:
            node.users += 1
        self._touch([*match.shared, *([match.copied] if match.copied else [])])

    def release(self, match: PrefixMatch) -> None:
        """Undo one `hold`."""
        for node in match.shared:
            node.users -= 1

    def keeps(self, node: CachedBlock) -> bool:
        """Say whether the block is still kept."""
        return self._recent.get(node.block) is node

    def give_up(self, count: int) -> None:
        """Give up to `count` unused blocks back to the pool, the least recently used first."""
        for node in [n for n in self._recent.values() if not n.users]:
            if count <= 0:
                return
            if not node.below:  # older than all above it, so those below came first
                self._drop(node)
                count -= 1

    def keep(self, prompt: Sequence[int], match: PrefixMatch, own: list[int]) -> None:
        """Take over a finished request's blocks of its prompt; take them out of `own`.

        Args:
            prompt: all of it was read.
            match: what the request held when it began; still held.
            own: its blocks after the shared ones, in order. What remains in it is the caller's.

        """
        if not self._max_blocks:
            return
        node = match.shared[-1] if match.shared else self._root
        path, start, left = list(match.shared), len(match.shared) * BLOCK_POSITIONS, []
        while start < len(prompt):
            tokens = tuple(prompt[start : start + BLOCK_POSITIONS])
            nearest, length = _nearest(node, tokens)
            mine = own.pop(0)
            if nearest is not None and length == len(tokens):
                left.append(mine)  # another request left as much or more in the meantime
                node = nearest
            elif len(tokens) < MIN_COPIED_TOKENS:
                left.append(mine)
                break
            else:
                if nearest is not None and length == len(nearest.tokens) and not nearest.users:
                    self._drop(nearest)  # the new one says all that it said
                made = CachedBlock(tokens, mine, node)
                node.order.insert(bisect_left(node.order, tokens), tokens)
                node.below[tokens] = made
                self._recent[mine] = made
                node = made
            path.append(node)
            start += BLOCK_POSITIONS
        own[:0] = left
        self._touch(path)
        self.give_up(len(self._recent) - self._max_blocks)

    def _touch(self, path: Sequence[CachedBlock]) -> None:
        for node in reversed(path):
            self._recent.move_to_end(node.block)

    def _drop(self, node: CachedBlock) -> None:
        parent = node.parent
        assert parent is not None
        assert not node.below
        del parent.below[node.tokens]
        del parent.order[bisect_left(parent.order, node.tokens)]
        del self._recent[node.block]
        self._pool.give_back([node.block])


def _nearest(node: CachedBlock, tokens: _Tokens) -> tuple[CachedBlock | None, int]:
    """Return the block below that agrees longest with `tokens` from its start, and how long.

    In ascending order whatever agrees longest stands beside where the tokens would stand.
    """
    at = bisect_left(node.order, tokens)
    best, longest = None, 0
    for place in (at, at - 1):
        if 0 <= place < len(node.order):
            other = node.order[place]
            length = 0
            for mine, its in zip(tokens, other, strict=False):
                if mine != its:
                    break
                length += 1
            if length > longest:
                best, longest = node.below[other], length
    return best, longest
