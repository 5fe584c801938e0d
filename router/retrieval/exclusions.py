"""What a description says that its tool is *not* for.

Owns the splitting of a description into what speaks for the tool and what speaks against it. A
bag of words takes "do not use for local files" for a reason to use the tool on local files. English
only; a sentence that is not understood speaks for the tool, as every other.
"""

from __future__ import annotations

import re

_SENTENCE: re.Pattern[str] = re.compile(r"(?<=[.!?;。！？])\s+|\n+")
_USE = r"(?:use|used|call|called|invoke|invoked|choose|select)\b"
_REFUSES: re.Pattern[str] = re.compile(
    rf"\b(?:(?:do|does|should|must|may) not|don['’]t|shouldn['’]t|never|cannot|can['’]t)\s+"
    rf"(?:be\s+)?{_USE}"
    r"|\bnot\s+(?:(?:intended|meant|suitable|suited|designed|to be used)\s+)?for\b"
    rf"|\bnot\s+(?:to\s+be\s+)?{_USE}\s+(?:for|to|when|if|with|in)\b",
    re.IGNORECASE,
)
"""From here to the end of its sentence the tool is refused."""
_SENDS_ON: re.Pattern[str] = re.compile(
    r"\b(?:use|call|try|prefer|see|consider(?:\s+using)?)\s+\S+(?:\s+\S+){0,3}\s+instead\b(?!\s+of)"
    r"|\binstead,?\s+(?:use|call|try|prefer|see|consider)\b",
    re.IGNORECASE,
)
"""A sentence that sends its case to another tool."""


def split_exclusions(description: str) -> tuple[str, str]:
    """Return what a description says for its tool, and what it says against its use."""
    if not (_REFUSES.search(description) or _SENDS_ON.search(description)):
        return description, ""
    speaks_for, against = [], []
    for sentence in _SENTENCE.split(description):
        if _SENDS_ON.search(sentence):
            against.append(sentence)
            continue
        refused = _REFUSES.search(sentence)
        if refused is None:
            speaks_for.append(sentence)
        else:
            speaks_for.append(sentence[: refused.start()])
            against.append(sentence[refused.start() :])
    return " ".join(speaks_for), " ".join(against)
