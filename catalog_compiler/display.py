"""Untrusted text made safe and plain to look at.

Owns the spelling-out of characters that would move a cursor, turn the direction of writing, hide
themselves or break an encoding, and the clipping of long texts. Never escapes for HTML.
"""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\u200d\ufe0f")
"""Line breaks, and the joiner and selector that make up emoji."""


def visible(text: str, at_most: int | None = None) -> str:
    """Return text in which no character acts: controls, bidi marks and surrogates are spelt out.

    Args:
        text: anything.
        at_most: characters of `text` that are shown; what is cut off is counted.

    """
    rest = 0 if at_most is None else max(0, len(text) - at_most)
    shown = text[: len(text) - rest]
    if not (shown.isascii() and shown.isprintable()):
        shown = "".join(map(_spelt, shown))
    return f"{shown}… ({rest:,} more characters)" if rest else shown


def one_line(text: str, at_most: int) -> str:
    """Return the text on one line, runs of blanks as one, cut to `at_most` characters."""
    line = visible(" ".join(text[: at_most * 4 + 64].split()))
    return f"{line[: at_most - 1]}…" if len(line) > at_most else line


def _spelt(character: str) -> str:
    if character in _KEPT:
        return character
    if character == "\t":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"⟨U+{ord(character):04X}⟩"
    return character
