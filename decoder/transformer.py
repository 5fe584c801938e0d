"""The forward pass over packed rows: Llama, Qwen2 and Qwen3.

Owns the order of the layers' operations (NUMERICS.md section 10). Never schedules: it is handed
rows with their paths, and touches only the KV slots they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decoder.kernels.base import F32, I32, I64, Kernels, PathIndex, Quantised

if TYPE_CHECKING:
    from decoder.config import ModelConfig
    from decoder.kv import KVPool
    from decoder.weights import ModelWeights


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Token rows of any number of requests, to be run in one pass.

    Attributes:
        ids: (rows,) int32 token ids.
        position: (rows,) int32 rotary positions.
        slot: (rows,) int64 physical slot, block * 64 + offset, where the row's K and V go.
        path: what each row sees, itself included.
        wanted: (w,) int64 ascending, the rows whose hidden state is read at the end.

    """

    ids: I32
    position: I32
    slot: I64
    path: PathIndex
    wanted: I64


class Transformer:
    """A model's layers bound to kernels.

    Args:
        config: geometry.
        weights: int8 weights.
        kernels: the arithmetic.
        rotary: (cosine, sine) tables, each (positions, head_dim/2) f32.

    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        kernels: Kernels,
        rotary: tuple[F32, F32],
    ) -> None:
        self.config = config
        self.weights = weights
        self.kernels = kernels
        self.rotary = rotary
        # One division and one root, rounded once: 1/sqrt(head_dim) in f64, then f32.
        self._softmax_scale = float(np.float32(1.0 / np.sqrt(np.float64(config.head_dim))))

    @property
    def guess_tokens(self) -> int:
        """What the kernels say is worth running on a guess."""
        return self.kernels.guess_tokens

    def forward(self, rows: PackedRows, kv: KVPool) -> Quantised:
        """Run the rows; return the wanted ones' normed, quantised hidden state, (w, hidden)."""
        config, k = self.config, self.kernels
        x = k.embed(self.weights.embedding, rows.ids)
        path = rows.path
        last = len(self.weights.layers) - 1
        hidden = k.rmsnorm_quantise(x, self.weights.layers[0].attention_norm, config.rms_eps)
        for index, layer in enumerate(self.weights.layers):
            cache = kv.layers[index]
            q = k.qkv_store(
                k.product(hidden.planes, layer.qkv),
                hidden.scale,
                layer.qkv.scale,
                layer.qkv_bias,
                layer.q_norm,
                layer.k_norm,
                config.rms_eps,
                self.rotary,
                rows.position,
                rows.slot,
                config.head_shape,
                cache,
            )
            if index == last and not rows.wanted.size:
                return Quantised(
                    np.empty((0, config.hidden_size), np.int8), np.empty(0, np.float32)
                )
            if index == last:
                # Nothing reads the other rows any more: their keys and values are stored.
                q, x = np.ascontiguousarray(q[rows.wanted]), x[rows.wanted]
                path = _select(path, rows.wanted)
            a = k.attention_quantise(q, cache, path, self._softmax_scale, config.head_shape)
            h = k.residual_rmsnorm_quantise(
                k.product(a.planes, layer.output),
                a.scale,
                layer.output.scale,
                layer.ffn_norm,
                config.rms_eps,
                x,
            )
            f = k.silu_mul_quantise(
                k.product(h.planes, layer.gate_up), h.scale, layer.gate_up.scale
            )
            next_norm = (
                self.weights.final_norm
                if index == last
                else self.weights.layers[index + 1].attention_norm
            )
            hidden = k.residual_rmsnorm_quantise(
                k.product(f.planes, layer.down),
                f.scale,
                layer.down.scale,
                next_norm,
                config.rms_eps,
                x,
            )
        return hidden

    def logits(self, hidden: Quantised, want_row: I32, want_token: I32) -> F32:
        """Return the logits of (row of `hidden`, token) pairs: (wanted,) f32."""
        return self.kernels.gathered_head(hidden, self.weights.head, want_row, want_token)


def _select(path: PathIndex, rows: I64) -> PathIndex:
    lengths = path.tail_offsets[rows + 1] - path.tail_offsets[rows]
    pieces = [path.tail[path.tail_offsets[r] : path.tail_offsets[r + 1]] for r in rows]
    return PathIndex(
        table=path.table,
        table_offsets=path.table_offsets[rows],
        prefix=path.prefix[rows],
        tail=np.concatenate(pieces).astype(np.int32) if pieces else path.tail[:0],
        tail_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )
