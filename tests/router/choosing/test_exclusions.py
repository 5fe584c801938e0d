"""What a description says against its tool, told from what it says for it."""

from __future__ import annotations

import pytest

from router.retrieval.exclusions import split_exclusions
from router.retrieval.lexical import LexicalConfig, build_lexical_index

from .conftest import make_tool


@pytest.mark.parametrize(
    ("description", "spoken_for", "against"),
    [
        ("Boil water.", "Boil water.", ""),
        (
            "Boil water. Do not use this tool for milk! Beeps when done.",
            "Boil water.  Beeps when done.",
            "Do not use this tool for milk!",
        ),
        ("Boil water, not for milk.", "Boil water, ", "not for milk."),
        ("Boils. NOT to be used with oil.", "Boils. ", "NOT to be used with oil."),
        ("Never call it at night; it beeps.", " it beeps.", "Never call it at night;"),
        ("Boils.\nFor milk, use milk_pan instead.", "Boils.", "For milk, use milk_pan instead."),
        (
            "Boils. If it is milk, don't use this, instead use milk_pan.",
            "Boils.",
            "If it is milk, don't use this, instead use milk_pan.",
        ),
        # What only sounds like it.
        ("Use this instead of the stove.", "Use this instead of the stove.", ""),
        ("Do not forget the lid.", "Do not forget the lid.", ""),
        ("Tells whether or not the kettle is on.", "Tells whether or not the kettle is on.", ""),
        ("", "", ""),
    ],
)
def test_what_speaks_against_a_tool_is_told_apart(description: str, spoken_for: str, against: str):
    """Sentence by sentence, and within one from where it turns."""
    assert split_exclusions(description) == (spoken_for, against)


def test_an_exclusion_is_no_reason_to_choose_the_tool():
    """The words of what a tool is not for count against it, and less than for their own tool."""
    tools = (
        make_tool("kettle", "Heats water. Do not use it for milk."),
        make_tool("pan", "Heats milk in a pan."),
        make_tool("lamp", "Lights a room."),
    )
    kettle, pan, lamp = build_lexical_index(tools).score("warm some milk").tolist()
    assert kettle < 0 == lamp < pan
    assert -kettle < pan
    ignored = build_lexical_index(tools, LexicalConfig(exclusion_weight=0)).score("warm some milk")
    assert ignored[0] == 0


def test_a_word_on_both_sides_speaks_for_the_tool():
    """A pan that "heats milk, not for sour milk" is still about milk."""
    tools = (
        make_tool("pan", "Heats milk. Not for sour milk."),
        make_tool("lamp", "Lights a room."),
    )
    index = build_lexical_index(tools)
    assert index.score("milk")[0] > 0
    assert index.score("sour")[0] < 0


def test_a_weight_below_nothing_is_refused():
    """Then exclusions would speak for the tool."""
    with pytest.raises(ValueError, match="weights must be >= 0"):
        LexicalConfig(exclusion_weight=-0.1)
