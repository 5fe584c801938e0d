"""The encoder: texts in, unit vectors out, each with bits of its own.

Owns tokenising, packing and the forward pass (NUMERICS.md section 9). Texts are packed without
padding and see only themselves, so neither the batch nor its order can change a bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from decoder.encoder.weights import EncoderConfig, EncoderWeights, read_config, read_weights
from decoder.errors import ModelError
from decoder.kernels import BLOCK_POSITIONS, Kernels, layout, make_kernels
from decoder.kernels.base import F32, I16, I32, KVLayer, PathIndex
from decoder.kernels.reference import lane_sum
from decoder.kv import blocks_for
from decoder.loading.checkpoint import digest_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PASS_TOKENS = 1024
"""Most token rows in one forward pass; a single longer text can't occur (max_tokens is less)."""


class Encoder:
    """A sentence encoder bound to kernels.

    Attributes:
        config: geometry.
        digest: sha256, hex, of the files that decide the embedding.

    """

    def __init__(
        self,
        config: EncoderConfig,
        weights: EncoderWeights,
        tokenizer: Tokenizer,
        kernels: Kernels,
        digest: str,
    ) -> None:
        self.config = config
        self.digest = digest
        self._weights = weights
        self._tokenizer = tokenizer
        self._kernels = kernels

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.config.hidden_size

    def embed(self, texts: Sequence[str]) -> F32:
        """Return (n, dimension) f32 of unit length; row i depends on texts[i] alone."""
        ids = [
            np.array(encoding.ids, np.int32)
            for encoding in self._tokenizer.encode_batch(list(texts))
        ]
        result = np.empty((len(ids), self.dimension), np.float32)
        for group in _passes([len(one) for one in ids]):
            result[group] = self._run([ids[i] for i in group])
        return result

    def dots(self, rows: I16, row: I16) -> I32:
        """Return fixed-point rows (n, k) times one row (k,), exactly; see `Kernels.dots`."""
        return self._kernels.dots(rows, row)

    def _run(self, texts: list[I32]) -> F32:
        """Embed texts that fit one pass: token ids each -> (n, dimension)."""
        config, k = self.config, self._kernels
        shape = config.head_shape
        lengths = np.array([len(t) for t in texts], np.int32)
        position = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
        needed = np.array([blocks_for(int(n)) for n in lengths], np.int64)
        first = np.concatenate([[0], np.cumsum(needed)])
        rows = len(position)
        owner = np.repeat(np.arange(len(texts)), lengths)
        path = PathIndex(
            table=np.arange(first[-1], dtype=np.int32),
            table_offsets=np.ascontiguousarray(first[owner], dtype=np.int64),
            prefix=np.ascontiguousarray(lengths[owner], dtype=np.int32),
            tail=np.empty(0, np.int32),
            tail_offsets=np.zeros(rows + 1, np.int64),
        )
        slot = first[owner] * BLOCK_POSITIONS + position
        at = (int(first[-1]), shape.heads)
        cache = KVLayer(
            np.zeros((*at, layout.key_bytes(shape.head_dim)), np.int8),
            np.zeros((*at, layout.value_bytes(shape.head_dim)), np.int8),
            *np.zeros((2, *at, BLOCK_POSITIONS), np.float32),
        )
        scale = float(np.float32(1.0 / np.sqrt(np.float64(shape.head_dim))))
        x = self._weights.words[np.concatenate(texts)] + self._weights.positions[position]
        eps = config.norm_eps
        hidden = k.layernorm_quantise(x, *self._weights.embedding_norm, eps)
        for layer in self._weights.layers:
            q = k.qkv_store(
                k.product(hidden.planes, layer.qkv),
                hidden.scale,
                layer.qkv.scale,
                layer.qkv_bias,
                None,
                None,
                eps,
                None,
                position,
                slot,
                shape,
                cache,
            )
            a = k.attention_quantise(q, cache, path, scale, shape)
            h = k.residual_layernorm_quantise(
                k.product(a.planes, layer.output),
                a.scale,
                layer.output.scale,
                layer.output_bias,
                *layer.attention_norm,
                eps,
                x,
            )
            f = k.gelu_quantise(
                k.product(h.planes, layer.up), h.scale, layer.up.scale, layer.up_bias
            )
            hidden = k.residual_layernorm_quantise(
                k.product(f.planes, layer.down),
                f.scale,
                layer.down.scale,
                layer.down_bias,
                *layer.ffn_norm,
                eps,
                x,
            )
        return _pool(x, lengths)


def load_encoder(path: Path, *, kernels: str = "native", threads: int = 1) -> Encoder:
    """Load a sentence-transformers directory of a BERT encoder with mean pooling.

    Raises:
        ModelError: missing or damaged; UnsupportedModelError for another kind; KernelError.

    """
    config = read_config(path)
    file = path / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{file} can't be read as a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(config.max_tokens)
    files = ("config.json", "1_Pooling/config.json", "tokenizer.json", "model.safetensors")
    return Encoder(
        config,
        read_weights(path, config),
        tokenizer,
        make_kernels(kernels, threads=threads),
        digest_files([path / name for name in files]),
    )


def _passes(lengths: list[int]) -> list[list[int]]:
    """Split text numbers into passes of at most PASS_TOKENS rows, in order."""
    passes: list[list[int]] = []
    rows = PASS_TOKENS
    for index, length in enumerate(lengths):
        if rows + length > PASS_TOKENS:
            passes.append([])
            rows = 0
        passes[-1].append(index)
        rows += length
    return passes


def _pool(x: F32, lengths: I32) -> F32:
    """Mean of each text's rows, added in token order, then scaled to unit length."""
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    total = np.zeros((len(lengths), x.shape[1]), np.float32)
    for t in range(int(lengths.max())):
        live = np.flatnonzero(lengths > t)
        total[live] = total[live] + x[start[live] + t]
    mean: F32 = total / lengths.astype(np.float32)[:, None]
    norm: F32 = np.sqrt(lane_sum(mean * mean)).astype(np.float32, copy=False)
    unit: F32 = mean / np.where(norm > 0, norm, np.float32(1)).astype(np.float32)[:, None]
    return unit
