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
    from collections.abc import Iterable, Iterator

Expr: TypeAlias = int
Key: TypeAlias = tuple[Any, ...]
_Count: TypeAlias = tuple[int, int | None]
_Apart: TypeAlias = tuple[Expr, Expr, frozenset[Expr]]

CHARS, EMPTY, CAT, ALT, AND, NOT, LOOP, AGAIN = range(8)
"""What an expression is: the first entry of its key."""

MAX_EXPRESSIONS: Final = 100_000
"""An arena that would hold more is given up: the bound on the memory that a pattern may take."""
MAX_STEPS: Final = 8_000_000
"""Steps that the joining of alternatives and intersections may take: the bound on the time. A step
is a part that is looked at, about a microsecond at most."""
_JOIN_STEPS: Final = 6
"""Steps that each joining takes besides."""


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
        self._steps = 0
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
        shorter = self._shorter(left, right)
        if shorter is not None:
            return shorter
        nullable = self._nullable[left] and self._nullable[right]
        return self._make((CAT, left, right), nullable=nullable, is_open=self._open[right])

    def _shorter(self, left: Expr, right: Expr) -> Expr | None:
        """Return two parts one after the other where that is something simpler, else None."""
        own, key = self._keys[left], self._keys[right]
        head, rest = key[1:] if key[0] == CAT else (right, self.empty)
        # Beside any text, what may be empty adds nothing, nor does another of what is counted.
        if left == self.any_text and self._nullable[head]:
            return self.cat2(left, rest)
        if right == self.any_text:
            if self._nullable[left]:
                return right
            if own[0] == LOOP and own[2] != own[3]:
                return self.cat2(self.loop(own[1], own[2], own[2]), right)
        following = self._keys[head]
        if own[0] == LOOP and following[0] == LOOP and own[1] == following[1]:
            ends = None if None in (own[3], following[3]) else own[3] + following[3]
            return self.cat2(self.loop(own[1], own[2] + following[2], ends), rest)
        return None

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
        joined = self._with_joined_counts(found)
        if joined is not found:
            return self.alt(joined)
        is_open = any(self._open[part] for part in found)
        if is_open:
            found = self._weakest(found)
        if len(found) < 2:
            return next(iter(found), self.nothing)
        nullable = any(self._nullable[part] for part in found)
        return self._make((ALT, *sorted(found)), nullable=nullable, is_open=is_open)

    def _with_joined_counts(self, found: set[Expr]) -> set[Expr]:
        """Join what differs in how often it begins with the same part, and in nothing else."""
        alike: dict[_Apart, dict[Expr, _Count]] = {}
        for part in found:
            for apart, count in self._counts_of(part):
                alike.setdefault(apart, {})[part] = count
        for (inner, rest, others), each in alike.items():
            if len(each) == 1:
                continue
            counts = [count for part, count in each.items() if part in found]
            if rest == self.any_text:  # more of them are any text as well
                counts = [(low, None) for low, _ in counts]
            joined = _joined(counts)
            if len(joined) < len(counts):
                found = found.difference(each).union(
                    self.both([self.cat2(self.loop(inner, low, high), rest), *others])
                    for low, high in joined
                )
        return found

    def _counts_of(self, part: Expr) -> Iterator[tuple[_Apart, _Count]]:
        """Yield how often a part, or what it asks for besides others, begins with the same.

        Before the count: what is counted, what follows it, and what else is asked for.
        """
        key = self._keys[part]
        asked = key[1:] if key[0] == AND else (part,)
        for each in asked:
            own = self._keys[each]
            first, rest = own[1:] if own[0] == CAT else (each, self.empty)
            loop = self._keys[first]
            if loop[0] == LOOP:
                _, inner, low, high = loop
                yield (inner, rest, frozenset(asked) - {each}), (low, high)

    def _weakest(self, found: set[Expr]) -> set[Expr]:
        """Leave out what asks for all that another part asks for, and more."""
        asked = {part: self._asked(part) for part in found}
        by_last: dict[Expr, list[frozenset[Expr]]] = {}
        for each in asked.values():
            by_last.setdefault(max(each), []).append(each)
        return {
            part
            for part, own in asked.items()
            if not any(less < own for each in own for less in by_last.get(each, ()))
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
        key = self._keys[part]
        if key[0] == LOOP and _has_no_gap(key[2], key[3], low, high):
            last = None if None in (high, key[3]) else high * key[3]
            return self.loop(key[1], low * key[2], last)
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
        self._steps += _JOIN_STEPS + len(found)
        if self._steps > MAX_STEPS:
            raise _too_much()
        return found

    def _make(self, key: Key, *, nullable: bool, is_open: bool = False) -> Expr:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._keys)
            if found >= MAX_EXPRESSIONS:
                raise _too_much()
            self._keys.append(key)
            self._nullable.append(nullable)
            self._open.append(is_open)
        return found


def _too_much() -> PatternError:
    return PatternError("it would take too much work; say it with smaller counts")


def _has_no_gap(low: int, high: int | None, least: int, most: int | None) -> bool:
    """Tell whether `least` to `most` times `low` to `high` leave out no number in between."""
    if high is None:
        return least > 0 or low <= 1
    if least == most:
        return True
    # The gap, if any, is between the least laps and one more.
    return (least + 1) * low <= least * high + 1


def _joined(counts: list[_Count]) -> list[_Count]:
    """Return ranges that hold the same numbers, ascending, with gaps between them."""
    found: list[_Count] = []
    for low, high in sorted(counts, key=lambda each: each[0]):
        start, end = found[-1] if found else (0, -2)
        if end is None or low <= end + 1:
            found[-1] = (start, None if end is None or high is None else max(end, high))
        else:
            found.append((low, high))
    return found
