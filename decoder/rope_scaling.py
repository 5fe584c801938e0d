"""Rotary frequencies of models that were stretched to longer contexts than their first.

Owns `RopeScaling` and the frequencies it gives, through 50-digit decimals so that every machine
has the same bits. Never reads a configuration file.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal

from decoder.errors import UnsupportedModelError

KINDS = ("linear", "llama3", "yarn", "factors")
DIGITS = 50
_TWO_PI = 2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies differ from theta^(-2i/d).

    Attributes:
        kind: "linear" (all divided by `factor`: Chen et al. 2023), "llama3" (long waves divided,
            short ones kept, Llama 3.1), "yarn" (a ramp over the dimensions: Peng et al. 2023), or
            "factors" (each divided by its own, as GGUF files hold Llama 3's).
        factor: how much longer the context became.
        original_context: positions the model was first made for (llama3, yarn).
        low_freq_factor: llama3: waves longer than original_context over this are divided.
        high_freq_factor: llama3: waves shorter than original_context over this are kept.
        beta_fast: yarn: turns within the original context from which dimensions are kept.
        beta_slow: yarn: turns below which they are divided.
        truncate: yarn: the ramp's ends are whole dimensions.
        attention_factor: cosine and sine are multiplied by it.
        factors: (head_dim/2,) divisors, kind "factors" alone.

    """

    kind: str
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0
    factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what can't be computed, naming the key."""
        if self.kind not in KINDS:
            raise UnsupportedModelError(
                f"rope scaling {self.kind!r} is not computed here; known: {', '.join(KINDS)}"
            )
        for key in ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow",
                    "attention_factor"):  # fmt: skip
            value = getattr(self, key)
            if not (math.isfinite(value) and value > 0):
                raise UnsupportedModelError(f"rope scaling: {key} is {value}; it must be positive")
        if self.kind in ("llama3", "yarn") and self.original_context < 1:
            raise UnsupportedModelError(
                f"rope scaling {self.kind!r} needs original_max_position_embeddings; it is "
                f"{self.original_context}"
            )
        if self.kind == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise UnsupportedModelError(
                "rope scaling 'llama3': high_freq_factor must exceed low_freq_factor"
            )
        if not all(math.isfinite(f) and f > 0 for f in self.factors):
            raise UnsupportedModelError("rope scaling: every factor of rope_freqs must be positive")


def yarn_attention_factor(factor: float, mscale: float = 0.0, mscale_all_dim: float = 0.0) -> float:
    """Return what YaRN multiplies cosine and sine by: 0.1 ln(factor) + 1, or a ratio of two.

    The ratio has the weights `mscale` and `mscale_all_dim` before the logarithm; it is taken where
    neither is zero.

    Raises:
        UnsupportedModelError: the factor or a scale is not positive.

    """
    if factor <= 0:
        raise UnsupportedModelError(f"rope scaling: factor is {factor}; it must be positive")
    with decimal.localcontext(prec=DIGITS):
        grown = Decimal(factor).ln() if factor > 1 else Decimal(0)

        def scale(weight: float) -> Decimal:
            return Decimal("0.1") * Decimal(repr(weight)) * grown + 1

        if mscale and mscale_all_dim:
            if scale(mscale) <= 0 or scale(mscale_all_dim) <= 0:
                raise UnsupportedModelError(
                    f"rope scaling: mscale ({mscale}) and mscale_all_dim ({mscale_all_dim}) must "
                    "give positive scales"
                )
            return float(scale(mscale) / scale(mscale_all_dim))
        return float(scale(1.0))


def frequencies(head_dim: int, theta: float, scaling: RopeScaling | None) -> list[float]:
    """Return the head_dim/2 rotary frequencies, each rounded once from 50-digit decimals.

    Raises:
        UnsupportedModelError: as many factors as frequencies are needed and there are others, or
            YaRN is asked for with a theta that isn't over 1.

    """
    with decimal.localcontext(prec=DIGITS):
        log_theta = Decimal(theta).ln()
        plain = [(log_theta * -2 * i / head_dim).exp() for i in range(head_dim // 2)]
        if scaling is None:
            return [float(f) for f in plain]
        if scaling.kind == "linear":
            scaled = [f / Decimal(scaling.factor) for f in plain]
        elif scaling.kind == "llama3":
            scaled = [_llama3(f, scaling) for f in plain]
        elif scaling.kind == "yarn":
            if theta <= 1:
                raise UnsupportedModelError(
                    f"rope scaling 'yarn': rope_theta is {theta}, not over 1"
                )
            scaled = _yarn(plain, head_dim, log_theta, scaling)
        else:
            if len(scaling.factors) != len(plain):
                raise UnsupportedModelError(
                    f"rope_freqs has {len(scaling.factors)} factors; head_dim {head_dim} needs "
                    f"{len(plain)}"
                )
            scaled = [f / Decimal(d) for f, d in zip(plain, scaling.factors, strict=True)]
        return [float(f) for f in scaled]


def _llama3(frequency: Decimal, scaling: RopeScaling) -> Decimal:
    turns = Decimal(scaling.original_context) * frequency / _TWO_PI  # within the first context
    low, high = Decimal(scaling.low_freq_factor), Decimal(scaling.high_freq_factor)
    divided = frequency / Decimal(scaling.factor)
    if turns > high:
        return frequency
    if turns < low:
        return divided
    smooth = (turns - low) / (high - low)
    return (1 - smooth) * divided + smooth * frequency


def _yarn(
    plain: list[Decimal], head_dim: int, log_theta: Decimal, scaling: RopeScaling
) -> list[Decimal]:
    def dimension(turns: float) -> Decimal:
        """Return which dimension makes so many turns within the original context."""
        wave = Decimal(scaling.original_context) / (Decimal(turns) * _TWO_PI)
        return head_dim * wave.ln() / (2 * log_theta)

    low, high = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
    if scaling.truncate:
        low, high = Decimal(math.floor(low)), Decimal(math.ceil(high))
    low, high = max(low, Decimal(0)), min(high, Decimal(head_dim - 1))
    if low == high:
        high += Decimal("0.001")  # no division by zero
    scaled = []
    for i, frequency in enumerate(plain):
        divided_share = min(max((i - low) / (high - low), Decimal(0)), Decimal(1))
        kept = frequency * (1 - divided_share)
        scaled.append(kept + frequency / Decimal(scaling.factor) * divided_share)
    return scaled
