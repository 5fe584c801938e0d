"""How far the integer numerics are from the float model: KL a token and next-token agreement.

    python -m benchmarks.fidelity [--model smollm2 | qwen2.5-coder-1.5b] [--json FILE]

Reads a model twice, one after the other: here, and by transformers in float32 from the same GGUF.
The texts were written for this file. Ends with one line of JSON. Qwen2.5-Coder-1.5B is fetched when
it is asked for (1.1 GB), and takes 9 GB of memory and some minutes.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.command import add_json_option, publish
from benchmarks.qwen_coder import qwen_coder_gguf
from decoder.kernels.base import PathIndex
from decoder.kv import KVPool, blocks_for
from decoder.model import LoadedModel, load_model
from decoder.transformer import PackedRows
from router.assets import smollm2_gguf

MODELS = {"smollm2": smollm2_gguf, "qwen2.5-coder-1.5b": qwen_coder_gguf}
CLEAR_MARGIN_NATS = 0.5
"""A float margin over this between the two best tokens counts as clear."""

TURN = "<|im_start|>{role}\n{text}<|im_end|>\n"
QUESTION = TURN.format(role="user", text="Which of these tools lists the files of a folder?")
ANSWER = TURN.format(role="assistant", text="The tool named list_directory does that.")
TEXTS = [
    QUESTION + ANSWER,
    """The harbour was quiet before dawn. Two boats lay at the quay, their nets already folded, and
the keeper of the light walked down with a lamp in one hand and bread in the other.""",
    """def total(prices: list[float], tax: float) -> float:
    subtotal = sum(prices)
    return round(subtotal * (1 + tax), 2)
""",
    """To prune an apple tree, first take out what is dead or crossing, then open the middle so that
light can reach every branch. Cut just above a bud that looks outward.""",
    """{"name": "send_message", "arguments": {"to": "Mara", "text": "The train is late."}}""",
]


def logits_of(model: LoadedModel, ids: np.ndarray) -> np.ndarray:
    """Return the logits of every position over the whole vocabulary: (n, vocab) f32."""
    n = len(ids)
    kv = KVPool(model.config, blocks_for(n))
    place = np.arange(n, dtype=np.int32)
    rows = PackedRows(
        ids=ids.astype(np.int32),
        position=place,
        slot=place.astype(np.int64),
        path=PathIndex(
            table=np.arange(blocks_for(n), dtype=np.int32),
            table_offsets=np.zeros(n, np.int64),
            prefix=place + 1,
            tail=np.empty(0, np.int32),
            tail_offsets=np.zeros(n + 1, np.int64),
        ),
        wanted=place.astype(np.int64),
    )
    hidden = model.transformer.forward(rows, kv)
    head, kernels = model.transformer.weights.head, model.transformer.kernels
    acc = kernels.product(hidden.planes, head)
    return kernels.dequantise(acc, hidden.scale, head.scale, None, None)


def main() -> int:
    """Compare, print a row a text, then the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="smollm2")
    add_json_option(parser)
    options = parser.parse_args()
    gguf = MODELS[options.model]()
    model = load_model(gguf, threads=2)
    digest = model.digest
    texts = [np.array(model.tokenizer.tokenizer.encode(text).ids) for text in TEXTS]
    answers = [logits_of(model, ids) for ids in texts]
    del model  # before the float one comes, which takes four times as much
    net = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    net.train(mode=False)
    rows: list[dict[str, Any]] = []
    for ids, logits in zip(texts, answers, strict=True):
        with torch.no_grad():
            true = torch.log_softmax(net(torch.from_numpy(ids)[None]).logits[0].double(), -1)
        found = torch.log_softmax(torch.from_numpy(logits).double(), -1)
        kl = (true.exp() * (true - found)).sum(-1)
        best = true.topk(2, dim=-1).values
        clear = best[:, 0] - best[:, 1] > CLEAR_MARGIN_NATS
        same = true.argmax(-1) == found.argmax(-1)
        gold = torch.from_numpy(ids[1:])[:, None]
        nll = [-side[:-1].gather(1, gold).mean().item() for side in (true, found)]
        rows.append({
            "tokens": len(ids), "kl": kl.mean().item(), "kl_max": kl.max().item(),
            "same": same.double().mean().item(), "clear": int(clear.sum()),
            "clear_same": int((same & clear).sum()), "nll_float": nll[0], "nll_int": nll[1],
        })  # fmt: skip
        print(
            f"{len(ids):4d} tokens  KL {rows[-1]['kl']:.5f} (max {rows[-1]['kl_max']:.4f})  "
            f"same next token {rows[-1]['same']:.3f}, where clear "
            f"{rows[-1]['clear_same']}/{rows[-1]['clear']}"
        )
    tokens = sum(row["tokens"] for row in rows)
    mean = {
        key: sum(row[key] * row["tokens"] for row in rows) / tokens
        for key in ("kl", "same", "nll_float", "nll_int")
    }
    result = {
        "benchmark": "fidelity", "model": options.model, "digest": digest, "tokens": tokens,
        "kl_per_token": round(mean["kl"], 6), "same_next_token": round(mean["same"], 4),
        "clear": sum(row["clear"] for row in rows),
        "clear_same": sum(row["clear_same"] for row in rows),
        "perplexity_change_percent": round(
            100 * (float(np.exp(mean["nll_int"] - mean["nll_float"])) - 1), 3
        ),
    }  # fmt: skip
    publish(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
