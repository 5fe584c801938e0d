"""The numbers a text speaks of."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.arguments.numerals import numbers_in

UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
TENS = {20: "twenty", 30: "thirty", 40: "forty", 70: "seventy", 90: "ninety"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two hundred and five apples", ["205"]),
        ("twenty-five or six", ["25", "6"]),
        ("5% of 3k", ["5", "0.05", "3", "3000"]),
        ("-2.5 and 1,234.5", ["-2.5", "1234.5"]),
        ("a hundred and twenty thousand", ["120000"]),
        ("one million two hundred thousand and one", ["1200001"]),
        ("five six", ["5", "6"]),
        ("zero", ["0"]),
        ("2024-05-01", ["2024", "5", "1"]),
        ("a dozen, a couple, half", ["12", "2", "0.5"]),
        ("3 million people", ["3", "3000000"]),
        ("twenty twenty", ["20", "20"]),
        ("on the third day", ["3"]),
        ("a cat and a dog", []),
        ("five and dime", ["5"]),
        ("room12", ["12"]),
    ],
)
def test_numbers_are_read(text: str, expected: list[str]) -> None:
    """Digits with their signs, separators and units; words alone and joined."""
    assert numbers_in(text) == [Decimal(number) for number in expected]


@given(st.integers(1, 999), st.sampled_from(["thousand", "million"]))
def test_digits_with_a_scale_give_both_readings(number: int, scale: str) -> None:
    """The number as it stands, and times its scale."""
    factor = {"thousand": 1_000, "million": 1_000_000}[scale]
    assert numbers_in(f"{number} {scale}") == [number, number * factor]


@given(st.sampled_from(sorted(TENS)), st.integers(1, 9), st.integers(1, 9))
def test_words_join_as_they_are_said(tens: int, unit: int, hundreds: int) -> None:
    """Hundreds, tens and units are one number."""
    words = UNITS.split()
    said = f"{words[hundreds]} hundred and {TENS[tens]}-{words[unit]}"
    assert numbers_in(said) == [100 * hundreds + tens + unit]


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    """Numbers come out, or none."""
    assert all(isinstance(number, Decimal) for number in numbers_in(text))
