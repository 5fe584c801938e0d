"""Tokenizers of every common kind, made here from a text of our own, and a small catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from catalog_compiler.model import Diagnostic, Severity, Tool, ToolSet

if TYPE_CHECKING:
    from collections.abc import Callable

SPECIAL = ["<|im_start|>", "<|im_end|>"]

TEXT = [
    "kettle_boil kettle_fill kettle_empty kettle_boil_twice the water boils in the kettle",
    "train_find train_book train_cancel a seat by the window of the night train",
    "assistant none no_tool_fits no tool fits (none) lamp_on lamp_off dim the lamp in the hall",
    "garden.water garden.mow list_of_seeds getSeedByName get_seed_by_name 0123456789",
    "user system assistant\nthe quick brown fox jumps over the lazy dog; THE QUICK BROWN FOX",
] * 4


def byte_level() -> Tokenizer:
    """Byte-level BPE with ChatML tokens, as GPT-2, Llama 3, Qwen and SmolLM2 have."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def normalising() -> Tokenizer:
    """Byte-level BPE that normalises to NFC, as Qwen has, and knows <tool_call> as one token."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return tokenizer


def merging() -> Tokenizer:
    """Byte-level BPE without splitting into words: merges run across every border."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        ["Answer: kettle_boil;", "Answer: lamp_on;", "Answer: train_book;"] * 8,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def unigram() -> Tokenizer:
    """Unigram with Metaspace and byte fallback, as sentencepiece models have."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        TEXT,
        trainers.UnigramTrainer(
            vocab_size=220,
            special_tokens=[*SPECIAL, "<unk>"],
            unk_token="<unk>",
            show_progress=False,
        ),
    )
    return tokenizer


def prepending() -> Tokenizer:
    """Characters with byte fallback and a blank put before every text, as Llama 2 has."""
    alphabet = [
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        *map(chr, range(33, 127)),
    ]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={text: index for index, text in enumerate(alphabet)},
            merges=[],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    return tokenizer


def characters() -> Tokenizer:
    """One token a character of ASCII, nothing else known."""
    alphabet = ["<unk>", "\n", *map(chr, range(32, 127))]
    tokenizer = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[], unk_token="<unk>")
    )
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def word_pieces() -> Tokenizer:
    """Lower-casing WordPiece, as BERT has: it cannot give most names back."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        TEXT,
        trainers.WordPieceTrainer(
            vocab_size=200, special_tokens=["[UNK]", *SPECIAL], show_progress=False
        ),
    )
    return tokenizer


EXACT = {
    "byte_level": byte_level,
    "normalising": normalising,
    "merging": merging,
    "unigram": unigram,
    "characters": characters,
    "prepending": prepending,
}


@pytest.fixture(scope="session", params=sorted(EXACT))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Return each kind of tokenizer that can spell plain names, in turn."""
    make: Callable[[], Tokenizer] = EXACT[request.param]
    return make()


@pytest.fixture(scope="session")
def chat_tokenizer() -> Tokenizer:
    """Return the byte-level tokenizer."""
    return byte_level()


def make_tool(name: str, description: str = "", **fields: object) -> Tool:
    """Make a tool found in one source."""
    return Tool(
        name=name,
        source_name=name,
        description=description,
        source="home.json",
        **fields,  # type: ignore[arg-type]
    )


TOOLS = (
    make_tool(
        "kettle_boil",
        "Boils the water in the kettle.",
        namespace="kitchen",
        aliases=("boil",),
        tags=("heat", "water"),
        input_schema={
            "type": "object",
            "properties": {"litres": {"type": "number"}, "colour": {"enum": ["red", "blue"]}},
            "required": ["litres"],
        },
        pointer="/tools/0",
    ),
    make_tool("kettle_boil_twice", "Boils the water, lets it cool, and boils it again."),
    make_tool("lamp_on", "Lights the lamp in the hall.", namespace="hall"),
    make_tool("train_book", "Books a seat by the window of the night train.", title="Book"),
    make_tool("wetter/heute & morgen", "Sagt das Wetter für heute und morgen: 🌧️ oder ☀️."),
)

FINDINGS = (
    Diagnostic(
        severity=Severity.WARNING,
        code="near-duplicate",
        message="kettle_boil and kettle_boil_twice read alike.",
        mend="Say in each description when to take the other.",
        source="home.json",
        pointer="/tools/0",
        tool="kettle_boil",
        related=("kettle_boil_twice",),
    ),
)


@pytest.fixture(scope="session")
def toolset() -> ToolSet:
    """Return five tools and one finding."""
    return ToolSet(TOOLS, FINDINGS)
