"""The tokenizer read from a GGUF, and the sentence encoder, against transformers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.encoder import Encoder, load_encoder
from decoder.errors import ModelError, UnsupportedModelError
from decoder.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.model

TEXTS = [
    "get_weather_2024: returns   the weather of a city.",
    "Überraschung! naïve café, 日本語のテキスト, русский, עברית, 🚂🛤️👩‍👩‍👧",
    "def route(x):\n\treturn {'a': [1, 22, 333], \"b\": None}  # 1e-9\r\n\r\n",
    "<|im_start|>user\nhello<|im_end|>\n",
    " leading and trailing ",
    "don't can't we'll I'd",
    "a\u0301 e\u0301 ﬁ ½ ①",
    "",
]


@pytest.mark.slow
def test_a_gguf_tokenizer_equals_the_reference_reader(smollm2_gguf: Path) -> None:
    """Same ids and the same way back as transformers' own conversion.

    That conversion passes over the file's `tokenizer.ggml.pre` ("smollm": digits one by one), so it
    is held to texts without numerals; those are checked against the word's meaning.
    """
    loaded = load_tokenizer(smollm2_gguf)
    reference = transformers.AutoTokenizer.from_pretrained(
        smollm2_gguf.parent, gguf_file=smollm2_gguf.name
    )
    for text in TEXTS:
        ids = loaded.tokenizer.encode(text).ids
        if not any(character.isnumeric() for character in text):
            assert ids == reference(text)["input_ids"]
        assert loaded.tokenizer.decode(ids, skip_special_tokens=False) == text
    assert loaded.tokenizer.encode("a333b90").tokens == ["a", "3", "3", "3", "b", "9", "0"]
    assert loaded.end_of_turn == "<|im_end|>"
    assert loaded.chat_template is not None
    assert loaded.chat_template == reference.chat_template
    assert load_tokenizer(smollm2_gguf).digest == loaded.digest


def test_a_directory_gives_its_tokenizer_and_end(tmp_path: Path, smollm2_gguf: Path) -> None:
    """tokenizer.json with its settings reads as the GGUF does; missing parts are named."""
    loaded = load_tokenizer(smollm2_gguf)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(loaded.tokenizer.to_str())
    with pytest.raises(ModelError, match=r"tokenizer_config\.json"):
        load_tokenizer(tmp_path)
    settings_file = tmp_path / "tokenizer_config.json"
    settings_file.write_text(json.dumps({"chat_template": "x"}))
    with pytest.raises(ModelError, match="eos_token"):
        load_tokenizer(tmp_path)
    settings_file.write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    found = load_tokenizer(tmp_path)
    assert (found.digest, found.end_of_turn) == (loaded.digest, "<|im_end|>")
    assert found.chat_template == "{{ messages }}"


@pytest.fixture(scope="module")
def encoder(minilm_dir: Path) -> Encoder:
    return load_encoder(minilm_dir, threads=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_embeddings_agree_with_transformers(encoder: Encoder, minilm_dir: Path) -> None:
    """Cosine above 0.999 to the float model's on real weights, cut at 256 tokens alike."""
    net = transformers.AutoModel.from_pretrained(minilm_dir).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_dir)
    texts = [*(t for t in TEXTS if t.strip()), "word " * 400]
    for text, found in zip(texts, encoder.embed(texts), strict=True):
        batch = tokenizer([text], return_tensors="pt", truncation=True, max_length=256)
        with torch.no_grad():
            mean = net(**batch).last_hidden_state[0].mean(0)
        cosine = float(torch.nn.functional.normalize(mean, dim=0) @ torch.from_numpy(found))
        assert cosine > 0.999, text
        assert abs(np.linalg.norm(found) - 1) < 1e-5


@given(st.lists(st.text(max_size=60), min_size=1, max_size=8), st.randoms())
@settings(deadline=None, max_examples=25)
def test_an_embedding_depends_on_its_text_alone(
    encoder: Encoder, texts: list[str], random: object
) -> None:
    """Any batch and any order give each text the bits that it has alone."""
    alone = {text: encoder.embed([text])[0].tobytes() for text in texts}
    shuffled = list(texts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for text, row in zip(shuffled, encoder.embed(shuffled), strict=True):
        assert row.tobytes() == alone[text]


def test_native_and_reference_embed_with_the_same_bits(encoder: Encoder, minilm_dir: Path) -> None:
    """A whole real encoder, bit for bit."""
    reference = load_encoder(minilm_dir, kernels="reference")
    texts = ["Book a table for four.", "", "天気予報"]
    assert encoder.embed(texts).tobytes() == reference.embed(texts).tobytes()
    assert encoder.digest == reference.digest


def test_no_texts_give_no_rows(encoder: Encoder) -> None:
    """An empty batch is not an error."""
    assert encoder.embed([]).shape == (0, 384)


def test_another_pooling_is_refused(tmp_path: Path, minilm_dir: Path) -> None:
    """The encoder never computes something else than what the directory asks for."""
    (tmp_path / "1_Pooling").mkdir()
    for name in ("config.json", "sentence_bert_config.json"):
        (tmp_path / name).write_bytes((minilm_dir / name).read_bytes())
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    with pytest.raises(UnsupportedModelError, match="pooling_mode_cls_token"):
        load_encoder(tmp_path)
    (tmp_path / "1_Pooling" / "config.json").unlink()
    with pytest.raises(ModelError, match="1_Pooling"):
        load_encoder(tmp_path)
