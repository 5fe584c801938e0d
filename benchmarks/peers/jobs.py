"""The work that every system is given: prompts of the product's own pipeline over a real catalog.

Owns making the jobs, and the files that hold a model of random weights for systems that read files.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from router import assets
from router.evaluation import read_queries
from router.jobs import RouteJob
from router.parts import load_parts
from router.pipeline import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from decoder.trie import Trie

TRIE_ARRAYS = (
    *("root_run", "edge_offsets", "edge_tokens", "edge_nodes"),
    *("run_offsets", "run_tokens", "leaf_lo", "leaf_hi"),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One request.

    Attributes:
        prompt: token ids.
        leaves: the trie's leaves that may be answered.
        names: their texts, in the same order.

    """

    prompt: list[int]
    leaves: list[int]
    names: list[str]


@dataclass(frozen=True, slots=True)
class Work:
    """Every job, the name grammar of the whole catalog, and the token that ends an answer."""

    jobs: list[Job]
    trie: dict[str, list[int]]
    all_names: list[str]
    end_token: int

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Work:
        """Read what `save` wrote."""
        raw = json.loads(path.read_text())
        raw["jobs"] = [Job(**job) for job in raw["jobs"]]
        return cls(**raw)


def make_work(folder: Path, count: int) -> Work:
    """Prepare `count` labelled queries of an evaluation set as the product would."""
    parts = load_parts(None)
    catalog = parts.open_or_compile(folder / "catalog.json")
    queries, _ = read_queries([folder / "queries_dev.jsonl"], [t.name for t in catalog.tools])
    picked = np.random.default_rng(20261201).choice(len(queries), count, replace=False)
    pipeline = Pipeline(parts.embedder)
    pipeline.add_catalog(catalog)
    tokenizer = parts.model.tokenizer
    texts = [tokenizer.tokenizer.decode(t[:-1]) for t in leaf_tokens(catalog.trie)]
    jobs = []
    for index in sorted(picked.tolist()):
        request = pipeline.prepare(RouteJob("", catalog.digest, queries[index].text)).request
        assert request.allowed is not None
        leaves = np.flatnonzero(request.allowed).tolist()
        jobs.append(Job(request.prompt.tolist(), leaves, [texts[leaf] for leaf in leaves]))
    end = tokenizer.tokenizer.token_to_id(tokenizer.end_of_turn)
    assert end is not None
    trie = {name: getattr(catalog.trie, name).tolist() for name in TRIE_ARRAYS}
    return Work(jobs, trie, texts, end)


def leaf_tokens(trie: Trie) -> list[list[int]]:
    """Return each leaf's answer, token by token, its closing token included."""
    found: list[list[int]] = [[] for _ in range(trie.leaves)]
    stack: list[tuple[int, list[int]]] = [(0, trie.root_run.tolist())]
    while stack:
        node, path = stack.pop()
        lo, hi = int(trie.edge_offsets[node]), int(trie.edge_offsets[node + 1])
        if lo == hi:
            found[int(trie.leaf_lo[node])] = path
        for edge in range(lo, hi):
            run = trie.run_tokens[trie.run_offsets[edge] : trie.run_offsets[edge + 1]].tolist()
            step = [int(trie.edge_tokens[edge]), *run]
            stack.append((int(trie.edge_nodes[edge]), [*path, *step]))
    return found


def write_random_gguf(path: Path) -> None:
    """Write the random model of Qwen3-0.6B's shape as Q8_0, with the embedded model's tokenizer."""
    import gguf  # noqa: PLC0415 (seconds, and only for this)

    from decoder.loading.gguf_file import open_gguf  # noqa: PLC0415
    from decoder.loading.random_model import QWEN3_0_6B, random_checkpoint  # noqa: PLC0415
    from decoder.weights import tensor_shapes  # noqa: PLC0415

    config, checkpoint = QWEN3_0_6B, random_checkpoint(QWEN3_0_6B)
    source = open_gguf(assets.smollm2_gguf())

    def read(key: str) -> Any:
        field = source.get_field(f"tokenizer.ggml.{key}")
        assert field is not None
        return field.contents()

    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_eps)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    tokens = list(read("tokens"))
    unused = [f"<unused{i}>" for i in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model(read("model"))
    writer.add_tokenizer_pre(read("pre"))
    writer.add_token_list(tokens + unused)
    writer.add_token_types([*read("token_type"), *[gguf.TokenType.UNUSED] * len(unused)])
    writer.add_token_merges(read("merges"))
    writer.add_bos_token_id(read("bos_token_id"))
    writer.add_eos_token_id(read("eos_token_id"))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, config.layers)
    for name in tensor_shapes(config):
        tensor = checkpoint.tensor(name)
        assert tensor is not None
        kind = gguf.GGMLQuantizationType.F32
        if tensor.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
        data = gguf.quants.quantize(tensor, kind)
        mapped = names.get_name(name, (".weight",))
        assert mapped is not None
        writer.add_tensor(mapped, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
