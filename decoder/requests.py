"""What the engine is asked to walk, and what it answers. Owns the two values; never computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from decoder.kernels.base import I32
    from decoder.trie import Trie


@dataclass(frozen=True, slots=True, eq=False)
class WalkRequest:
    """One request.

    Attributes:
        prompt: (n,) int32 token ids, n >= 1.
        trie: the grammar to walk after the prompt.
        allowed: (leaves,) bool, or None for all.
        top_k: leaves wanted, best first.

    """

    prompt: I32
    trie: Trie
    allowed: NDArray[np.bool_] | None = None
    top_k: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class WalkResult:
    """The best leaves under the constrained distribution.

    Attributes:
        leaves: (k,) int32, best first; ties by leaf number.
        logprobs: (k,) f64, renormalised over allowed children at each branch.
        prompt_tokens: tokens of the prompt.
        cached_tokens: of these, tokens that an earlier prompt had read.
        scored_tokens: children that were given a logit.
        tree_tokens: trie tokens that were run.
        passes: forward passes the request took part in.

    """

    leaves: I32
    logprobs: NDArray[np.float64]
    prompt_tokens: int
    cached_tokens: int
    scored_tokens: int
    tree_tokens: int
    passes: int
