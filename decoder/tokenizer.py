"""The tokenizer and chat template that come with a model.

Owns reading them from a directory (tokenizer.json) or from GGUF metadata. A GGUF names its
pre-tokenizer by a word; each word known here is spelt out, and any other is refused, since a
wrong split would silently change what the model reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from decoder.cache import cache_dir, read_record, write_record
from decoder.errors import ModelError, UnsupportedModelError
from decoder.loading.checkpoint import digest_files
from decoder.loading.gguf_file import field_value, open_gguf

if TYPE_CHECKING:
    from pathlib import Path

CACHE_VERSION = 1
"""Raise it whenever the reading of GGUF tokenizers changes."""

_CONTROL, _USER_DEFINED = 3, 4

_SPLIT_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLIT_LLAMA3 = _SPLIT_QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """A model's tokenizer.

    Attributes:
        tokenizer: encodes and decodes; adds no special tokens of its own accord.
        chat_template: Jinja source, or None where the model has none.
        end_of_turn: text of the token that closes an answer.
        bos: text of the token that opens a text, "" where none is added.
        digest: sha256, hex, of the tokenizer's canonical JSON.

    """

    tokenizer: Tokenizer
    chat_template: str | None
    end_of_turn: str
    bos: str
    digest: str


def load_tokenizer(path: Path) -> LoadedTokenizer:
    """Load from a model directory or a GGUF file.

    Raises:
        ModelError: missing or damaged; UnsupportedModelError for an unknown kind.

    """
    if path.is_dir():
        return _from_directory(path)
    if not path.is_file():
        raise ModelError(f"{path} does not exist; give a model's directory or a .gguf file")
    cached = cache_dir("tokenizers") / f"{digest_files([path])}-{CACHE_VERSION}.json"
    loaded = _cached(cached)
    if loaded is None:
        loaded = _from_gguf(path)
        entry = {
            "tokenizer": loaded.tokenizer.to_str(),
            "chat_template": loaded.chat_template,
            "end_of_turn": loaded.end_of_turn,
            "bos": loaded.bos,
            "digest": loaded.digest,
        }
        with contextlib.suppress(OSError):
            write_record(cached, entry)
    return loaded


def _cached(path: Path) -> LoadedTokenizer | None:
    """Return a tokenizer read from a GGUF before; parsing one takes seconds."""
    entry = read_record(path)
    if entry is None:
        return None
    try:
        tokenizer = Tokenizer.from_str(entry.pop("tokenizer"))
        loaded = _loaded(tokenizer, entry["chat_template"], entry["end_of_turn"], entry["bos"])
    except Exception:  # noqa: BLE001 - the library raises plain Exception; it is read anew
        return None
    return loaded if loaded.digest == entry["digest"] else None


def _loaded(tokenizer: Tokenizer, template: str | None, end: str, bos: str) -> LoadedTokenizer:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    canonical = json.dumps(json.loads(tokenizer.to_str()), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return LoadedTokenizer(tokenizer, template, end, bos, digest)


def _from_directory(path: Path) -> LoadedTokenizer:
    file = path / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{file} can't be read as a tokenizer: {error}") from error
    settings_file = path / "tokenizer_config.json"
    try:
        settings = json.loads(settings_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{settings_file}: {error}; a model's directory needs it") from error
    template = settings.get("chat_template")
    separate = path / "chat_template.jinja"
    if template is None and separate.is_file():
        template = separate.read_text(encoding="utf-8")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    end = _text(settings.get("eos_token"))
    if not end:
        raise ModelError(f"{settings_file} has no eos_token; it is what closes an answer")
    bos = _text(settings.get("bos_token")) if settings.get("add_bos_token") else ""
    return _loaded(tokenizer, template, end, bos)


def _text(token: Any) -> str:
    if isinstance(token, dict):
        return str(token.get("content", ""))
    return "" if token is None else str(token)


def _from_gguf(path: Path) -> LoadedTokenizer:
    reader = open_gguf(path)
    kind = field_value(reader, "tokenizer.ggml.model")
    if kind != "gpt2":
        raise UnsupportedModelError(
            f"{path}: tokenizer.ggml.model is {kind!r}; only byte-level BPE ('gpt2') is read from "
            "GGUF. Give the model's directory with its tokenizer.json instead"
        )
    tokens: list[str] = field_value(reader, "tokenizer.ggml.tokens")
    merges: list[str] | None = field_value(reader, "tokenizer.ggml.merges")
    kinds: list[int] | None = field_value(reader, "tokenizer.ggml.token_type")
    if not tokens or merges is None or kinds is None:
        raise ModelError(f"{path} has no whole tokenizer (tokens, merges and token_type)")
    vocabulary = {text: index for index, text in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [_pair(m) for m in merges], fuse_unk=False))
    _set_splitting(tokenizer, str(field_value(reader, "tokenizer.ggml.pre")), path)
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        AddedToken(tokens[i], special=True, normalized=False)
        for i, k in enumerate(kinds)
        if k == _CONTROL
    ]
    plain = [
        AddedToken(tokens[i], special=False, normalized=False)
        for i, k in enumerate(kinds)
        if k == _USER_DEFINED
    ]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(plain)
    end = field_value(reader, "tokenizer.ggml.eos_token_id")
    bos = field_value(reader, "tokenizer.ggml.bos_token_id")
    adds_bos = bool(field_value(reader, "tokenizer.ggml.add_bos_token"))
    if end is None:
        raise ModelError(f"{path} has no tokenizer.ggml.eos_token_id; it closes an answer")
    return _loaded(
        tokenizer,
        field_value(reader, "tokenizer.chat_template"),
        tokens[int(end)],
        tokens[int(bos)] if adds_bos and bos is not None else "",
    )


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _set_splitting(tokenizer: Tokenizer, name: str, path: Path) -> None:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    elif name == "gpt-2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    elif name in ("qwen2", "llama-bpe"):
        pattern = _SPLIT_QWEN2 if name == "qwen2" else _SPLIT_LLAMA3
        if name == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level]
        )
    else:
        raise UnsupportedModelError(
            f"{path}: tokenizer.ggml.pre is {name!r}; known: smollm, gpt-2, qwen2, llama-bpe. Give "
            "the model's directory with its tokenizer.json instead"
        )
