"""Keys and values of every living request, in blocks of 64 positions.

Owns the memory and who holds which block. Never computes: kernels read and write the arrays.
The size is declared once and never grows; untouched blocks cost no resident memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decoder.errors import CapacityError
from decoder.kernels.base import BLOCK_POSITIONS, F32

if TYPE_CHECKING:
    from decoder.config import ModelConfig


class KVPool:
    """A fixed number of blocks, shared by all layers under one numbering.

    Attributes:
        keys: one (blocks, kv_heads, head_dim, 64) f32 array a layer.
        values: one (blocks, kv_heads, 64, head_dim) f32 array a layer.

    """

    def __init__(self, config: ModelConfig, blocks: int) -> None:
        kv, d = config.kv_heads, config.head_dim
        self.blocks = blocks
        self.keys: list[F32] = [
            np.zeros((blocks, kv, d, BLOCK_POSITIONS), np.float32) for _ in range(config.layers)
        ]
        self.values: list[F32] = [
            np.zeros((blocks, kv, BLOCK_POSITIONS, d), np.float32) for _ in range(config.layers)
        ]
        self._free = list(range(blocks - 1, -1, -1))

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Return `count` block numbers. Raises CapacityError where there are not so many."""
        if count > len(self._free):
            raise CapacityError(
                f"{count} KV blocks are needed and {len(self._free)} of {self.blocks} are free; "
                "wait for a request to finish, or declare more KV memory"
            )
        return [self._free.pop() for _ in range(count)]

    def give_back(self, blocks: list[int]) -> None:
        """Return blocks to the pool and empty the caller's list."""
        self._free.extend(blocks)
        blocks.clear()


def blocks_for(positions: int) -> int:
    """Return how many blocks hold `positions` slots."""
    return -(-positions // BLOCK_POSITIONS)
