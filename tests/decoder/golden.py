"""Golden vectors: what NUMERICS.md gives for fixed inputs, to hold another machine to it.

Run `python -m tests.decoder.golden > tests/decoder/golden.json` after a change of the definition,
and raise its version there. The inputs come from SHAKE-256, not from a random generator, whose
streams a library may change.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from decoder.encoder import load_encoder
from decoder.engine import Engine, WalkRequest
from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.kv import KVPool, blocks_for
from decoder.model import load_model
from decoder.rotary import rotary_tables
from decoder.weights import pack_weights
from router import assets
from tests.decoder.conftest import random_tensors, small_config
from tests.decoder.test_invariance import Line, bits, run_lines
from tests.decoder.tries import build_trie

if TYPE_CHECKING:
    from decoder.config import ModelConfig
    from decoder.kernels.base import F32
    from decoder.transformer import Transformer

ARCHITECTURES = ("llama", "qwen2", "qwen3")
NAMES = ("list_files", "list_folders", "read_file", "write_file", "send_mail", "none")
PROMPT = "<|im_start|>user\nWhich tool opens a file?<|im_end|>\n<|im_start|>assistant\n"
SENTENCES = ("Book a table for four.", "Read the file and count its lines.")


def drawn(name: str, shape: tuple[int, ...]) -> F32:
    """Return uniform numbers in (-1, 1) that depend on the name alone."""
    count = int(np.prod(shape))
    raw = np.frombuffer(hashlib.shake_256(name.encode()).digest(2 * count), "<u2")
    return ((raw.astype(np.float64) - 32767.5) / 32768).astype(np.float32).reshape(shape)


def small_model(config: ModelConfig, kernels: str) -> Transformer:
    """Return a small model whose weights are drawn by name."""
    tensors = {}
    for name, like in random_tensors(config).items():
        if like.ndim == 1 and "bias" not in name:
            tensors[name] = (1 + 0.1 * drawn(name, like.shape)).astype(np.float32)
        else:
            scale = np.float32(1.7 / np.sqrt(like.shape[-1]))
            tensors[name] = (drawn(name, like.shape) * scale).astype(np.float32)
    rotary = rotary_tables(config.context_length, config.head_dim, config.rope_theta)
    weights = pack_weights(config, tensors.get)
    return make_transformer(config, weights, make_kernels(kernels, threads=1), rotary)


def small_vectors(architecture: str, kernels: str) -> dict[str, Any]:
    """Return the digest of hidden state and cache after 80 tokens, and the last row's logits."""
    runner = small_model(small_config(architecture), kernels)
    tokens = np.frombuffer(hashlib.shake_256(b"tokens").digest(80), np.uint8) % 97
    kv = KVPool(runner.config, blocks_for(80))
    line = Line(tokens.astype(np.int32), 0, kv.take(blocks_for(80)))
    (hidden,) = run_lines(runner, kv, [line])
    row = np.full(97, 79, np.int32)
    logits = runner.logits(hidden, row, np.arange(97, dtype=np.int32))
    return {
        "sha256": hashlib.sha256(bits(hidden, kv, line) + logits.tobytes()).hexdigest(),
        "first_logits": [float(x).hex() for x in logits[:4]],
    }


def embedded_vectors() -> dict[str, Any]:
    """Return the embedded model's choice among six names and the encoder's embeddings."""
    model = load_model(assets.smollm2_gguf())
    tokenizer = model.tokenizer.tokenizer
    end = tokenizer.token_to_id(model.tokenizer.end_of_turn)
    names = [(*tokenizer.encode(name).ids, end) for name in NAMES]
    engine = Engine(model.transformer)
    prompt = np.array(tokenizer.encode(PROMPT).ids, np.int32)
    engine.submit(WalkRequest(prompt, build_trie(names), top_k=len(names)))
    (ended,) = engine.step()
    assert ended.result is not None
    order = sorted(range(len(names)), key=lambda i: names[i])
    encoder = load_encoder(assets.minilm_dir())
    return {
        "names": [NAMES[order[leaf]] for leaf in ended.result.leaves],
        "logprobs": [float(x).hex() for x in ended.result.logprobs],
        "embeddings": hashlib.sha256(encoder.embed(SENTENCES).tobytes()).hexdigest(),
    }


def main() -> None:
    """Write every vector as JSON."""
    small = {name: small_vectors(name, "reference") for name in ARCHITECTURES}
    vectors = {"numerics_version": 2, "small": small, "embedded": embedded_vectors()}
    sys.stdout.write(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
