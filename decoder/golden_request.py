"""One whole request whose bits are known: the last thing a machine must get right before it serves.

Owns a small model that is drawn from SHAKE-256, so that no file and no random generator takes part,
and the digest of its answer. Never touches the model that will serve.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from decoder.config import ModelConfig
from decoder.engine import Engine, EngineConfig, WalkRequest
from decoder.fused import make_transformer
from decoder.rotary import rotary_tables
from decoder.trie import Trie
from decoder.weights import pack_weights

if TYPE_CHECKING:
    from decoder.kernels.base import F32, Kernels

DIGEST = "bb017226a5f8f0aac2693ddae2d59dc14a0ae1809d12c3355a60d33192ae2fa9"
"""Of the leaves and log-probabilities that NUMERICS.md gives; `tests/decoder` prove it."""

_CONFIG = ModelConfig(
    architecture="qwen3",
    vocab_size=64,
    hidden_size=72,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=32,
    intermediate_size=136,
    rms_eps=1e-6,
    rope_theta=10000.0,
    context_length=128,
    tied_head=True,
)
_PROMPT_TOKENS = 70  # past the border of a block of the cache
_NAMES = ((1, 2, 9), (1, 2, 5, 9), (1, 7, 9), (4, 4, 9), (4, 11, 3, 9), (8, 9))


def answer_digest(kernels: Kernels) -> str:
    """Return the SHA-256, hex, of the golden request's answer on these kernels."""
    weights = pack_weights(_CONFIG, _tensor)
    rotary = rotary_tables(_CONFIG.context_length, _CONFIG.head_dim, _CONFIG.rope_theta)
    runner = make_transformer(_CONFIG, weights, kernels, rotary)
    engine = Engine(runner, EngineConfig(kv_bytes=1 << 20, max_pass_tokens=48, tree_tokens=4))
    prompt = _bytes("prompt", _PROMPT_TOKENS) % _CONFIG.vocab_size
    engine.submit(WalkRequest(prompt.astype(np.int32), _trie(), top_k=len(_NAMES)))
    digest = hashlib.sha256()
    while engine.alive:
        for ended in engine.step():
            if ended.result is None:
                return f"failed: {ended.error}"
            digest.update(ended.result.leaves.tobytes() + ended.result.logprobs.tobytes())
    return digest.hexdigest()


def _bytes(name: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(count), np.uint8)


def _tensor(name: str) -> F32 | None:
    """Draw a tensor by its name: uniform, and so wide that activations keep their size."""
    heads, kv, d = _CONFIG.heads, _CONFIG.kv_heads, _CONFIG.head_dim
    hidden, width = _CONFIG.hidden_size, _CONFIG.intermediate_size
    shapes = {
        "embed_tokens": (_CONFIG.vocab_size, hidden),
        "q_proj": (heads * d, hidden),
        "k_proj": (kv * d, hidden),
        "v_proj": (kv * d, hidden),
        "o_proj": (hidden, heads * d),
        "gate_proj": (width, hidden),
        "up_proj": (width, hidden),
        "down_proj": (hidden, width),
        "q_norm": (d,),
        "k_norm": (d,),
    }
    kind = name.split(".")[-2]
    shape = shapes.get(kind, (hidden,))
    drawn = (_bytes(name, int(np.prod(shape))).astype(np.float32) - np.float32(127.5)).reshape(
        shape
    )
    if len(shape) == 1:
        return np.float32(1) + drawn * np.float32(1 / 1024)
    return drawn * np.float32(1 / 512)


def _trie() -> Trie:
    """Return the radix trie of the names, written out."""
    return Trie(
        root_run=np.empty(0, np.int32),
        edge_offsets=np.array([0, 3, 5, 7, 7, 7, 7, 9, 9, 9, 9], np.int32),
        edge_tokens=np.array([1, 4, 8, 2, 7, 5, 9, 4, 11], np.int32),
        edge_nodes=np.array([1, 6, 9, 2, 5, 3, 4, 7, 8], np.int32),
        run_offsets=np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 6], np.int32),
        run_tokens=np.array([9, 9, 9, 9, 3, 9], np.int32),
        leaf_lo=np.array([0, 0, 0, 0, 1, 2, 3, 3, 4, 5], np.int32),
        leaf_hi=np.array([6, 3, 2, 1, 2, 3, 5, 4, 5, 6], np.int32),
    )
