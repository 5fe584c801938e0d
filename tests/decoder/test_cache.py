"""What lies in the cache is believed as long as it is what was written, and made anew otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from tokenizers import Tokenizer, models

from decoder import tokenizer as tokenizers_module
from decoder.cache import cache_dir, map_sealed, read_record, write_record, write_sealed
from decoder.loading import read_checkpoint
from decoder.loading.random_model import random_checkpoint
from decoder.packed import packed_weights
from decoder.tokenizer import LoadedTokenizer, load_tokenizer
from decoder.weights import ModelWeights, pack_weights
from tests.decoder.conftest import small_config
from tests.decoder.test_gguf import write

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CHECKPOINT = random_checkpoint(small_config("qwen3"))
EXPECTED = pack_weights(CHECKPOINT.config, CHECKPOINT.tensor)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test."""
    root = tmp_path / "cache"
    monkeypatch.setenv("POINTSMAN_CACHE", str(root))
    return root


def bits(weights: ModelWeights) -> list[bytes]:
    """Every array of the first layer and of the model."""
    layer = weights.layers[0]
    quantised = (weights.embedding, weights.head, layer.qkv, layer.output, layer.gate_up)
    plain = [weights.final_norm, layer.attention_norm, layer.q_norm]
    return [array.tobytes() for q in (*quantised, layer.down) for array in (q.values, q.scale)] + [
        array.tobytes() for array in plain if array is not None
    ]


def entry() -> Path:
    """The one packed model."""
    (found,) = cache_dir("models").glob("*.safetensors")
    return found


def test_packed_weights_lie_in_the_file() -> None:
    """Packed, then mapped, read-only, and the same after their pages were given back."""
    for _ in range(2):
        packed = packed_weights(CHECKPOINT)
        assert packed.mapped is not None
        assert not packed.weights.embedding.values.flags.writeable
        assert bits(packed.weights) == bits(EXPECTED)
        packed.give_pages_back()
        assert bits(packed.weights) == bits(EXPECTED)


def test_a_cache_that_cannot_be_written_costs_memory_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is a file: the weights are then held in memory."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path / "file"))
    packed = packed_weights(CHECKPOINT)
    assert packed.mapped is None
    packed.give_pages_back()
    assert bits(packed.weights) == bits(EXPECTED)


def _without(arrays: dict[str, NDArray[Any]]) -> bytes:
    return save({name: array for name, array in arrays.items() if name != "1.down.scale"})


def _another_dtype(arrays: dict[str, NDArray[Any]]) -> bytes:
    return save({**arrays, "final_norm": arrays["final_norm"].view(np.int8)})


def _another_kind(arrays: dict[str, NDArray[Any]]) -> bytes:
    return save({**arrays, "final_norm": arrays["final_norm"].astype(np.float64)})


def _no_header(arrays: dict[str, NDArray[Any]]) -> bytes:
    return b"\x10" + bytes(7) + b"[[]]" * 4 + save(arrays)


@pytest.mark.parametrize("damage", [_without, _another_dtype, _another_kind, _no_header])
def test_a_sealed_entry_that_is_no_model_is_packed_anew(damage: Any) -> None:
    """Written whole by somebody else, or by another version that forgot to raise its number."""
    packed_weights(CHECKPOINT)
    write_sealed(entry(), damage(load(entry().read_bytes())))
    assert bits(packed_weights(CHECKPOINT).weights) == bits(EXPECTED)
    assert "1.down.scale" in load(entry().read_bytes())


@pytest.mark.parametrize("place", [3, 400, -1])
def test_a_changed_byte_is_noticed(place: int) -> None:
    """Anywhere in the file, and in its seal."""
    packed_weights(CHECKPOINT)
    for file in (entry(), entry().with_suffix(".sha256")):
        content = bytearray(file.read_bytes())
        content[place % len(content)] ^= 1
        file.write_bytes(content)
        assert bits(packed_weights(CHECKPOINT).weights) == bits(EXPECTED)
    entry().write_bytes(b"")
    assert map_sealed(entry()) is None
    assert bits(packed_weights(CHECKPOINT).weights) == bits(EXPECTED)


def _only_record(kind: str) -> Path:
    (found,) = cache_dir(kind).glob("*.json")
    return found


def test_a_changed_configuration_is_read_anew(tmp_path: Path) -> None:
    """Another rope_theta would change every answer and raise no error."""
    config = small_config("qwen3", rms_eps=2.0**-17)
    path = write(tmp_path / "model.gguf", config, {})
    assert read_checkpoint(path).config == config
    file = _only_record("configs")
    file.write_text(file.read_text().replace("10000.0", "50000.0"))
    assert read_checkpoint(path).config == config
    assert "10000.0" in file.read_text()


def test_a_changed_chat_template_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template decides what the model reads, and no digest of the tokenizer covers it."""
    made = LoadedTokenizer(
        Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), "{{ messages }}", "<end>", "", ""
    )
    fresh = tokenizers_module._loaded(made.tokenizer, made.chat_template, "<end>", "")
    monkeypatch.setattr(tokenizers_module, "_from_gguf", lambda _: fresh)
    path = tmp_path / "model.gguf"
    path.write_bytes(b"bytes of a file")
    assert load_tokenizer(path).chat_template == "{{ messages }}"
    file = _only_record("tokenizers")
    file.write_text(file.read_text().replace("messages", "nothing"))
    for _ in range(2):
        assert load_tokenizer(path).chat_template == "{{ messages }}"
    monkeypatch.setattr(tokenizers_module, "_from_gguf", lambda _: pytest.fail("read anew"))
    assert load_tokenizer(path).chat_template == "{{ messages }}"


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[1]", b"\xff", b"", b"nul"])
def test_a_sealed_record_that_is_no_object_is_none(cache: Path, content: bytes) -> None:
    """Too deep, another kind of value, no text, nothing."""
    path = cache / "records" / "one.json"
    write_sealed(path, content)
    assert read_record(path) is None


def test_a_record_comes_back(cache: Path) -> None:
    """As it was."""
    path = cache / "records" / "one.json"
    assert read_record(path) is None
    write_record(path, {"a": [1, "\ud800", None]})
    assert read_record(path) == json.loads(json.dumps({"a": [1, "\ud800", None]}))
