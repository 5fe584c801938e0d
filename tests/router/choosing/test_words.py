"""Words and terms: identifiers come apart, scripts without spaces too, and nothing blows up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.retrieval.words import (
    MAX_REQUEST_CHARS,
    clip_at_word,
    clip_request,
    first_sentence,
    split_words,
    stem,
    terms_of,
    well_formed,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("list_open-issues.v2", ["list", "open", "issues", "v", "2"]),
        ("listOpenIssues", ["list", "open", "issues"]),
        ("parseHTTPResponse", ["parse", "http", "response"]),
        ("<agent-name>", ["agent", "name"]),
        ("Café ﬁnder", ["cafe", "finder"]),
        ("查询天气now", ["查", "询", "天", "气", "now"]),
        ("", []),
        ("_-./ \u202e", []),
    ],
)
def test_identifiers_and_texts_come_apart(text: str, words: list[str]):
    """Every usual way of joining words into a name is undone."""
    assert split_words(text) == words


@pytest.mark.parametrize("family", [("list", "lists", "listed", "listing"), ("query", "queries")])
def test_forms_of_a_word_meet(family: tuple[str, ...]):
    """Inflections share a stem."""
    assert len({stem(word) for word in family}) == 1


def test_words_that_say_nothing_of_a_tool_are_no_terms():
    """Courtesies are rare in descriptions and would otherwise count as telling words."""
    assert terms_of("Could you please list the open issues for me?") == ["list", "open", "issu"]


def test_short_words_and_other_scripts_are_not_stemmed():
    """A stem never eats a short or foreign word."""
    assert [stem(word) for word in ("is", "bus", "red", "straßen")] == [
        "is",
        "bus",
        "red",
        "straßen",
    ]


@given(st.text())
def test_words_are_lower_case_and_never_empty(text: str):
    """Whatever comes in, words are clean and folding them again changes nothing."""
    words = split_words(text)
    assert all(word and word == word.casefold() for word in words)
    assert set(terms_of(text)) <= {stem(word) for word in words}


def test_a_long_request_keeps_its_start_and_its_end():
    """The question often stands after what was pasted."""
    clipped = clip_request("start " + "x" * 50_000 + " end?")
    assert clipped.startswith("start ")
    assert clipped.endswith(" end?")
    assert len(clipped) == MAX_REQUEST_CHARS + 1


def test_the_first_sentence_is_more_than_a_greeting():
    """A one-word opener does not count as the sentence."""
    assert first_sentence("Deprecated. Use the other one instead. More.", 100) == (
        "Deprecated. Use the other one instead."
    )
    assert first_sentence("查询天气。第二句。", 100) == "查询天气。"
    assert first_sentence("no stop at all", 100) == "no stop at all"


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_clipping_never_exceeds_its_bound(text: str, bound: int):
    """A clipped text is never longer than asked for."""
    assert len(clip_at_word(text, bound)) <= bound
    assert len(first_sentence(text, bound)) <= bound


def test_lone_surrogates_become_question_marks():
    """Text that no encoding carries is made encodable."""
    assert well_formed("a\ud800b") == "a?b"
