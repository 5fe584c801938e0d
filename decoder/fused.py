"""The forward pass in one native call: the same bits as `Transformer`, without a step in Python.

Owns the structures that cross the C border (`pass.h`) and the packed weights they point at. Never
defines arithmetic or scheduling.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from decoder.errors import KernelError
from decoder.kernels.native import NativeKernels, address
from decoder.transformer import PackedRows, Transformer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from decoder.config import ModelConfig
    from decoder.kernels.base import F32, Kernels, Quantised, QuantisedWeight
    from decoder.kernels.native import PackedWeight
    from decoder.kv import KVPool
    from decoder.weights import LayerWeights, ModelWeights

_POINTER, _INT, _FLOAT, _LONG = ctypes.c_void_p, ctypes.c_int32, ctypes.c_float, ctypes.c_int64


class _Weight(ctypes.Structure):
    _fields_ = (
        *(("tiles", _POINTER), ("scale", _POINTER)),
        *(("n", _INT), ("k", _INT), ("pairs", _INT), ("gated", _INT)),
    )


class _Layer(ctypes.Structure):
    _fields_ = (
        *(("attention_norm", _POINTER), ("ffn_norm", _POINTER), ("bias", _POINTER)),
        *(("q_norm", _POINTER), ("k_norm", _POINTER)),
        *(("qkv", _Weight), ("output", _Weight), ("gate_up", _Weight), ("down", _Weight)),
    )


class _Model(ctypes.Structure):
    _fields_ = (
        *(("layers", _INT), ("hidden", _INT), ("width", _INT), ("use_tiles", _INT)),
        *(("heads", _INT), ("kv_heads", _INT), ("d", _INT)),
        *(("eps", _FLOAT), ("softmax_scale", _FLOAT)),
        *(("cosine", _POINTER), ("sine", _POINTER)),
        *(("embedding", _POINTER), ("embedding_scale", _POINTER), ("final_norm", _POINTER)),
        ("layer", _POINTER),
    )


class _Rows(ctypes.Structure):
    _fields_ = (
        *(("count", _INT), ("wanted", _INT)),
        *(("ids", _POINTER), ("position", _POINTER), ("slot", _POINTER), ("wanted_rows", _POINTER)),
        *(("table", _POINTER), ("table_offsets", _POINTER), ("prefix", _POINTER)),
        *(("tail", _POINTER), ("tail_offsets", _POINTER)),
        *(("keys", _POINTER), ("values", _POINTER)),
        *(("key_scale", _POINTER), ("value_scale", _POINTER), ("blocks", _LONG)),
    )


class FusedTransformer(Transformer):
    """A `Transformer` whose forward pass is one native call. Same arguments, same bits.

    Raises:
        KernelError: kernels that are not native.

    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        kernels: Kernels,
        rotary: tuple[F32, F32],
    ) -> None:
        super().__init__(config, weights, kernels, rotary)
        if not isinstance(kernels, NativeKernels):
            raise KernelError(f"a fused pass needs native kernels and was handed {kernels.name}")
        self._native = kernels
        self._held: list[Any] = []  # what the structures point at lives as long as they do
        layers = (_Layer * config.layers)(*[self._layer(layer) for layer in weights.layers])
        self._held.append(layers)
        self._model = _Model(
            layers=config.layers,
            hidden=config.hidden_size,
            width=config.intermediate_size,
            use_tiles=int(kernels.use_tiles),
            heads=config.heads,
            kv_heads=config.kv_heads,
            d=config.head_dim,
            eps=config.rms_eps,
            softmax_scale=self._softmax_scale,
            cosine=self._hold(rotary[0], np.float32),
            sine=self._hold(rotary[1], np.float32),
            embedding=self._hold(weights.embedding.values, np.int8),
            embedding_scale=self._hold(weights.embedding.scale, np.float32),
            final_norm=self._hold(weights.final_norm, np.float32),
            layer=ctypes.addressof(layers),
        )

    def forward(self, rows: PackedRows, kv: KVPool) -> Quantised:
        """Run the rows; see `Transformer.forward`."""
        path, first = rows.path, kv.layers[0]
        given = _Rows(
            count=len(rows.ids),
            wanted=len(rows.wanted),
            ids=address(rows.ids, np.int32),
            position=address(rows.position, np.int32),
            slot=address(rows.slot, np.int64),
            wanted_rows=address(rows.wanted, np.int64),
            table=address(path.table, np.int32),
            table_offsets=address(path.table_offsets, np.int64),
            prefix=address(path.prefix, np.int32),
            tail=address(path.tail, np.int32),
            tail_offsets=address(path.tail_offsets, np.int64),
            keys=address(first.keys, np.int8),
            values=address(first.values, np.int8),
            key_scale=address(first.key_scale, np.float32),
            value_scale=address(first.value_scale, np.float32),
            blocks=kv.blocks,
        )
        return self._native.run_pass(self._model, given, len(rows.wanted), self.config.hidden_size)

    def _layer(self, layer: LayerWeights) -> _Layer:
        return _Layer(
            attention_norm=self._hold(layer.attention_norm, np.float32),
            ffn_norm=self._hold(layer.ffn_norm, np.float32),
            bias=self._hold(layer.qkv_bias, np.float32),
            q_norm=self._hold(layer.q_norm, np.float32),
            k_norm=self._hold(layer.k_norm, np.float32),
            qkv=self._weight(layer.qkv),
            output=self._weight(layer.output),
            gate_up=self._weight(layer.gate_up, gated=True),
            down=self._weight(layer.down),
        )

    def _weight(self, weight: QuantisedWeight, *, gated: bool = False) -> _Weight:
        packed: PackedWeight = self._native.pack(weight, gated=gated)
        return _Weight(
            tiles=self._hold(packed.tiles, np.int8),
            scale=self._hold(packed.scale, np.float32),
            n=packed.columns,
            k=packed.depth,
            pairs=packed.pairs,
            gated=int(gated),
        )

    def _hold(self, array: NDArray[Any] | None, dtype: type[np.generic]) -> int | None:
        self._held.append(array)
        return address(array, dtype)


def make_transformer(
    config: ModelConfig, weights: ModelWeights, kernels: Kernels, rotary: tuple[F32, F32]
) -> Transformer:
    """Return the fastest forward pass that the kernels offer; every one has the same bits."""
    if isinstance(kernels, NativeKernels):
        return FusedTransformer(config, weights, kernels, rotary)
    return Transformer(config, weights, kernels, rotary)
