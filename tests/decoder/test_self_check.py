"""The self-check passes on this machine and names what is wrong on a broken one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from decoder.errors import SelfCheckError
from decoder.kernels import make_kernels
from decoder.kernels.base import I8, I32, Quantised, QuantisedWeight
from decoder.model import LoadedModel
from decoder.self_check import self_check

if TYPE_CHECKING:
    from decoder.tokenizer import LoadedTokenizer
    from tests.decoder.conftest import MakeModel


def loaded(transformer: Any) -> LoadedModel:
    tokenizer: LoadedTokenizer = None  # type: ignore[assignment]
    return LoadedModel(transformer.config, transformer, tokenizer, "", Path())


class Faulty:
    """Real kernels with one broken operation."""

    def __init__(self, broken: str) -> None:
        self._broken = broken
        self._real = make_kernels("native", threads=1)
        self.name = "native"

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name != self._broken:
            return real

        def broken(*args: Any, **kwargs: Any) -> Any:
            out = real(*args, **kwargs)
            if isinstance(out, Quantised):
                scale = out.scale.copy()
                scale[-1] = np.nextafter(scale[-1], np.float32(np.inf))
                return dataclasses.replace(out, scale=scale)
            return np.nextafter(out, np.float32(np.inf))

        return broken

    def saturating(self, planes: I8, weight: QuantisedWeight) -> I32:
        """What AVX2 without VNNI does: u8 x s8 pairs are summed in 16 bits with saturation.

        The signed left side is shifted by 128 first, and the shift is taken off at the end.
        """
        shifted = planes.astype(np.int64)[:, None, :] + 128
        w = weight.values.astype(np.int64)[None]
        pairs = shifted * w
        summed = np.clip(pairs[..., ::2] + pairs[..., 1::2], -32768, 32767).sum(axis=-1)
        return (summed - 128 * w.sum(axis=-1)).astype(np.int32)


def test_this_machine_is_sound(make_model: MakeModel) -> None:
    """Native kernels, one and two threads."""
    for threads in (1, 2):
        self_check(loaded(make_model(threads=threads)))


@pytest.mark.parametrize(
    "operation",
    [
        *("embed", "quantise", "dequantise", "residual_rmsnorm_quantise", "gathered_head"),
        *("rmsnorm_quantise", "silu_mul_quantise", "qkv_store", "attention_quantise"),
    ],
)
def test_one_wrong_bit_is_caught_and_named(make_model: MakeModel, operation: str) -> None:
    """One unit in the last place of one scale is enough."""
    transformer = make_model()
    transformer.kernels = Faulty(operation)  # type: ignore[assignment]
    with pytest.raises(SelfCheckError, match=operation):
        self_check(loaded(transformer))


def test_saturating_products_are_caught(make_model: MakeModel) -> None:
    """The trap of CPUs without exact int8 products."""
    transformer = make_model()
    faulty = Faulty("")
    faulty.product = faulty.saturating  # type: ignore[attr-defined]
    transformer.kernels = faulty  # type: ignore[assignment]
    with pytest.raises(SelfCheckError, match="int8 product"):
        self_check(loaded(transformer))


def test_a_product_wrong_in_its_last_column_alone_is_caught(make_model: MakeModel) -> None:
    """The model's shapes are checked whole, not a corner of them."""
    transformer = make_model()
    faulty = Faulty("")

    def product(planes: I8, weight: QuantisedWeight) -> I32:
        out = make_kernels("native", threads=1).product(planes, weight).copy()
        if out.shape[1] > 64:
            out[-1, -1] += 1
        return out

    faulty.product = product  # type: ignore[attr-defined]
    transformer.kernels = faulty  # type: ignore[assignment]
    with pytest.raises(SelfCheckError, match="off by up to 1 "):
        self_check(loaded(transformer))
