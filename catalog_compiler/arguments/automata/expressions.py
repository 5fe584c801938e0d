"""Regular expressions with intersection, complement and recursion.

Owns an arena of interned expressions, so that equal ones are one number and nothing is worked out
twice. Never reads a pattern and never derives (`derivatives` does).

Source: S. Owens, J. Reppy, A. Turon, Regular-expression derivatives re-examined, JFP 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from catalog_compiler.arguments.automata import char_sets
from catalog_compiler.arguments.automata.char_sets import ALL, CharSet
from catalog_compiler.arguments.automata.errors import PatternError

if TYPE_CHECKING:
    from collections.abc import Iterable

Expr: TypeAlias = int
Key: TypeAlias = tuple[Any, ...]

CHARS, EMPTY, CAT, ALT, AND, NOT, LOOP, AGAIN = range(8)
"""What an expression is: the first entry of its key."""

MAX_EXPRESSIONS: Final = 100_000
"""An arena that would hold more is given up: the bound on the work that a pattern may take."""


class Expressions:
    """An arena of expressions.

    What refers back to itself (`again`) is only ever the last part of a concatenation, a part of
    an alternative or of an intersection.
    """

    def __init__(self) -> None:
        """Begin with nothing, the empty text, and every text."""
        self._keys: list[Key] = []
        self._known: dict[Key, Expr] = {}
        self._nullable: list[bool] = []
        self._open: list[bool] = []
        self._meanings: dict[Expr, Expr] = {}
        self.nothing = self.chars(())
        self.empty = self._make((EMPTY,), nullable=True)
        self.any_char = self.chars(ALL)
        self.any_text = self.loop(self.any_char, 0, None)

    def chars(self, chars: CharSet) -> Expr:
        """Return one character of the set."""
        return self._make((CHARS, chars), nullable=False)

    def text(self, text: str) -> Expr:
        """Return exactly the text."""
        return self.cat(*(self.chars(char_sets.of_text(c)) for c in text))

    def cat(self, *parts: Expr) -> Expr:
        """Return the parts one after the other."""
        result = self.empty
        for part in reversed(parts):
            result = self.cat2(part, result)
        return result

    def cat2(self, left: Expr, right: Expr) -> Expr:
        """Return two parts one after the other."""
        if left == self.empty:
            return right
        if self.nothing in (left, right):
            return self.nothing
        if right == self.empty:
            return left
        heads = []  # concatenations lean to the right, so that equal ones are one
        while self._keys[left][0] == CAT:
            _, head, left = self._keys[left]
            heads.append(head)
        result = self._cat_key(left, right)
        for head in reversed(heads):
            result = self._cat_key(head, result)
        return result

    def _cat_key(self, left: Expr, right: Expr) -> Expr:
        nullable = self._nullable[left] and self._nullable[right]
        return self._make((CAT, left, right), nullable=nullable, is_open=self._open[right])

    def alt(self, parts: Iterable[Expr]) -> Expr:
        """Return any of the parts."""
        chars: set[Expr] = set()
        found: set[Expr] = set()
        for part in self._flat(parts, ALT):
            (chars if self._keys[part][0] == CHARS else found).add(part)
        if self.any_text in found:
            return self.any_text
        chars.discard(self.nothing)
        if len(chars) > 1:
            found.add(self.chars(char_sets.union(*(self._keys[part][1] for part in chars))))
        else:
            found |= chars
        if self.empty in found and any(self._nullable[p] for p in found if p != self.empty):
            found.discard(self.empty)
        is_open = any(self._open[part] for part in found)
        if is_open:
            found = self._weakest(found)
        if len(found) < 2:
            return next(iter(found), self.nothing)
        nullable = any(self._nullable[part] for part in found)
        return self._make((ALT, *sorted(found)), nullable=nullable, is_open=is_open)

    def _weakest(self, found: set[Expr]) -> set[Expr]:
        """Leave out what asks for all that another part asks for, and more."""
        asked = {part: self._asked(part) for part in found}
        return {
            part
            for part in found
            if not any(asked[each] < asked[part] for each in found if each != part)
        }

    def _asked(self, part: Expr) -> frozenset[Expr]:
        key = self._keys[part]
        return frozenset(key[1:]) if key[0] == AND else frozenset((part,))

    def both(self, parts: Iterable[Expr]) -> Expr:
        """Return all of the parts at once."""
        found = set(self._flat(parts, AND))
        found.discard(self.any_text)
        if not found:
            return self.any_text
        if self.nothing in found:
            return self.nothing
        if self.empty in found:
            return self.empty if all(self._nullable[part] for part in found) else self.nothing
        if len(found) == 1:
            return found.pop()
        sets = [part for part in found if self._keys[part][0] == CHARS]
        if len(sets) > 1:
            joined: CharSet = ALL
            for part in sets:
                joined = char_sets.intersection(joined, self._keys[part][1])
            return self.both([*found.difference(sets), self.chars(joined)])
        is_open = any(self._open[part] for part in found)
        if is_open:
            # Alternatives of intersections: what comes again and again then adds nothing new, and
            # the derivatives stay finitely many.
            for part in sorted(found):
                if self._open[part] and self._keys[part][0] == ALT:
                    others = found - {part}
                    return self.alt(self.both([each, *others]) for each in self._keys[part][1:])
        nullable = all(self._nullable[part] for part in found)
        return self._make((AND, *sorted(found)), nullable=nullable, is_open=is_open)

    def without(self, part: Expr) -> Expr:
        """Return every text but those of the part."""
        key = self._keys[part]
        if key[0] == NOT:
            return int(key[1])
        if part == self.nothing:
            return self.any_text
        if part == self.any_text:
            return self.nothing
        return self._make((NOT, part), nullable=not self._nullable[part])

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
            if key[0] == LOOP and key[2] in (0, 1) and key[3] is None:
                return self.loop(key[1], 0, None)
        return self._make((LOOP, part, low, high), nullable=low == 0)

    def again(self, *, nullable: bool) -> Expr:
        """Return a name that stands for what `define` will say.

        Args:
            nullable: whether it will accept the empty text.

        """
        return self._make((AGAIN, len(self._keys)), nullable=nullable, is_open=True)

    def define(self, name: Expr, rest: Expr, lap: Expr) -> None:
        """Let a name of `again` stand for a rest, or for a lap that leads back to the name.

        A lap without a character adds nothing and is left out.
        """
        self._meanings[name] = self.alt([rest, self._moving(lap, name)])

    def _moving(self, part: Expr, name: Expr) -> Expr:
        """Return the texts of a part in which a character comes before the name."""
        if part == name:
            return self.nothing
        if not self._open[part]:
            return part
        key = self._keys[part]
        if key[0] == ALT:
            return self.alt([self._moving(each, name) for each in key[1:]])
        if key[0] == AND:
            return self.both([self._moving(each, name) for each in key[1:]])
        if key[0] == AGAIN:
            # A name that has no meaning yet is one of a loop around this one: it stays.
            inner = self._meanings.get(part)
            return part if inner is None else self._moving(inner, name)
        _, left, right = key
        if not self._nullable[left]:
            return part
        some = self.both([left, self.loop(self.any_char, 1, None)])
        return self.alt([self.cat2(some, right), self._moving(right, name)])

    def key(self, part: Expr) -> Key:
        """Return what an expression is: its kind, then its parts."""
        return self._keys[part]

    def meaning(self, name: Expr) -> Expr:
        """Return what a name of `again` stands for."""
        return self._meanings[name]

    def nullable(self, part: Expr) -> bool:
        """Tell whether the empty text is one of its texts."""
        return self._nullable[part]

    def sets(self) -> list[CharSet]:
        """Return the sets of characters that occur anywhere."""
        return [key[1] for key in self._keys if key[0] == CHARS and key[1]]

    def _flat(self, parts: Iterable[Expr], kind: int) -> list[Expr]:
        found: list[Expr] = []
        for part in parts:
            key = self._keys[part]
            if key[0] == kind:
                found.extend(key[1:])
            else:
                found.append(part)
        return found

    def _make(self, key: Key, *, nullable: bool, is_open: bool = False) -> Expr:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._keys)
            if found >= MAX_EXPRESSIONS:
                raise PatternError("it would take too much work; say it with smaller counts")
            self._keys.append(key)
            self._nullable.append(nullable)
            self._open.append(is_open)
        return found
