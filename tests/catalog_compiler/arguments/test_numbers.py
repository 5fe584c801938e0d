"""A number's automaton accepts the texts whose decimal value keeps the bounds, exactly."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.automata import PatternError, number
from tests.catalog_compiler.arguments.walks import check

BOUNDS = st.one_of(
    st.none(),
    st.integers(-1200, 1200).map(Decimal),
    st.decimals(-130, 130, places=2),
    st.decimals(-2, 2, places=4),
    st.sampled_from(["0", "-0", "1.50", "1E+3", "-9.99E-2", "0.010"]).map(Decimal),
)
DIVISORS = st.one_of(
    st.none(),
    st.sampled_from(["0.01", "0.5", "2.5", "7", "0.3", "1.25", "16", "100", "1E+2", "86400"]).map(
        Decimal
    ),
    st.integers(1, 60).map(Decimal),
)
WHOLES = st.one_of(st.integers(0, 12), st.integers(0, 1300), st.sampled_from([86400, 172800]))
FRACTIONS = st.from_regex(r"(\.[0-9]{1,5})?", fullmatch=True)


@st.composite
def number_texts(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["", "-"])) + str(draw(WHOLES)) + draw(FRACTIONS)


def multiple(value: Decimal, divisor: Decimal) -> bool:
    with decimal.localcontext(prec=100):
        return value % divisor == 0


@settings(max_examples=300)
@given(
    BOUNDS, BOUNDS, BOUNDS, BOUNDS, DIVISORS, st.booleans(),
    st.lists(number_texts(), min_size=1, max_size=20), st.lists(st.integers(-30, 30), max_size=2),
)  # fmt: skip
def test_keeps_the_bounds_of_decimals(
    minimum: Decimal | None,
    above: Decimal | None,
    maximum: Decimal | None,
    below: Decimal | None,
    divisor: Decimal | None,
    integer: bool,
    texts: list[str],
    excluded: list[int],
):
    """Every text is accepted exactly where its value keeps everything that was asked."""
    found = number(
        minimum, above, maximum, below, divisor,
        integer=integer, exclude=tuple(map(Decimal, excluded)),
    )  # fmt: skip
    check(found)
    for bound in (minimum, above, maximum, below):  # texts at the bounds, in two spellings
        if bound is not None:
            texts = [*texts, f"{bound:f}", f"{bound:f}{'0' if '.' in f'{bound:f}' else '.0'}"]
    for text in texts:
        value = Decimal(text)
        expected = (
            (minimum is None or value >= minimum)
            and (above is None or value > above)
            and (maximum is None or value <= maximum)
            and (below is None or value < below)
            and (divisor is None or multiple(value, divisor))
            and (not integer or "." not in text)
            and value not in excluded
        )
        assert found.accepts_text(text) == expected, text


@given(BOUNDS, BOUNDS, DIVISORS, st.booleans(), st.text("-+.0123456789eE ", max_size=6))
def test_accepts_nothing_but_json_numbers(
    minimum: Decimal | None,
    maximum: Decimal | None,
    divisor: Decimal | None,
    integer: bool,
    text: str,
):
    """Whatever is asked, what is accepted is a number as JSON spells it."""
    found = number(minimum, None, maximum, None, divisor, integer=integer)
    if found.accepts_text(text):
        assert automata.whole_pattern(
            r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
        ).accepts_text(text)


@pytest.mark.parametrize(
    ("asked", "accepted", "refused"),
    [
        ({}, "0 -0 1.50 1e308 -2.5E-3 1E+07 12", "01 +1 .5 1. 1e - 1e309 "),
        ({"integer": True}, "0 -0 12 -7", "1.0 1e2 00"),
        ({"minimum": "0"}, "0 -0 0.00 -0.0 7.25", "-0.01 -1 1e2"),
        ({"exclusive_minimum": "0"}, "0.001 1", "0 -0 0.000 -1"),
        ({"exclusive_maximum": "0"}, "-0.001 -10", "0 -0 1"),
        ({"minimum": "-1.5", "maximum": "1.5"}, "-1.5 1.50 -1.500 0", "1.501 -1.51 2"),
        ({"minimum": "1.5", "maximum": "1.5"}, "1.5 1.500", "1.4 1.51 1"),
        ({"multiple_of": "0.01"}, "0.01 19.99 5 1.10 1.1000 -3", "0.001 1.005"),
        ({"multiple_of": "2.5"}, "0 2.5 5 7.50 -10", "1 2 0.5"),
        ({"multiple_of": "2.5", "integer": True}, "0 5 -10", "2.5 3"),
        ({"multiple_of": "10000"}, "0 10000 990000", "1000 10001"),
        ({"multiple_of": "4096"}, "0 4096 -8192.0 1048576", "4095 2048 4096.5"),
        ({"multiple_of": "1E-8"}, "0.00000001 1", "0.000000001"),
        (
            {"minimum": str(-(2**63)), "maximum": str(2**63 - 1), "integer": True},
            "9223372036854775807 -9223372036854775808 0",
            "9223372036854775808 -9223372036854775809",
        ),
        (
            {"maximum": "12345678901234567890123456789012345.5"},
            "12345678901234567890123456789012345.5",
            "12345678901234567890123456789012345.51 12345678901234567890123456789012346",
        ),
        (
            {"exclusive_minimum": "-12345678901234567890123456789012345"},
            "-12345678901234567890123456789012344.9",
            "-12345678901234567890123456789012345",
        ),
    ],
)
def test_right_values(asked: dict[str, str | bool], accepted: str, refused: str):
    """Right values; bounds of more digits than a context's precision are not rounded."""
    values = {
        name: value if isinstance(value, bool) else Decimal(value) for name, value in asked.items()
    }
    found = number(**values)  # type: ignore[arg-type]
    check(found)
    assert [text for text in accepted.split() if not found.accepts_text(text)] == []
    assert [text for text in refused.split(" ") if found.accepts_text(text)] == []


def test_the_widest_doubles_are_bounds():
    """A bound of 309 digits is one as any other."""
    widest = Decimal("1.7976931348623157e308")
    found = number(minimum=widest.copy_negate(), maximum=widest)
    whole = f"{widest:f}"
    assert found.accepts_text(whole)
    assert found.accepts_text("-" + whole + ".0")
    assert not found.accepts_text(whole + "0")
    assert not found.accepts_text(whole[:-1] + "1")
    assert found.accepts_text("0." + "0" * 400 + "1")


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"minimum": Decimal("1e401")}, "more than 400 digits"),
        ({"minimum": Decimal("1e-401")}, "more than 400 digits"),
        ({"maximum": Decimal("NaN")}, "is no number"),
        ({"maximum": Decimal("Infinity")}, "is no number"),
        ({"multiple_of": Decimal(0)}, "not above 0"),
        ({"multiple_of": Decimal(-2)}, "not above 0"),
        ({"multiple_of": Decimal("NaN")}, "not above 0"),
        ({"multiple_of": Decimal(10**9 + 7)}, "takes more than 2000 states"),
        ({"multiple_of": Decimal(2**16)}, r"more than 2000 states \(65536\)"),
        ({"multiple_of": Decimal(2**100)}, "takes more than 2000 states"),
        ({"multiple_of": Decimal("1e60")}, "more than 50 digits"),
    ],
)
def test_refuses_by_name(asked: dict[str, Decimal], what: str):
    """What takes too much is refused with what it is."""
    with pytest.raises(PatternError, match=what):
        number(**asked)  # type: ignore[arg-type]


def test_a_zero_of_any_scale_is_zero():
    """The exponent of a zero says nothing and costs nothing."""
    assert number(minimum=Decimal("0E-999999")) == number(minimum=Decimal(0))
    assert number(minimum=Decimal("0E+999999")) == number(minimum=Decimal("-0"))


def test_nothing_is_between_crossed_bounds():
    """Bounds that contradict each other leave no text."""
    assert number(minimum=Decimal(2), maximum=Decimal(1)).empty
    assert number(exclusive_minimum=Decimal(1), maximum=Decimal(1)).empty
    assert number(minimum=Decimal(1), maximum=Decimal(1), exclude=(Decimal("1.0"),)).empty
