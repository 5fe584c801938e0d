"""Where a cached position's bytes lie (`attention.h`), for whoever is not in a hurry.

Owns the layout of `KVLayer` in NumPy: its sizes, and storing and loading by slot. Never computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decoder.kernels.base import BLOCK_POSITIONS, F32, I8, I32, I64, KVLayer

if TYPE_CHECKING:
    from numpy.typing import NDArray

TILE_BYTES = 1024
PANEL = 16
_KEY_GROUPS = BLOCK_POSITIONS // PANEL


@dataclass(frozen=True, slots=True)
class HeadIntegers:
    """Vectors of 16-bit integers with a scale each.

    Attributes:
        integers: (n, heads, d) int32 within +-32639.
        scale: (n, heads) f32.

    """

    integers: I32
    scale: F32


def key_bytes(head_dim: int) -> int:
    """Return the bytes that one block's keys of one head take."""
    return _KEY_GROUPS * 2 * _parts(head_dim) * TILE_BYTES


def value_bytes(head_dim: int) -> int:
    """Return the bytes that one block's values of one head take."""
    return _groups(head_dim) * 2 * TILE_BYTES


def store(cache: KVLayer, slot: I64, keys: HeadIntegers, values: HeadIntegers) -> None:
    """Put keys and values at physical slots (n,)."""
    block, offset = slot // BLOCK_POSITIONS, slot % BLOCK_POSITIONS
    n, heads, d = keys.integers.shape
    wide = np.zeros((n, heads, 2, _parts(d) * 64), np.int8)
    wide[..., :d] = _planes(keys.integers)
    view = _key_view(cache.keys, d)
    view[block, :, offset // PANEL, :, :, :, offset % PANEL, :] = wide.reshape(
        n, heads, 2, _parts(d), 16, 4
    )
    tall = np.zeros((n, heads, 2, _groups(d) * PANEL), np.int8)
    tall[..., :d] = _planes(values.integers)
    _value_view(cache.values, d)[block, :, :, :, offset // 4, :, offset % 4] = tall.reshape(
        n, heads, 2, _groups(d), PANEL
    ).swapaxes(2, 3)
    cache.key_scale[block, :, offset] = keys.scale
    cache.value_scale[block, :, offset] = values.scale


def load(cache: KVLayer, slot: I64, head_dim: int) -> tuple[HeadIntegers, HeadIntegers]:
    """Return the keys and values at physical slots (n,)."""
    block, offset = slot // BLOCK_POSITIONS, slot % BLOCK_POSITIONS
    n, heads = len(slot), cache.keys.shape[1]
    wide = _key_view(cache.keys, head_dim)[block, :, offset // PANEL, :, :, :, offset % PANEL, :]
    tall = _value_view(cache.values, head_dim)[block, :, :, :, offset // 4, :, offset % 4]
    return (
        HeadIntegers(
            _integers(wide.reshape(n, heads, 2, _parts(head_dim) * 64)[..., :head_dim]),
            np.ascontiguousarray(cache.key_scale[block, :, offset]),
        ),
        HeadIntegers(
            _integers(
                tall.swapaxes(2, 3).reshape(n, heads, 2, _groups(head_dim) * PANEL)[..., :head_dim]
            ),
            np.ascontiguousarray(cache.value_scale[block, :, offset]),
        ),
    )


def _parts(head_dim: int) -> int:
    return -(-head_dim // 64)


def _groups(head_dim: int) -> int:
    return -(-head_dim // PANEL)


def _key_view(keys: I8, head_dim: int) -> NDArray[np.int8]:
    """Block, head, group of positions, plane, part, four elements, position, element."""
    return keys.reshape(*keys.shape[:2], _KEY_GROUPS, 2, _parts(head_dim), 16, PANEL, 4)


def _value_view(values: I8, head_dim: int) -> NDArray[np.int8]:
    """Block, head, group of elements, plane, four positions, element, position."""
    return values.reshape(*values.shape[:2], _groups(head_dim), 2, 16, PANEL, 4)


def _planes(integers: I32) -> I8:
    """(n, heads, d) -> (n, heads, 2, d)."""
    high = (integers + 128) >> 8
    return np.stack([high, integers - high * 256], axis=2).astype(np.int8)


def _integers(planes: I8) -> I32:
    """(n, heads, 2, d) -> (n, heads, d)."""
    wide = planes.astype(np.int32)
    joined: I32 = wide[:, :, 0] * 256 + wide[:, :, 1]
    return joined
