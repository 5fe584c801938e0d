"""A pattern's automaton accepts the texts in which ECMA-262 finds the pattern, and no others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.automata import (
    PatternError,
    build,
    ecma,
    expressions,
    pattern,
    patterns,
    whole_pattern,
)
from catalog_compiler.arguments.automata.expressions import Expressions
from catalog_compiler.arguments.automata.patterns import _Translator
from catalog_compiler.arguments.automata.sizes import least_states
from tests.catalog_compiler.arguments.walks import check


@dataclass(frozen=True)
class Both:
    """One pattern in two dialects: ours, and Python's."""

    ours: str
    pythons: str


def same(source: str) -> Both:
    return Both(source, source)


ATOMS = st.sampled_from(
    [
        *map(same, ("a", "b", "1", "_", "é", ".", " ", r"\.", r"\-", r"\x61", r"\u00e9", r"\n")),
        *map(same, (r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a]", r"[^\w]", "[a-b1]")),
        *map(same, (r"[\d-]", "[-a]", r"[\s\S]", "^", r"\b", "[a.]", r"[^\n-é]")),
        Both("$", r"\Z"),
        Both(r"\B", r"(?!\b)"),  # Python's own knows none in an empty text
        Both("[^]", r"[\s\S]"),
        Both("[]", r"(?!)"),
        Both(r"\u{1F600}", "\U0001f600"),
        Both(r"\p{Lu}", "[AZ]"),
    ]
)
COUNTS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{1,3}?", "{0}")
TEXTS = st.text("ab1_é. -AZ\n\U0001f600", max_size=7)


def grouped(part: Both, count: str = "", opening: str = "(?:") -> Both:
    return Both(f"{opening}{part.ours}){count}", f"{opening}{part.pythons}){count}")


def joined(parts: list[Both], sign: str) -> Both:
    return Both(sign.join(p.ours for p in parts), sign.join(p.pythons for p in parts))


def larger(inner: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda parts: joined(parts, "")),
        several.map(lambda parts: grouped(joined(parts, "|"))),
        st.builds(grouped, inner, st.sampled_from(COUNTS)),
        st.builds(grouped, inner, opening=st.sampled_from(["(", "(?=", "(?!"])),
    )


PATTERNS = st.recursive(ATOMS, larger, max_leaves=8)


@settings(max_examples=400)
@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=12))
def test_finds_what_pythons_re_finds(source: Both, texts: list[str]):
    """Where the two dialects say the same, both find the same; groups and looks nest freely."""
    expected = re.compile(source.pythons, re.ASCII)
    found = pattern(source.ours)
    check(found)
    for text in texts:
        assert found.accepts_text(text) == (expected.search(text) is not None), text


@settings(max_examples=150)
@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=12))
def test_whole_matches_are_pythons_full_matches(source: Both, texts: list[str]):
    """A whole pattern reaches from the start to the end."""
    expected = re.compile(source.pythons, re.ASCII)
    found = whole_pattern(source.ours)
    check(found)
    for text in texts:
        assert found.accepts_text(text) == (expected.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("source", "accepted", "refused"),
    [
        ("", ["", "x"], []),
        ("a", ["a", "xay"], ["", "b"]),
        ("^a$", ["a"], ["a\n", "aa", "xa"]),
        ("^dev|beta|rc$", ["device", "a beta x", "src"], ["xdev", "rc1"]),
        ("^.$", ["é", "\U0001f600", "\t"], ["", "\n", "\r", "\u2028", "\u2029", "ab"]),
        (r"^\s$", ["\u00a0", "\ufeff", "\u3000", "\v"], ["\u0085", "\u200b", "\x1c"]),
        (r"^\w$", ["_", "Z", "0"], ["é", "٣", "-"]),
        (r"^\d$", ["0", "9"], ["٣", "a"]),
        (r"^\p{L}$", ["é", "Ж", "a"], ["1", "_", "\U0001f600"]),
        (r"^\p{Letter}$", ["é"], ["1"]),
        (r"^\p{Lu}\p{gc=Nd}\P{L}$", ["É٣-"], ["é٣-", "É٣x"]),
        (r"^[\p{Lu}_]$", ["É", "_"], ["é"]),
        (r"^\cJ\x41\u0042\u{43}\0$", ["\nABC\0"], ["JABC"]),
        (r"^\ud83d\ude00$", ["\U0001f600"], ["\ud83d"]),
        (r"^[\u{1F600}-\u{1F602}]$", ["\U0001f601"], ["\U0001f603"]),
        (r"^[^\ud800-\udfff]$", ["a", "\uffff"], [""]),
        (r"^[\ud800-\udbff]$", [], ["-", "\ud800", "a"]),
        (r"^\@\/\_\-\#\ \:$", ["@/_-# :"], []),
        (r"^[\w-.]$", ["-", ".", "a"], [",", "/"]),
        (r"^[a-zA-Z0-9-_.]+$", ["a-b_c."], ["a b"]),
        (r"^[\b]$", ["\b"], ["b"]),
        ("^[]$|^[^]$", ["\n", "x"], ["", "xx"]),
        ("^a{,b}c{x$", ["a{,b}c{x"], ["ac"]),
        ("^(?<year>[0-9]{4})(?P<z>Z)?$", ["2024", "2024Z"], ["24"]),
        ("^(?=.*[A-Z])(?=.*[0-9]).{2,3}$", ["A1", "1xA"], ["A", "ab", "A1xx"]),
        ("^(?!@@)[@a]+$", ["@a", "a@@"], ["@@a", ""]),
        ("^((?!foo).)*$", ["", "fo", "of", "bar"], ["foo", "xfoox"]),
        ("^(?:(?!--)[a-z-])+$", ["a-b", "-"], ["a--b", ""]),
        ("^(?:(?!.*b$)a)*(?:b|c)$", ["aac", "b", "c"], ["aab", "ab"]),
        (r"\bfoo\b", ["foo", "a foo-b"], ["food", "_foo"]),
        (r"^(?:\b\w+\b ?)+$", ["foo bar"], ["foo  bar", " "]),
        ("^(?:(?=a)b?)*$", [""], ["b", "a"]),
        ("(?:^|,)a(?:,|$)", ["a", "b,a", "a,b"], ["ba", "ab"]),
        ("a$b|^$", [""], ["ab", "a"]),
        ("^(?:^a|b)+$", ["a", "ab", "bb"], ["aa", "ba"]),
    ],
)
def test_says_what_the_standard_says(source: str, accepted: list[str], refused: list[str]):
    """Right values, one pattern a line."""
    found = pattern(source)
    check(found)
    assert [text for text in accepted if not found.accepts_text(text)] == []
    assert [text for text in refused if found.accepts_text(text)] == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (r"(a)\1", r"a back reference.* at character 4 "),
        (r"(?<x>a)\k<x>", "a back reference"),
        ("(?<=a)b", "a look behind.* at character 1 "),
        ("(?<!a)b", "a look behind"),
        ("(?i)a", "a group of an unknown kind"),
        ("(?P=x)", "a group of an unknown kind"),
        ("(a", "a group that is not closed"),
        ("a)", "an unmatched"),
        ("[a", "a set of characters that is not closed"),
        ("[z-a]", "a range whose end is below its start"),
        ("a{3,2}", "a count whose end is below its start"),
        ("a{,2}", "a count without its start; say {0,n}"),
        ("a{200000}", "a count above"),
        ("*a", "a count of nothing"),
        ("a++", "a count of a count"),
        ("^*", "a count after an anchor"),
        ("a\\", "a backslash at the end"),
        (r"\Aa", r"does not know .*A; say \^"),
        (r"a\Z", r"does not know .*Z; say \$"),
        (r"\a", "does not know"),
        (r"\xg1", "does not know"),
        (r"\uD8zz\uDCzz", "does not know"),
        (r"\u{110000}", r"beyond U\+10FFFF"),
        (r"\01", "does not know"),
        (r"\p{Script=Greek}", "a character property that is not known"),
        (r"\p{Klingon}", r"not known \(Klingon\)"),
        (r"\pL", r"not known \(malformed\)"),
        ("^.{1,5000}$", "more than 4000 states"),
        ("(?:(?=a)a){1,101}", "repeated more than 100 times"),
        ("(" * 101 + ")" * 101, "nested more than 100 deep"),
        ("a" * 10_001, "has 10001 characters"),
    ],
)
def test_refuses_by_name(source: str, what: str):
    """What can't be said is refused with what it is and where."""
    with pytest.raises(PatternError, match=what):
        pattern(source)


@pytest.mark.parametrize(
    ("source", "states"),
    [
        ("[a-z0-9]{0,255}", 1),
        ("^[a-z0-9]{0,255}$", 256),
        ("^.{1,2000}$", 2_001),
        (r"^(?:\S+\s+){0,99}\S+$", 200),
        ("^(a|aa){1,200}$", 401),
        ("^(?:[a-z]{0,60}){0,60}$", 3_601),
        ("^(?!.*foo).*bar$", 6),
        ("a{3000}", 3_001),
        ("^a{3999}$", 4_000),
        (".*a.{20}", 22),
        ("(?:ab|a){0,3999}b{3}", 4),
        ("(?:(?:a{0,50}b?){0,50}c?){0,50}d", 2),
        ("^(?:(?:a{2,3}){0,4}){5,9}$", 109),
        ("^(?:a{3}){2}a{1,2}(?:a{0,2})*$", 8),
        ("(?=.*x)a{500}", 502),
    ],
)
def test_large_counts_take_no_more_states_than_they_must(source: str, states: int):
    """The automata are the minimal ones."""
    assert len(pattern(source).table) == states


def nested(count: int, times: int) -> str:
    source = "a"
    for _ in range(times):
        source = f"({source}){{{count}}}"
    return source


@pytest.mark.parametrize(
    "source",
    [
        "a{100000}",
        "^[a-z]{5000}$",
        "(a{1000}){1000}",
        "^(?:a{1000}){1000}",
        nested(10, 5),
        "^(?:a|aa){1,2000}$",
        "^(?:[a-z]{0,60}){0,70}$",
        "(?:a{20}|a{21}){300}b?",
        "^.{2000}x.{0,2000}$",
    ],
)
def test_what_is_too_large_is_refused_before_it_is_built(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shortest text, or the longest, tells how many states there must be."""
    monkeypatch.setattr(build, "Derivatives", None)
    with pytest.raises(PatternError, match="more than 4000 states"):
        pattern(source)


@pytest.mark.parametrize(
    "source", ["a{4000}[]", "$a{5000}", "^(?:(?!)a{100000})?$", "(?=b)^a{9000}$"]
)
def test_what_is_impossible_is_not_too_large(source: str) -> None:
    """No text is no automaton at all, however long it would be."""
    assert len(pattern(source).table) <= 1


@given(PATTERNS)
def test_no_automaton_has_fewer_states_than_are_foretold(source: Both) -> None:
    """The bound is never too high."""
    arena = Expressions()
    found = _Translator(arena).found(ecma.parse(source.ours))
    assert least_states(arena, found) <= max(len(build.automaton_of(arena, found).table), 1)


def test_a_refusal_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have taken as long as an automaton."""
    tried = []
    monkeypatch.setattr(
        patterns,
        "automaton_of",
        lambda arena, _: (tried.append(arena), build.automaton_of(arena, _)),
    )
    for _ in range(2):
        with pytest.raises(PatternError, match="more than 4000 states"):
            pattern("^(?:x[ab]*a[ab]{13})$")
    assert len(tried) == 1


def test_anchors_unrolled_again_and_again_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on the work, whatever the automaton would be."""
    monkeypatch.setattr(expressions, "MAX_STEPS", 100_000)
    with pytest.raises(PatternError, match="too much work"):
        pattern(r"(?:(?:(?:(?:[a-z]|\b|\b)){10,30}){10,30})*")


@given(st.text(r"ab\(){}[]|*+?^$.,-!=<:dwspuxcPDk0129", max_size=12))
def test_any_text_is_an_automaton_or_refused_by_name(source: str):
    """No pattern, however broken, ends in anything but an automaton or a PatternError."""
    try:
        found = pattern(source)
    except PatternError:
        return
    check(found)


def test_equal_languages_are_equal_values():
    """However it is spelt, a language has one automaton."""
    assert pattern("^(?:a|b)$") == pattern("^[ab]$") == automata.literals(["b", "a"])
    assert pattern("") == pattern(".*") == pattern("a*") == automata.any_string()
    assert pattern("^(?:ab)*$") == pattern("^$|^ab(?:ab)*$")
    assert pattern(r"^\0") == pattern(r"^[\u0000]")
    assert pattern("^(?:a{2,3}){2}$") == pattern("^a{4,6}$") == pattern("^a{3}a?a{0,1}a$")
    assert pattern("^(?:a{3}){1,2}$") == pattern("^(?:aaa|aaaaaa)$")
    assert pattern("^(?:a{3,})*$") == pattern("^$|^aaa+$")
    assert pattern("^((?!b).)*$") == pattern(r"^(?:(?!b)(?!b).)*?$")
