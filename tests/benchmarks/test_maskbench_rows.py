"""Every real schema at hand, and the official suite: nothing wrong passes, nothing right fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer

from benchmarks.maskbench import figures, vocabulary
from benchmarks.maskbench.judge import judge
from benchmarks.maskbench.rows import read_rows, read_suite
from benchmarks.maskbench.systems import Ours

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.maskbench.rows import Row
    from benchmarks.maskbench.systems import Vocabulary

pytestmark = [pytest.mark.slow, pytest.mark.shared_data, pytest.mark.model]
FUNCTION_CALLS = ("Glaiveai2K", "BFCL", "MCPspec")
"""Sets of tools' own schemas."""
COMPILED_SHARE = 0.95


@pytest.fixture(scope="module")
def tokens(smollm2_gguf: Path) -> Vocabulary:
    """Return the embedded model's vocabulary."""
    return vocabulary.choose(smollm2_gguf)


def judged(rows: Sequence[Row], tokens: Vocabulary, *, assert_formats: bool) -> figures.Figures:
    """Put every row through compiler, tables and machine, token by token."""
    ours = Ours(tokens, assert_formats=assert_formats)
    tokenizer = Tokenizer.from_str(tokens.tokenizer)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return figures.summed((row, judge(ours, row.schema, row.tests, encode)) for row in rows)


def test_real_schemas_with_their_instances(shared_data: Path, tokens: Vocabulary) -> None:
    """Valid instances pass and invalid ones don't; nearly every tool's schema compiles."""
    rows = read_rows(shared_data / "schemas" / "maskbench_dev.jsonl")
    found = judged(rows, tokens, assert_formats=True)
    assert found["all"]["ids"] == {"errors": [], "valid_refused": [], "invalid_accepted": []}
    # What the check after decoding takes back is only ever what the machine lets through.
    assert found["all"]["machine_alone"]["valid_refused"] == 0
    for name in FUNCTION_CALLS:
        one = found["sets"][name]
        assert one["compiled"] >= COMPILED_SHARE * one["rows"], (name, one["refusals"])


def test_the_official_suite(shared_data: Path, tokens: Vocabulary) -> None:
    """Each group of tests whose schema compiles, formats being annotations there."""
    rows = read_suite(shared_data / "schemas" / "json_schema_test_suite_2020_12.json")
    found = judged(rows, tokens, assert_formats=False)
    assert found["all"]["ids"] == {"errors": [], "valid_refused": [], "invalid_accepted": []}
    assert found["all"]["machine_alone"]["valid_refused"] == 0
    # What is left out has a reason of its own: nothing is fetched, and some admit no value.
    assert set(found["all"]["refusals"]) <= {
        "arguments-impossible", "dialect-unknown", "ref-dynamic", "ref-remote",
    }  # fmt: skip
    assert found["all"]["compiled"] >= 0.85 * found["all"]["rows"]
