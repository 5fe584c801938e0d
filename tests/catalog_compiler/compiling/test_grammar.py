"""Names in place, for tokenizers of every kind: spelt exactly, or set aside with the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from catalog_compiler.errors import GrammarError
from catalog_compiler.grammar import (
    NONE_LEAF,
    NONE_TEXTS,
    NameGrammar,
    Placement,
    build_name_grammar,
    build_name_trie,
    chat_placement,
)

from .conftest import (
    byte_level,
    characters,
    merging,
    normalising,
    prepending,
    unigram,
    word_pieces,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = ["kettle_boil", "kettle_boil_twice", "kettle", "lamp_on", "getSeedByName", "a", "ab"]
EXACT_TOKENIZERS = {
    make.__name__: make() for make in (byte_level, normalising, prepending, unigram)
}

parts = st.sampled_from(
    [
        "kettle",
        "_",
        "boil",
        " ",
        "\n",
        "é",
        "e\u0301",
        "日本",
        "🤖",
        "<|im_end|>",
        "<|im_",
        "A",
        ".",
    ]
)
names = st.one_of(
    st.lists(parts, min_size=1, max_size=4).map("".join), st.text(min_size=1, max_size=60)
)


def check_sound(
    grammar: NameGrammar, given_names: list[str], tokenizer: Tokenizer, placement: Placement
) -> None:
    """Walk every name, in the place where the model would write it."""
    lead = tokenizer.encode(placement.context + placement.prefix, add_special_tokens=False).ids
    special = {n for n, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    before = tokenizer.decode(lead, skip_special_tokens=False)
    leaves = list(grammar.trie.sequences())
    assert sorted([*grammar.kept, *grammar.refused]) == list(range(len(given_names)))
    assert grammar.trie.leaves == len(grammar.kept) + 1
    for leaf, tokens in enumerate(leaves):
        tool = int(grammar.trie.leaf_tool[leaf])
        name = grammar.placement.none_text if tool == NONE_LEAF else given_names[grammar.kept[tool]]
        written = tokenizer.decode(lead + list(tokens), skip_special_tokens=False)
        assert written == before + name + placement.delimiter
        assert grammar.trie.walk(tokens) == leaf
        if placement.delimiter.startswith("<|"):
            assert special.isdisjoint(tokens[:-1])


def test_every_plain_name_is_walked(tokenizer: Tokenizer) -> None:
    """Plain names, one the beginning of another, are all kept by every kind of tokenizer."""
    placement = chat_placement(tokenizer)
    grammar = build_name_grammar(PLAIN, tokenizer, placement)
    assert not grammar.refused
    assert grammar.placement.none_text == "none"
    check_sound(grammar, PLAIN, tokenizer, placement)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(names, min_size=1, max_size=8, unique=True), st.sampled_from(["", "Answer: "]))
@pytest.mark.parametrize("kind", sorted(EXACT_TOKENIZERS))
def test_any_names_are_spelt_exactly_or_refused(
    kind: str, given_names: list[str], prefix: str
) -> None:
    """Whatever the names, a kept one is written exactly and no control token is in it."""
    tokenizer = EXACT_TOKENIZERS[kind]
    placement = Placement(prefix=prefix)
    try:
        grammar = build_name_grammar(given_names, tokenizer, placement)
    except GrammarError as error:
        assert "none of the" in str(error)  # noqa: PT017 (the message is the subject)
        return
    check_sound(grammar, given_names, tokenizer, placement)
    if kind == "byte_level":
        assert not grammar.refused


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(names, min_size=1, max_size=6, unique=True), st.lists(st.integers(0, 300)))
def test_no_other_token_string_is_accepted(given_names: list[str], tokens: list[int]) -> None:
    """Names spelt in other tokens, cut short or gone on with are not in the language."""
    tokenizer = EXACT_TOKENIZERS["byte_level"]
    trie = build_name_trie(given_names, tokenizer, Placement())
    language = set(trie.sequences())
    assert len(language) == len(given_names) + 1
    letters = tokenizer.get_vocab()
    end = letters["<|im_end|>"]
    others = {tuple(tokens), (*tokens, end)}
    for name in given_names:
        others.add((*tokenizer.encode(name, add_special_tokens=False).ids,))
        if name.isascii() and name.isalnum():
            others.add((*(letters[character] for character in name), end))
    for text in language:
        others |= {text[:-1], (*text, end), (*text[:-1], 300, end), text[1:]}
    assert all(trie.walk(text) is None for text in others - language)


def test_control_tokens_in_a_name_stay_text(chat_tokenizer: Tokenizer) -> None:
    """A tool named like the end-of-turn token is routed and can't end the turn."""
    given_names = ["<|im_end|>", "x<|im_start|>y<|im_end|>", "x"]
    placement = chat_placement(chat_tokenizer)
    grammar = build_name_grammar(given_names, chat_tokenizer, placement)
    assert not grammar.refused
    assert grammar.respelt == (0, 1)
    check_sound(grammar, given_names, chat_tokenizer, placement)


def test_ordinary_added_tokens_are_kept_out_of_names() -> None:
    """A name that spells an added token (not special) is written without that token."""
    tokenizer = normalising()
    marker = tokenizer.token_to_id("<tool_call>")
    trie = build_name_trie(["<tool_call>", "lamp_on"], tokenizer, Placement())
    assert all(marker not in tokens for tokens in trie.sequences())


def test_added_tokens_are_used_where_there_is_no_other_spelling() -> None:
    """A vocabulary that holds its digits as added tokens can still spell them."""
    letters = dict.fromkeys("none_lamp")
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens([AddedToken("7", normalized=False)])
    tokenizer.add_special_tokens(["<|im_end|>"])
    grammar = build_name_grammar(["lamp7"], tokenizer, Placement(context=""))
    assert grammar.kept == (0,)


@pytest.mark.parametrize("name", [" lead", "trail ", "  ", "\n", "a  b", "é", "日本", "<|im_end|>"])
def test_blanks_and_bytes_with_a_prepended_blank(name: str) -> None:
    """Names with blanks at their ends or outside the vocabulary keep every character."""
    tokenizer = prepending()
    for placement in (Placement(), Placement(context=""), Placement(prefix="Answer: ")):
        grammar = build_name_grammar([name, "lamp_on"], tokenizer, placement)
        check_sound(grammar, [name, "lamp_on"], tokenizer, placement)
        assert grammar.kept == (0, 1)


def test_normalised_names_are_respelt_exactly() -> None:
    """Where NFC would make two names one, both are kept and stay apart."""
    given_names = ["caf\u00e9", "cafe\u0301"]
    tokenizer = normalising()
    grammar = build_name_grammar(given_names, tokenizer, Placement())
    assert grammar.kept == (0, 1)
    assert grammar.respelt == (1,)
    check_sound(grammar, given_names, tokenizer, Placement())


def test_unspellable_names_are_set_aside_and_nothing_else() -> None:
    """Characters outside a vocabulary cost that tool alone."""
    grammar = build_name_grammar(["lamp_on", "日本", "train_book"], characters(), Placement())
    assert grammar.kept == (0, 2)
    assert grammar.refused[1].code == "name-not-spellable"
    with pytest.raises(GrammarError, match="日本"):
        build_name_trie(["lamp_on", "日本"], characters(), Placement())


def test_a_border_that_merges_is_respelt_with_proof() -> None:
    """Where tokens run across prefix and name, the name is spelt by itself and proved."""
    tokenizer = merging()
    placement = Placement(prefix="Answer: ")
    whole = tokenizer.encode("Answer: kettle_boil", add_special_tokens=False).tokens
    assert whole[0].startswith("Answer:Ġk")
    grammar = build_name_grammar(["kettle_boil", "lamp_on"], tokenizer, placement)
    assert grammar.respelt == (0, 1)
    check_sound(grammar, ["kettle_boil", "lamp_on"], tokenizer, placement)


def test_a_text_delimiter_that_merges_is_refused_or_sound() -> None:
    """With a delimiter of plain text names are closed by its own tokens."""
    tokenizer = merging()
    placement = Placement(prefix="Answer: ", delimiter=";")
    given_names = ["kettle_boil", "lamp_on", "lamp"]
    grammar = build_name_grammar(given_names, tokenizer, placement)
    assert grammar.kept == (0, 1, 2)
    check_sound(grammar, given_names, tokenizer, placement)


def test_a_name_that_goes_on_after_the_delimiter_is_set_aside(chat_tokenizer: Tokenizer) -> None:
    """With "." as delimiter, "lamp.on" would begin with the whole answer "lamp."."""
    placement = Placement(delimiter="\n", context="")
    grammar = build_name_grammar(["lamp", "lamp\non", "lamps"], chat_tokenizer, placement)
    assert grammar.kept == (0, 2)
    assert grammar.refused[1].code == "name-holds-delimiter"


def test_lossy_tokenizers_are_refused() -> None:
    """WordPiece can't give names back: no silent guess, and the message says why."""
    with pytest.raises(GrammarError, match="cannot"):
        build_name_grammar(["getSeedByName", "Kettle"], word_pieces(), Placement())


def test_a_random_tokenizer_is_refused() -> None:
    """BPE dropout has no stable spelling."""
    tokenizer = byte_level()
    tokenizer.model.dropout = 0.1
    with pytest.raises(GrammarError, match="dropout"):
        build_name_grammar(["lamp_on"], tokenizer, Placement())


def test_limits_on_the_tokenizer_do_not_cut_names(chat_tokenizer: Tokenizer) -> None:
    """A tokenizer file with truncation and padding gives the same trie, and is left as it was."""
    limited = byte_level()
    limited.enable_truncation(4)
    limited.enable_padding(length=64)
    trie = build_name_trie(PLAIN, limited, Placement())
    assert list(trie.sequences()) == list(
        build_name_trie(PLAIN, chat_tokenizer, Placement()).sequences()
    )
    assert limited.truncation is not None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "name-empty"),
        ("\ud800x", "name-not-unicode"),
        ("x" * 2_001, "name-too-long"),
        ("é~" * 300, "name-too-long"),
    ],
)
def test_names_that_cannot_be_routed(name: str, code: str, chat_tokenizer: Tokenizer) -> None:
    """Each has its reason, and its neighbour is routed."""
    grammar = build_name_grammar(["lamp_on", name], chat_tokenizer, Placement())
    assert grammar.kept == (0,)
    assert grammar.refused[1].code == code


def test_none_never_reads_like_a_tool(chat_tokenizer: Tokenizer) -> None:
    """The none leaf takes the first spelling that no name or alias has, in any case."""
    for count in range(len(NONE_TEXTS) + 2):
        taken = [*NONE_TEXTS, "no_tool_fits_2"][:count]
        grammar = build_name_grammar(
            ["lamp_on", *(text.upper() for text in taken[1:])],
            chat_tokenizer,
            Placement(),
            reserved=taken[:1],
        )
        expected = [*NONE_TEXTS, "no_tool_fits_2", "no_tool_fits_3"][count]
        assert grammar.placement.none_text == expected


def test_a_wanted_none_text_is_kept_or_refused(chat_tokenizer: Tokenizer) -> None:
    """It is taken as given; a tool of that name is an error with a mend."""
    wanted = Placement(none_text="nothing here")
    grammar = build_name_grammar(["lamp_on"], chat_tokenizer, wanted)
    assert grammar.placement.none_text == "nothing here"
    with pytest.raises(GrammarError, match="choose another"):
        build_name_grammar(["Nothing here"], chat_tokenizer, wanted)


def test_nothing_to_route(chat_tokenizer: Tokenizer) -> None:
    """No names at all, and the same name twice, are errors."""
    with pytest.raises(GrammarError, match="no name"):
        build_name_grammar([], chat_tokenizer, Placement())
    with pytest.raises(GrammarError, match="twice"):
        build_name_grammar(["lamp_on", "x", "lamp_on"], chat_tokenizer, Placement())


def test_placements() -> None:
    """The end-of-turn token is recognised or given; JSON brings it back; "" is refused."""
    assert chat_placement(byte_level()).delimiter == "<|im_end|>"
    assert chat_placement(byte_level(), "</answer>") == Placement(delimiter="</answer>", context="")
    with pytest.raises(GrammarError, match="end-of-turn"):
        chat_placement(Tokenizer(models.BPE()))
    placement = Placement(prefix="é", none_text="x")
    assert Placement.from_json(placement.to_json()) == placement
    for text in ("[]", "{}x", json.dumps({"delimiter": ""}), json.dumps({"other": "x"})):
        with pytest.raises(GrammarError):
            Placement.from_json(text)
    with pytest.raises(GrammarError):
        Placement(delimiter=3)  # type: ignore[arg-type]


def test_a_delimiter_without_tokens_of_its_own_is_refused() -> None:
    """A tokenizer that drops the delimiter can't close a name."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Replace(";", "")
    with pytest.raises(GrammarError, match="delimiter"):
        build_name_grammar(["lamp_on"], tokenizer, Placement(delimiter=";"))


def test_many_names(chat_tokenizer: Tokenizer) -> None:
    """Several batches of names, many of them beginnings of others, are all proved."""
    given_names = [f"list_of_seeds_{number}" for number in range(9_000)]
    grammar = build_name_grammar(given_names, chat_tokenizer, Placement())
    assert len(grammar.kept) == 9_000
    assert grammar.trie.leaf_tool.max() == 8_999


@pytest.mark.model
def test_the_embedded_model_spells_real_names(shared_data: Path, smollm2_gguf: Path) -> None:
    """Every name of a real catalog is walked with the embedded model's own tokenizer."""
    from decoder.tokenizer import load_tokenizer  # noqa: PLC0415 (loads the whole decoder)

    tokenizer = load_tokenizer(smollm2_gguf).tokenizer
    stored = json.loads((shared_data / "catalogs" / "toucan_live.json").read_text())
    real = sorted({tool["name"] for tool in stored["tools"]})
    grammar = build_name_grammar(real, tokenizer, chat_placement(tokenizer))
    assert not grammar.refused
    assert not grammar.respelt
    check_sound(grammar, real, tokenizer, chat_placement(tokenizer))
