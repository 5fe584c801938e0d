"""Regular expressions with intersection and complement, and their derivatives.

Owns an arena of interned expressions, so that equal ones are one number and nothing is worked out
twice. Never reads a pattern and never minimises.

Source: S. Owens, J. Reppy, A. Turon, Regular-expression derivatives re-examined, JFP 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_compiler.arguments.automata import char_sets
from catalog_compiler.arguments.automata.char_sets import ALL, CharSet

if TYPE_CHECKING:
    from collections.abc import Iterable

Expr: TypeAlias = int
_Key: TypeAlias = tuple[Any, ...]

_CHARS, _CAT, _ALT, _AND, _NOT, _LOOP = "chars", "cat", "alt", "and", "not", "loop"


class Expressions:
    """An arena of expressions."""

    def __init__(self) -> None:
        """Begin with nothing, the empty text, and every text."""
        self._keys: list[_Key] = []
        self._known: dict[_Key, Expr] = {}
        self._nullable: list[bool] = []
        self._derivatives: dict[tuple[Expr, int], Expr] = {}
        self.nothing = self._make((_CHARS, ()), nullable=False)
        self.empty = self._make(("empty",), nullable=True)
        self.any_char = self.chars(ALL)
        self.any_text = self.loop(self.any_char, 0, None)

    def chars(self, chars: CharSet) -> Expr:
        """Return one character of the set."""
        return self._make((_CHARS, chars), nullable=False)

    def text(self, text: str) -> Expr:
        """Return exactly the text."""
        return self.cat(*(self.chars(char_sets.of_text(c)) for c in text))

    def cat(self, *parts: Expr) -> Expr:
        """Return the parts one after the other."""
        result = self.empty
        for part in reversed(parts):
            result = self._cat(part, result)
        return result

    def _cat(self, left: Expr, right: Expr) -> Expr:
        if self.nothing in (left, right):
            return self.nothing
        if right == self.empty:
            return left
        heads = []  # concatenations lean to the right, so that equal ones are one
        while self._keys[left][0] == _CAT:
            _, head, left = self._keys[left]
            heads.append(head)
        result = right if left == self.empty else self._cat_key(left, right)
        for head in reversed(heads):
            result = self._cat_key(head, result)
        return result

    def _cat_key(self, left: Expr, right: Expr) -> Expr:
        nullable = self._nullable[left] and self._nullable[right]
        return self._make((_CAT, left, right), nullable=nullable)

    def alt(self, parts: Iterable[Expr]) -> Expr:
        """Return any of the parts."""
        chars: list[CharSet] = []
        found: set[Expr] = set()
        for part in self._flat(parts, _ALT):
            key = self._keys[part]
            if key[0] == _CHARS:
                chars.append(key[1])
            else:
                found.add(part)
        if chars and (joined := char_sets.union(*chars)):
            found.add(self.chars(joined))
        if self.any_text in found:
            return self.any_text
        if self.empty in found and any(self._nullable[p] for p in found if p != self.empty):
            found.discard(self.empty)
        if len(found) < 2:
            return next(iter(found), self.nothing)
        nullable = any(self._nullable[part] for part in found)
        return self._make((_ALT, *sorted(found)), nullable=nullable)

    def both(self, parts: Iterable[Expr]) -> Expr:
        """Return all of the parts at once."""
        found = set(self._flat(parts, _AND))
        found.discard(self.any_text)
        if not found:
            return self.any_text
        if self.nothing in found:
            return self.nothing
        if self.empty in found:
            return self.empty if all(self._nullable[part] for part in found) else self.nothing
        sets = [part for part in found if self._keys[part][0] == _CHARS]
        if len(sets) > 1:
            joined: CharSet = ALL
            for part in sets:
                joined = char_sets.intersection(joined, self._keys[part][1])
            return self.both([*found.difference(sets), self.chars(joined)])
        if len(found) == 1:
            return found.pop()
        nullable = all(self._nullable[part] for part in found)
        return self._make((_AND, *sorted(found)), nullable=nullable)

    def without(self, part: Expr) -> Expr:
        """Return every text but those of the part."""
        kind, *inner = self._keys[part]
        if kind == _NOT:
            return int(inner[0])
        if part == self.nothing:
            return self.any_text
        if part == self.any_text:
            return self.nothing
        return self._make((_NOT, part), nullable=not self._nullable[part])

    def loop(self, part: Expr, low: int, high: int | None) -> Expr:
        """Repeat the part `low` to `high` times; None is without end."""
        if high == 0 or part == self.empty:
            return self.empty
        if part == self.nothing:
            return self.empty if low == 0 else self.nothing
        if self._nullable[part]:
            low = 0
        if (low, high) == (1, 1):
            return part
        if (low, high) == (0, None):
            key = self._keys[part]
            if key[0] == _LOOP and key[2] in (0, 1) and key[3] is None:
                return self.loop(key[1], 0, None)
        return self._make((_LOOP, part, low, high), nullable=low == 0)

    def nullable(self, part: Expr) -> bool:
        """Tell whether the empty text is one of its texts."""
        return self._nullable[part]

    def sets(self) -> list[CharSet]:
        """Return the sets of characters that occur anywhere."""
        return [key[1] for key in self._keys if key[0] == _CHARS and key[1]]

    def derivative(self, part: Expr, char: int) -> Expr:
        """Return what may follow a character: the texts t such that char + t is one of `part`."""
        memo = self._derivatives.get((part, char))
        if memo is None:
            memo = self._derivatives[part, char] = self._derive(part, char)
        return memo

    def _derive(self, part: Expr, char: int) -> Expr:
        match self._keys[part]:
            case ("chars", chars):
                inside = any(low <= char <= high for low, high in chars)
                return self.empty if inside else self.nothing
            case ("cat", *_):
                return self._derive_cat(part, char)
            case ("alt", *parts):
                return self.alt(self.derivative(each, char) for each in parts)
            case ("and", *parts):
                return self.both(self.derivative(each, char) for each in parts)
            case ("not", inner):
                return self.without(self.derivative(inner, char))
            case ("loop", inner, low, high):
                rest = self.loop(inner, max(low - 1, 0), None if high is None else high - 1)
                return self._cat(self.derivative(inner, char), rest)
        return self.nothing  # the empty text

    def _derive_cat(self, part: Expr, char: int) -> Expr:
        """Derive along a concatenation without recursion: patterns may have thousands of parts."""
        found = []
        while True:
            key = self._keys[part]
            if key[0] != _CAT:
                found.append(self.derivative(part, char))
                break
            _, left, right = key
            found.append(self._cat(self.derivative(left, char), right))
            if not self._nullable[left]:
                break
            part = right
        return self.alt(found)

    def _flat(self, parts: Iterable[Expr], kind: str) -> list[Expr]:
        found: list[Expr] = []
        for part in parts:
            key = self._keys[part]
            if key[0] == kind:
                found.extend(key[1:])
            else:
                found.append(part)
        return found

    def _make(self, key: _Key, *, nullable: bool) -> Expr:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._keys)
            self._keys.append(key)
            self._nullable.append(nullable)
        return found
