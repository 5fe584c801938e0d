"""Keys and values of every living request, in blocks of 64 positions.

Owns the memory and who holds which block. Never computes: kernels read and write the arrays.
The size is declared once and never grows; untouched blocks cost no resident memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decoder.errors import CapacityError
from decoder.kernels import layout
from decoder.kernels.base import BLOCK_POSITIONS, KVLayer

if TYPE_CHECKING:
    from decoder.config import ModelConfig


class KVPool:
    """A fixed number of blocks, shared by all layers under one numbering.

    Attributes:
        layers: one `KVLayer` for each layer, parts of one array each.

    """

    def __init__(self, config: ModelConfig, blocks: int) -> None:
        self.blocks = blocks
        at = (config.layers, blocks, config.kv_heads)
        keys = np.zeros((*at, layout.key_bytes(config.head_dim)), np.int8)
        values = np.zeros((*at, layout.value_bytes(config.head_dim)), np.int8)
        scales = np.zeros((2, *at, BLOCK_POSITIONS), np.float32)
        self._whole = (keys, values, scales[0], scales[1])
        self.layers = tuple(
            KVLayer(keys[i], values[i], scales[0, i], scales[1, i]) for i in range(config.layers)
        )
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

    def copy(self, source: int, target: int) -> None:
        """Copy a block, all layers and all 64 positions, whatever they hold."""
        for array in self._whole:
            array[:, target] = array[:, source]

    def give_back(self, blocks: list[int]) -> None:
        """Return blocks to the pool and empty the caller's list."""
        self._free.extend(blocks)
        blocks.clear()


def blocks_for(positions: int) -> int:
    """Return how many blocks hold `positions` slots."""
    return -(-positions // BLOCK_POSITIONS)


def block_bytes(config: ModelConfig) -> int:
    """Return the bytes that one block takes over all layers."""
    head = layout.key_bytes(config.head_dim) + layout.value_bytes(config.head_dim)
    return config.layers * config.kv_heads * (head + 2 * 4 * BLOCK_POSITIONS)
