"""Pairs of tools that requests can hardly tell apart."""

from __future__ import annotations

from router.confusion import confusion_findings
from router.retrieval.confusable import BLOCK_ROWS, confusable_pairs
from tests.router.choosing.conftest import WordEmbedder, make_tool

PUMP = "Turns on the pump of the garden pond."
TOOLS = (
    make_tool(
        "alpha_pump",
        PUMP,
        input_schema={"type": "object", "properties": {"litres": {}, "pond": {}}},
    ),
    make_tool("read_book", "Reads a book aloud."),
    make_tool("beta_pump", PUMP + " Between sunrise and sunset."),
    make_tool("boil_soup", "Heats soup in a pot."),
)


def test_the_pairs_that_are_alike_are_listed() -> None:
    """With the words that only the one or the other has, its own name's and parameters' too."""
    ((pair,), there_are) = confusable_pairs(TOOLS, WordEmbedder())
    assert there_are == 1
    assert (pair.first, pair.second) == (0, 2)
    assert 0.75 <= pair.likeness < 1
    assert pair.first_words == ("alpha", "litres")
    assert pair.second_words == ("beta", "between", "sunrise", "sunset")


def test_the_most_alike_come_first_and_the_rest_is_counted() -> None:
    """Two that are the same in all their words have none that tells them apart."""
    tools = (*TOOLS, make_tool("pump_alpha", PUMP))
    pairs, there_are = confusable_pairs(tools, WordEmbedder(), at_most=1)
    assert there_are == 3
    assert (pairs[0].first, pairs[0].second, pairs[0].second_words) == (0, 4, ())
    assert round(pairs[0].likeness, 3) == 1
    told = confusion_findings(tools[:1] + tools[4:], WordEmbedder())
    assert "only 'alpha_pump' says litres" in told[0].message
    twins = (make_tool("a b", PUMP), make_tool("b_a", PUMP))
    assert (
        "no word of either tells them apart" in confusion_findings(twins, WordEmbedder())[0].message
    )


def test_pairs_are_found_across_blocks() -> None:
    """Tools far apart in the catalog are compared too, each pair once."""
    apart = [make_tool(f"tool{number}", f"Does thing{number}.") for number in range(BLOCK_ROWS + 9)]
    tools = [make_tool("first_pump", PUMP), *apart, make_tool("last_pump", PUMP)]
    pairs, there_are = confusable_pairs(tools, WordEmbedder(200))
    assert [(pair.first, pair.second) for pair in pairs] == [(0, len(tools) - 1)]
    assert there_are == 1


def test_an_empty_catalog_has_none() -> None:
    """Nor has one of a single tool."""
    assert confusable_pairs((), WordEmbedder()) == ([], 0)
    assert confusion_findings(TOOLS[:1], WordEmbedder()) == ()


def test_a_finding_names_both_tools() -> None:
    """By place, and with what tells them apart."""
    (found,) = confusion_findings(TOOLS, WordEmbedder())
    assert (found.code, found.tool, found.related) == (
        "hard-to-tell-apart",
        "alpha_pump",
        ("beta_pump",),
    )
    assert "only 'beta_pump' says beta, between, sunrise, sunset" in found.message
