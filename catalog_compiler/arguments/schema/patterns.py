"""Patterns that no automaton has: back references and what looks ahead or behind.

Owns their translation for `re`, which checks values after decoding. Never used where there is an
automaton.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments import automata

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE: Final = re.compile(r"\\k<|\\[\s\S]|\(\?<(?![=!])|[\s\S]")
_SPACE: Final = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_DOT: Final = r"[^\n\r\u2028\u2029]"


@lru_cache(maxsize=256)
def search(source: str) -> Callable[[str], bool]:
    """Return whether a pattern of ECMA-262 is found in a string.

    Raises:
        PatternError: neither an automaton nor `re` can tell.

    """
    try:
        return automata.pattern(source).accepts_text
    except automata.PatternError as unsupported:
        try:
            compiled = re.compile(_for_python(source), re.ASCII)
        except (re.error, RecursionError, OverflowError):
            raise unsupported from None
        return lambda text: compiled.search(text) is not None


def _for_python(source: str) -> str:
    """Return the pattern with what `re` reads in another way written out."""
    out: list[str] = []
    in_class = False
    for piece in _PIECE.findall(source):
        if piece == r"\s":
            out.append(_SPACE if in_class else f"[{_SPACE}]")
        elif piece == r"\S" and not in_class:
            out.append(f"[^{_SPACE}]")
        elif piece == r"\k<":
            # A reference by name ends in `>` there and in `)` here; nobody writes them.
            raise re.error("a reference by name")
        elif in_class or piece.startswith("\\"):
            in_class = in_class and piece != "]"
            out.append("\\[" if piece == "[" else piece)
        elif piece == "[":
            in_class = True
            out.append(piece)
        else:
            out.append({"$": r"\Z", ".": _DOT, "(?<": "(?P<"}.get(piece, piece))
    return "".join(out)
