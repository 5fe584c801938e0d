"""The forward pass against transformers' float implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from decoder.errors import ModelError, UnsupportedModelError
from decoder.fused import make_transformer
from decoder.kernels import make_kernels
from decoder.kv import KVPool, blocks_for
from decoder.loading import read_checkpoint
from decoder.loading.safetensors_dir import parse_config
from decoder.model import load_model
from decoder.rope_scaling import frequencies
from decoder.rotary import rotary_tables
from decoder.weights import pack_weights
from tests.decoder.conftest import random_tensors, small_config
from tests.decoder.test_invariance import Line, model, run_lines

if TYPE_CHECKING:
    from decoder.config import ModelConfig
    from decoder.transformer import Transformer

transformers = pytest.importorskip("transformers")


def float_model(config: ModelConfig) -> Any:
    """Transformers' model with the same random weights."""
    kinds = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
    kind = kinds[config.architecture]
    settings = getattr(transformers, f"{kind}Config")(**raw_config(config))
    net = getattr(transformers, f"{kind}ForCausalLM")(settings).eval()
    state = {k: torch.from_numpy(v) for k, v in random_tensors(config).items()}
    missing, unexpected = net.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    net.tie_weights()
    return net


def raw_config(config: ModelConfig) -> dict[str, Any]:
    """The keys of config.json."""
    return {
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate_size,
        "rms_norm_eps": config.rms_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.context_length,
        "tie_word_embeddings": config.tied_head,
    }


def all_logits(runner: Transformer, tokens: np.ndarray) -> np.ndarray:
    """Logits of every position over the whole vocabulary: (n, vocab) f32."""
    kv = KVPool(runner.config, blocks_for(len(tokens)))
    line = Line(tokens, 0, kv.take(blocks_for(len(tokens))))
    (hidden,) = run_lines(runner, kv, [line])
    head, k = runner.weights.head, runner.kernels
    return k.dequantise(k.product(hidden.planes, head), hidden.scale, head.scale, None, None)


def divergence(found: np.ndarray, true: torch.Tensor) -> tuple[float, float, float]:
    """Mean KL(true || found), share of clear positions, and agreement on those."""
    q = torch.log_softmax(torch.from_numpy(found).double(), -1)
    p = torch.log_softmax(true.double(), -1)
    kl = (p.exp() * (p - q)).sum(-1).mean().item()
    top = p.topk(2, dim=-1).values
    clear = top[:, 0] - top[:, 1] > 0.5
    same = (p.argmax(-1) == q.argmax(-1))[clear].double().mean().item()
    return kl, clear.double().mean().item(), same


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_small_random_models_agree_with_transformers(architecture: str) -> None:
    """Grouped heads, QKV bias, QK-norm, a head size that is not hidden/heads."""
    config = small_config(architecture)
    if architecture == "qwen2":
        config = small_config(architecture, heads=6, kv_heads=2, head_dim=8)
    tokens = np.random.default_rng(1).integers(0, 97, 90).astype(np.int32)
    with torch.no_grad():
        true = float_model(config)(torch.from_numpy(tokens).long()[None]).logits[0]
    runner = model(architecture)
    if config != runner.config:
        rotary = rotary_tables(config.context_length, config.head_dim, config.rope_theta)
        weights = pack_weights(config, random_tensors(config).get)
        runner = make_transformer(config, weights, make_kernels("native", threads=1), rotary)
    kl, share, same = divergence(all_logits(runner, tokens), true)
    assert kl < 2e-3
    assert share > 0.1
    assert same == 1.0


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_directory_loads_as_it_was(tmp_path: Path, tied: bool) -> None:
    """config.json and safetensors in two shards come back with every tensor."""
    config = small_config("qwen3", tied_head=tied)
    write_directory(tmp_path, config)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config == config
    for name, value in random_tensors(config).items():
        found = checkpoint.tensor(name)
        assert found is not None
        assert found.tobytes() == value.tobytes()
    assert checkpoint.tensor("model.layers.9.mlp.up_proj.weight") is None


def write_directory(path: Path, config: ModelConfig) -> None:
    tensors = random_tensors(config)
    names = sorted(tensors)
    half = len(names) // 2
    save_file({n: tensors[n] for n in names[:half]}, path / "model-00001-of-00002.safetensors")
    save_file({n: tensors[n] for n in names[half:]}, path / "model-00002-of-00002.safetensors")
    (path / "config.json").write_text(json.dumps(raw_config(config)))


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "dynamic"),
        ({"rope_scaling": {"type": "longrope", "factor": 4.0}}, "longrope"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "beta_fast": 3}}, "beta_fast"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.0}}, "factor is 0.0"),
        ({"rope_scaling": {**YARN, "mscale": -9.0, "mscale_all_dim": 1.0}}, "mscale"),
        ({"rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": -50.0}}, "mscale_all_dim"),
        ({"sliding_window": 128}, "sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"logit_scale": 2.0}, "logit_scale"),
        ({"model_type": "mamba"}, "mamba"),
        ({"num_key_value_heads": 4}, "kv_heads"),
        ({"hidden_size": 50}, "hidden_size"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """No key that changes the result is passed over."""
    raw = {**raw_config(small_config()), **change}
    with pytest.raises(UnsupportedModelError, match=named):
        parse_config(raw, tmp_path / "config.json")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden_size": "48"}, "hidden_size is '48'"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"vocab_size": 97.5}, "vocab_size is 97.5"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rms_norm_eps": -1.0}, r"config\.json: rms_eps is -1.0"),
        ({"num_hidden_layers": 2_000_000_000}, "layers is 2000000000"),
        ({"rope_scaling": {"rope_type": "linear", "factor": -2.0}}, r"config\.json: rope scal"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'"),
        ({"max_position_embeddings": None}, "no key 'max_position_embeddings'"),
        ({"rope_theta": [1]}, r"rope_theta is \[1\]"),
        ({"rope_theta": 10**400}, "rope_theta is inf"),
        ({"rope_theta": 5.0, "rope_parameters": {"rope_theta": 7.0}}, "7.0, and 5.0 outside"),
        ({"rope_scaling": "linear"}, "must be an object"),
        ({"rope_scaling": []}, "must be an object"),
        ({"rope_scaling": {**YARN, "mscale": "1"}}, "mscale is '1'"),
        ({"rope_scaling": {**YARN, "mscale_all_dim": True}}, "mscale_all_dim is True"),
        ({"rope_scaling": {**YARN, "type": "linear"}}, "rope_type is 'yarn' and type is 'linear'"),
        ({"rope_scaling": YARN, "rope_parameters": {**YARN, "factor": 2.0}}, "differ"),
        ({"head_dim": None, "num_attention_heads": 10}, "not a multiple of num_attention_heads"),
        ({"model_type": "qwen3", "num_key_value_heads": None}, "no key 'num_key_value_heads'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "no key 'factor'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0,
                           "high_freq_factor": 1.0}}, "must exceed"),
    ],
)  # fmt: skip
def test_malformed_values_are_refused_by_key(change: dict[str, Any], named: str) -> None:
    """Never a raw TypeError, never a guess."""
    with pytest.raises(ModelError, match=named):
        parse_config({**raw_config(small_config()), **change}, Path("config.json"))


def test_a_tensor_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    """A bias that the architecture has no place for; a tied head that is not the embedding."""
    write_directory(tmp_path, small_config())
    embedding = random_tensors(small_config())["model.embed_tokens.weight"]
    extra = {"lm_head.weight": embedding.copy()}
    save_file(extra, tmp_path / "model-00003.safetensors")
    read_checkpoint(tmp_path)
    extra["lm_head.weight"][96, 47] += np.float32(1)
    save_file(extra, tmp_path / "model-00003.safetensors")
    with pytest.raises(UnsupportedModelError, match="tie_word_embeddings"):
        read_checkpoint(tmp_path)
    extra["lm_head.weight"] = embedding.copy()
    extra["model.layers.0.self_attn.q_proj.bias"] = np.zeros(96, np.float32)
    save_file(extra, tmp_path / "model-00003.safetensors")
    with pytest.raises(UnsupportedModelError, match=r"self_attn\.q_proj\.bias"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", '{"a":' * 100_000])
def test_a_configuration_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    """Whatever is in the file, the error is ours and names it."""
    write_directory(tmp_path, small_config())
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_what_transformers_saves_is_read(architecture: str, tmp_path: Path) -> None:
    """Its own spelling of every key, none of which is refused."""
    config = small_config(architecture)
    float_model(config).save_pretrained(tmp_path)
    assert read_checkpoint(tmp_path).config == config


def test_qwen3_heads_have_the_size_that_transformers_gives_them() -> None:
    """Without head_dim Qwen3 does not divide its width."""
    raw = raw_config(small_config("qwen3"))
    del raw["head_dim"]
    assert parse_config(raw, Path("config.json")).head_dim == 128
    assert transformers.Qwen3Config(**raw).head_dim == 128


SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn, whole": {
        "rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 32,
        "beta_fast": 8.0, "beta_slow": 2.0, "truncate": False, "attention_factor": 1.5,
    },
    "yarn, mscale": {
        "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 16,
        "mscale": 0.7, "mscale_all_dim": 1.3,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scaled_rotation_agrees_with_transformers(name: str) -> None:
    """Frequencies and factor as theirs, and logits past the first context's end."""
    plain = small_config("llama", head_dim=32)
    parameters = {**SCALINGS[name], "rope_theta": 10000.0}
    raw = {**raw_config(plain), "rope_parameters": parameters}
    del raw["rope_theta"]
    config = parse_config(raw, Path("config.json"))
    assert config.rope_scaling is not None
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(**raw)).eval()
    net.load_state_dict(
        {k: torch.from_numpy(v) for k, v in random_tensors(plain).items()}, strict=False
    )
    net.tie_weights()
    theirs = net.model.rotary_emb
    ours = frequencies(32, 10000.0, config.rope_scaling)
    assert np.allclose(ours, theirs.inv_freq.numpy(), rtol=2e-6, atol=0)
    assert config.rope_scaling.attention_factor == pytest.approx(theirs.attention_scaling, 1e-6)
    tokens = np.random.default_rng(2).integers(0, 97, 150).astype(np.int32)
    with torch.no_grad():
        true = net(torch.from_numpy(tokens).long()[None]).logits[0]
    rotary = rotary_tables(512, 32, 10000.0, config.rope_scaling)
    weights = pack_weights(config, random_tensors(plain).get)
    runner = make_transformer(config, weights, make_kernels("native", threads=1), rotary)
    kl, _, same = divergence(all_logits(runner, tokens), true)
    assert kl < 2e-3
    assert same == 1.0
    unscaled = make_transformer(
        config, weights, make_kernels("native", threads=1), rotary_tables(512, 32, 10000.0)
    )
    assert divergence(all_logits(unscaled, tokens), true)[0] > 10 * kl  # the test can tell


def test_damaged_models_are_refused(tmp_path: Path) -> None:
    """Missing, cut short, foreign: each error names the file."""
    with pytest.raises(ModelError, match="does not exist"):
        read_checkpoint(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"config\.json"):
        read_checkpoint(tmp_path)
    write_directory(tmp_path, small_config())
    shard = tmp_path / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-40])
    with pytest.raises(ModelError, match="00002"):
        read_checkpoint(tmp_path)
    foreign = tmp_path / "model.gguf"
    foreign.write_bytes(b"GGUF" + bytes(3))
    with pytest.raises(ModelError, match="not a whole GGUF"):
        read_checkpoint(foreign)
    foreign.write_bytes(b"")
    with pytest.raises(ModelError, match="not a whole GGUF"):
        read_checkpoint(foreign)


TEXT = (
    "<|im_start|>user\nPlan a short walk along the river for two people and a dog.<|im_end|>\n"
    "<|im_start|>assistant\nStart at the old bridge, follow the north bank for an hour, and rest "
    "at the mill. The path is flat, and there is shade after noon.<|im_end|>"
)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_embedded_model_agrees_with_transformers(smollm2_gguf: Path) -> None:
    """Real weights, read by transformers' own GGUF reader: same tokens, KL below 0.02 a token."""
    net = transformers.AutoModelForCausalLM.from_pretrained(
        smollm2_gguf.parent, gguf_file=smollm2_gguf.name, dtype=torch.float32
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        smollm2_gguf.parent, gguf_file=smollm2_gguf.name
    )
    loaded = load_model(smollm2_gguf)
    ids = loaded.tokenizer.tokenizer.encode(TEXT).ids
    assert ids == tokenizer(TEXT)["input_ids"]
    with torch.no_grad():
        true = net(torch.tensor([ids])).logits[0]
    found = all_logits(loaded.transformer, np.array(ids, np.int32))
    kl, share, same = divergence(found, true)
    assert kl < 0.02
    assert share > 0.4
    assert same == 1.0
