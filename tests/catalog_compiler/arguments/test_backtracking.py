"""Patterns that no automaton has: as ECMA-262 reads them, within a time, or refused by name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.schema import compile_schema, validator
from catalog_compiler.arguments.schema.patterns import UndecidedError, matching_time, search

FOUND: dict[str, tuple[list[str], list[str]]] = {
    r"^(a|b)\1$": (["aa", "bb"], ["ab", "aa\n"]),
    r"^(a)?\1b$": (["aab", "b"], ["ab"]),  # a group that matched nothing is the empty text
    r"^(?:(a)|(b))\1\2$": (["aa", "bb"], ["a", "ab"]),
    r"^(?:(a)\1)+$": (["aa", "aaaa"], ["a", "aaa"]),
    r"(?<y>[0-9]{2})-\k<y>": (["12-12"], ["12-13", "١٢-١٢"]),
    r"(?P<y>a)\k<y>": (["aa"], ["a"]),
    r"(?<=[\S\s])x$": (["ax", "\nx"], ["x"]),
    r"(?<=[^\W_])x": (["ax"], ["_x", "éx", " x"]),
    r"(?<!\d)[\D]\b$": (["a"], [".", "1", "1a"]),
    r"(?<=^.)\x41\u{1F600}\cA$": (["1A\U0001f600\x01"], ["\nA\U0001f600\x01"]),
    r"(?<=a*)b\B": (["bb", "aabc"], ["b", "ab"]),
    r"(?<=\p{Lu})x": (["Äx"], ["äx"]),
    r"(?<![[&&a])b": (["b", "cb"], ["&b", "[b", "ab"]),  # no set operations
    r"(?<=#)a b$": (["#a b"], ["#ab"]),
    r"(?<=a)(?!b)(?:c{0}d{2,})": (["add"], ["ad", "abdd"]),
}


@pytest.mark.parametrize("source", FOUND)
def test_is_found_as_ecma_says(source: str) -> None:
    """In the one kind of texts, and not in the other."""
    with pytest.raises(automata.PatternError):
        automata.pattern(source)
    found, not_found = FOUND[source]
    assert [text for text in found if not search(source)(text)] == []
    assert [text for text in not_found if search(source)(text)] == []


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (r"(?<=a)b\Z", r"\Z; say $"),
        (r"(?<=a)b{,2}", "say {0,n}"),
        (r"(?<=a)b++", "a count of a count"),
        (r"(?<=a)(?>b)", "a group of an unknown kind"),
        (r"(?i)(?<=a)b", "a group of an unknown kind"),
        (r"(?<=a)(?#b)", "a group of an unknown kind"),
        (r"(?<=a)\h", "an escape that ECMA-262 does not know"),
        (r"\2(a)", "a back reference to no group"),
        (r"(a)\k<b>", "a back reference to no group"),
        (r"(a\1)", "not closed"),
        (r"(?:(a)b)*\1", "into a repetition"),
        (r"(?=(a))\1", "into a repetition or a look"),
        (r"(?:(a)|b\1)*", "one of its alternatives"),
        (r"(?<=(a)\1)b", "within a look behind"),
        (r"(?<n>a)(?<n>b)\1", "a second group of one name"),
        (r"(?<=a", "not closed"),
    ],
)
def test_what_is_read_in_another_way_is_refused(source: str, named: str) -> None:
    """By name; what `re` or `regex` would make of it is not asked."""
    compiled = compile_schema({"pattern": source})
    assert compiled.refusal is not None
    assert compiled.refusal.code == "pattern-unsupported"
    with pytest.raises(automata.PatternError, match=re.escape(named)):
        search(source)


ENDLESS = "(?<!z)^(a|b|ab)*[cd]$"


def test_time_is_bounded() -> None:
    """A pattern that takes exponentially long is given up, for all matching of a value together."""
    assert search(ENDLESS)("abac")
    with pytest.raises(UndecidedError, match="too long"):
        search(ENDLESS)("ab" * 40)
    with matching_time(0), pytest.raises(UndecidedError):
        search(ENDLESS)("a")


def test_a_value_that_takes_too_long_is_not_valid() -> None:
    """It is told which pattern it was."""
    schema = {"type": "array", "items": {"anyOf": [{"pattern": ENDLESS}, {"type": "string"}]}}
    (error,) = validator(schema)(["ab" * 40] * 10)
    assert "can't be checked" in error
    assert ENDLESS in error


PARTS = st.sampled_from(
    [*("a", "b", "[ab]", "[^a]", ".", r"\w", r"\W", r"\b", "^", "$", "(a|b)", "(?:ab?)*", "(?=b)")]
)


@given(st.lists(PARTS, min_size=1, max_size=5), st.text("ab\n-", max_size=6))
def test_the_translation_finds_what_the_automaton_finds(parts: list[str], text: str) -> None:
    """Of patterns that both can say."""
    source = "".join(parts)
    expected = automata.pattern(source).accepts_text(text)
    assert search(f"(?<!~~~){source}")(text) == expected
