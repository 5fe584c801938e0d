"""Text to words and words to terms, the same for requests and for tools.

Owns the splitting of identifiers (``listOpenIssues``, ``list_open_issues``, ``list-open-issues``),
the light English stemmer and the clipping of over-long requests. Never weighs a term.
"""

from __future__ import annotations

import functools
import re
import unicodedata

MAX_REQUEST_CHARS = 4_000
"""Characters of a request that retrieval reads: the first three quarters of this from its start
and the rest from its end, where people put the question after what they pasted."""

_HEAD_CHARS = MAX_REQUEST_CHARS * 3 // 4

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[0-9]+|(?:(?![{_IDEOGRAPH}0-9])[^\W_])+")
_FULL_STOP = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n\s*\n")
_STOP_TEXT = (
    "a about also am an and any are as at be been being but by can could did do does for from had "
    "has have he hello hey hi i if in into is it its just let lets like looking may me might mine "
    "must my of on or our over she should some so thank thanks that the their them then there "
    "these they this those to trying us wanna want was we were which whom whose why will with "
    "would you your please"
)
_STOP_WORDS = frozenset(_STOP_TEXT.split())
"""Words that say nothing of a tool. In a catalog's terse descriptions they are rare, so that
without this list BM25 would take them for telling ones."""

_SPACE = re.compile(r"\s+")


def fold(text: str) -> str:
    """Normalise compatibility forms and drop combining marks: ``Café``, ``ﬁ`` → ``Cafe``, ``fi``.

    Case is kept, since it marks word borders in identifiers.
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in decomposed if unicodedata.category(c)[0] != "M")
    return unicodedata.normalize("NFC", bare)


def well_formed(text: str) -> str:
    """Replace lone surrogates, which no encoding carries, by question marks."""
    return text.encode(errors="replace").decode()


def split_words(text: str) -> list[str]:
    """Split a text or identifier into lower-case words, in order.

    Borders are everything but letters and digits, lower to upper case, the last of a run of
    capitals before a lower-case letter, and between letters and digits. An ideograph or kana is a
    word of its own, since those scripts write no borders.
    """
    return _WORD.findall(_CAMEL.sub(" ", fold(text)).casefold())


@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Strip the commonest English endings, so that ``listing``, ``lists`` and ``listed`` meet.

    Other scripts are left alone. Deliberately weak: a false merge costs more than a miss.
    """
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("sses"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ing") and len(word) > 5:
        word = word[:-3]
    elif word.endswith("ed") and len(word) > 4:
        word = word[:-2]
    if word.endswith("ion") and len(word) > 4:
        word = word[:-3]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    return word


def terms_of(text: str) -> list[str]:
    """Return the stems of a text's telling words, in order, with repeats."""
    return [stem(word) for word in split_words(text) if word not in _STOP_WORDS]


def clip_request(text: str) -> str:
    """Return the part of a request that retrieval reads (see `MAX_REQUEST_CHARS`)."""
    if len(text) <= MAX_REQUEST_CHARS:
        return text
    return text[:_HEAD_CHARS] + " " + text[len(text) - (MAX_REQUEST_CHARS - _HEAD_CHARS) :]


def clip_at_word(text: str, max_chars: int) -> str:
    """Squeeze white space and cut to at most `max_chars` characters, at a word border if any."""
    squeezed = _SPACE.sub(" ", text[: max_chars * 4]).strip()
    if len(squeezed) <= max_chars:
        return squeezed
    head = squeezed[: max_chars + 1]
    border = head.rfind(" ")
    return (head[:border] if border > max_chars // 2 else head[:max_chars]).rstrip()


def first_sentence(text: str, max_chars: int) -> str:
    """Return the text up to the first full stop after at least three words, clipped."""
    text = text[: max_chars * 4].strip()
    for stop in _FULL_STOP.finditer(text):
        head = text[: stop.start()]
        if len(head.split()) >= 3 or (head and not head.isascii()):
            return clip_at_word(head, max_chars)
    return clip_at_word(text, max_chars)
