r"""ECMA-262 regular expressions (unicode mode) as a syntax tree.

Owns the syntax. As real schemas need, it is lenient where the standard's unicode mode is strict:
escapes of signs that need none, braces that are no count, Python's named groups. What another
dialect reads otherwise (``\Z``, ``a{,5}``, ``a++``) is refused by name, never guessed. Never
decides what a pattern accepts. Source: ECMA-262, 22.2.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata import char_sets
from catalog_compiler.arguments.automata.errors import PatternError
from catalog_compiler.arguments.automata.syntax import (
    BackReference,
    Chars,
    Choice,
    Edge,
    Group,
    Look,
    Repeat,
    Sequence,
    WordEdge,
)

if TYPE_CHECKING:
    from catalog_compiler.arguments.automata.char_sets import CharSet
    from catalog_compiler.arguments.automata.syntax import Syntax

MAX_PATTERN_CHARS: Final = 10_000
MAX_DEPTH: Final = 100
MAX_COUNT: Final = 100_000

DIGITS: Final = char_sets.of_ranges([(48, 57)])
WORD: Final = char_sets.of_ranges([(48, 57), (65, 90), (95, 95), (97, 122)])
SPACE: Final = char_sets.of_ranges(
    [
        *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
        (0xFEFF, 0xFEFF),
    ]
)
LINE_ENDS: Final = char_sets.of_text("\n\r\u2028\u2029")
_CLASSES: Final = {"d": DIGITS, "w": WORD, "s": SPACE}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_COUNT: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_COUNT_TO: Final = re.compile(r"\{,[0-9]+\}")
_GROUP_NAME: Final = re.compile(r"\?P?<([A-Za-z_$][\w$]*)>")
_REFERENCE: Final = re.compile(r"([1-9][0-9]*)|k<([A-Za-z_$][\w$]*)>")
_PROPERTY: Final = re.compile(r"\{(?:(?:General_Category|gc)=)?(\w+)\}")
_PAIR: Final = re.compile(r"([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_BRACED: Final = re.compile(r"\{0*([0-9A-Fa-f]{1,6})\}")
_FOUR: Final = re.compile("[0-9A-Fa-f]{4}")
_TWO: Final = re.compile("[0-9A-Fa-f]{2}")
_LETTER: Final = re.compile("[A-Za-z]")
_MENDS: Final = {"A": "say ^", "Z": "say $", "z": "say $"}


def parse(source: str, *, backtracking: bool = False) -> Syntax:
    """Parse a pattern.

    Args:
        source: the pattern.
        backtracking: keep what no automaton can say: groups, back references, looks behind.

    Raises:
        PatternError: it is malformed, or uses what no automaton can say where that is not kept;
            or a back reference of which it is not plain what its group matched last. The message
            names the place.

    """
    if len(source) > MAX_PATTERN_CHARS:
        raise PatternError(f"it has {len(source)} characters; at most {MAX_PATTERN_CHARS} are read")
    return _Parser(source, backtracking=backtracking).whole()


class _Parser:
    def __init__(self, source: str, *, backtracking: bool) -> None:
        self._source = source
        self._at = 0
        self._depth = 0
        self._backtracking = backtracking
        self._groups = 0
        self._behind = 0
        self._names: dict[str, int] = {}
        self._plain: set[int] = set()
        """Groups that are closed, and no repetition or look that is closed around them."""

    def whole(self) -> Syntax:
        found = self._choice()
        if self._at < len(self._source):
            raise self._error("an unmatched )")
        return found

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{what} at character {self._at} of {self._source[:80]!r}")

    def _next(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        if self._source.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._source, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _choice(self) -> Syntax:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"groups nested more than {MAX_DEPTH} deep")
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Syntax:
        parts = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._quantified())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quantified(self) -> Syntax:
        grouped = self._next() == "("
        before = self._groups
        part = self._atom()
        bounds = self._quantifier()
        if bounds is None:
            return part
        if isinstance(part, Edge | WordEdge) and not grouped:
            raise self._error("a count after an anchor")
        low, high = bounds
        if high is None or high > 1:
            # Each round forgets what its groups matched in the one before, and `regex` does not.
            self._plain -= set(range(before + 1, self._groups + 1))
            if _groups_of_choices(part) & _references(part):
                raise self._error("a repetition with a back reference to one of its alternatives")
        if high is not None and high < low:
            raise self._error("a count whose end is below its start")
        if max(low, high or 0) > MAX_COUNT:
            raise self._error(f"a count above {MAX_COUNT}")
        self._take("?")  # lazy or not, the same texts match
        if self._quantifier() is not None:
            raise self._error("a count of a count; put a group around what is counted")
        return Repeat(part, low, high)

    def _quantifier(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        found = self._match(_COUNT)
        if found is None:
            if _COUNT_TO.match(self._source, self._at):
                raise self._error("a count without its start; say {0,n}")
            return None
        low = int(found[1])
        if found[2] is None:
            return low, low
        return low, int(found[3]) if found[3] else None

    def _atom(self) -> Syntax:
        if self._take("("):
            return self._group()
        if self._take("["):
            return Chars(self._set())
        if self._take("."):
            return Chars(char_sets.complement(LINE_ENDS))
        if self._take("^"):
            return Edge(at_start=True)
        if self._take("$"):
            return Edge(at_start=False)
        if self._next() in ("*", "+", "?"):
            raise self._error("a count of nothing")
        if self._take("\\"):
            return self._escape()
        character = self._next()
        self._at += 1
        return Chars(char_sets.of_text(character))

    def _group(self) -> Syntax:
        before = self._groups
        for sign in ("?=", "?!", "?<=", "?<!"):
            behind = "<" in sign
            if behind and not self._backtracking and self._source.startswith(sign, self._at):
                raise self._error("a look behind, which arguments can't be decoded under")
            if self._take(sign):
                self._behind += behind
                part = Look(self._choice(), sign.endswith("!"), behind)
                self._behind -= behind
                self._close()
                self._plain -= set(range(before + 1, self._groups + 1))
                return part
        if self._take("?:"):
            inner = self._choice()
            self._close()
            return inner
        named = self._match(_GROUP_NAME)
        if named is None and self._next() == "?":
            raise self._error("a group of an unknown kind")
        self._groups += 1
        number = self._groups
        if named is not None and self._names.setdefault(named[1], number) != number:
            raise self._error("a second group of one name")
        inner = self._choice()
        self._close()
        self._plain.add(number)
        return Group(inner, number) if self._backtracking else inner

    def _back_reference(self) -> Syntax:
        found = self._match(_REFERENCE)
        if found is None or (found[2] is not None and found[2] not in self._names):
            raise self._error("a back reference to no group")
        if self._behind:  # where ECMA-262 matches from right to left
            raise self._error("a back reference within a look behind")
        number = self._names[found[2]] if found[2] is not None else int(found[1])
        if number > self._source.count("("):
            raise self._error("a back reference to no group")
        if number not in self._plain:
            raise self._error(
                "a back reference into a repetition or a look, or to a group that is not closed"
            )
        return BackReference(number)

    def _close(self) -> None:
        if not self._take(")"):
            raise self._error("a group that is not closed")

    def _escape(self) -> Syntax:
        sign = self._next()
        if sign in ("b", "B"):
            self._at += 1
            return WordEdge(negated=sign == "B")
        if (sign and sign in "123456789") or self._source.startswith("k<", self._at):
            if self._backtracking:
                return self._back_reference()
            raise self._error("a back reference, which arguments can't be decoded under")
        return Chars(self._escaped_set())

    def _escaped_set(self) -> CharSet:
        """Return the characters that an escape stands for; the backslash is read."""
        found = self._escaped()
        return char_sets.of_ranges([(found, found)]) if isinstance(found, int) else found

    def _escaped(self) -> int | CharSet:
        """Return the character that an escape stands for, or its characters."""
        sign = self._next()
        if not sign:
            raise self._error("a backslash at the end")
        if sign in _CLASSES or (sign.isascii() and sign.lower() in _CLASSES):
            self._at += 1
            found = _CLASSES[sign.lower()]
            return found if sign.islower() else char_sets.complement(found)
        if sign in ("p", "P"):
            self._at += 1
            return self._property(negated=sign == "P")
        return self._escaped_char(sign)

    def _escaped_char(self, sign: str) -> int:
        start = self._at
        self._at += 1
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "0" and self._next() not in tuple("0123456789"):
            return 0
        if sign == "c" and (letter := self._match(_LETTER)):
            return ord(letter[0]) % 32
        if sign == "x" and (digits := self._match(_TWO)):
            return int(digits[0], 16)
        if sign == "u" and (value := self._unicode()) is not None:
            if value > char_sets.LAST:
                raise self._error("a code point beyond U+10FFFF")
            return value
        if sign.isascii() and sign.isalnum():
            self._at = start
            mend = _MENDS.get(sign)
            raise self._error(
                f"an escape that ECMA-262 does not know (\\{sign}{'; ' + mend if mend else ''})"
            )
        return ord(sign)

    def _unicode(self) -> int | None:
        if digits := self._match(_BRACED):
            return int(digits[1], 16)
        if digits := self._match(_PAIR):
            high, low = int(digits[1], 16), int(digits[2], 16)
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        if digits := self._match(_FOUR):
            return int(digits[0], 16)
        return None

    def _property(self, *, negated: bool) -> CharSet:
        found = self._match(_PROPERTY)
        name = "" if found is None else found[1]
        if name in ("Any", "ASCII"):
            chars: CharSet | None = char_sets.ALL if name == "Any" else ((0, 127),)
        else:
            chars = char_sets.general_category(name)
        if chars is None:
            raise self._error(f"a character property that is not known ({name or 'malformed'})")
        return char_sets.complement(chars) if negated else chars

    def _set(self) -> CharSet:
        negated = self._take("^")
        found: list[CharSet] = []
        while not self._take("]"):
            low = self._set_member()
            mark = self._at
            if self._take("-") and self._next() not in ("]", ""):
                high = self._set_member()
                if isinstance(low, int) and isinstance(high, int):
                    if high < low:
                        raise self._error("a range whose end is below its start")
                    found.append(char_sets.of_ranges([(low, high)]))
                else:  # `\w-.`: no range, three members
                    found += [_set_of(low), char_sets.of_text("-"), _set_of(high)]
            else:
                self._at = mark
                found.append(_set_of(low))
        joined = char_sets.union(*found)
        return char_sets.complement(joined) if negated else joined

    def _set_member(self) -> int | CharSet:
        if self._take("\\"):
            return 8 if self._take("b") else self._escaped()
        character = self._next()
        if not character:
            raise self._error("a set of characters that is not closed")
        self._at += 1
        return ord(character)


def _below(part: Syntax) -> tuple[Syntax, ...]:
    match part:
        case Sequence(parts) | Choice(parts):
            return parts
        case Repeat(inner) | Look(inner) | Group(inner):
            return (inner,)
    return ()


def _references(part: Syntax) -> set[int]:
    """Return the groups that back references within it mean."""
    if isinstance(part, BackReference):
        return {part.number}
    return {number for each in _below(part) for number in _references(each)}


def _groups_of_choices(part: Syntax, *, inside: bool = False) -> set[int]:
    """Return the groups within it that stand in one of several options."""
    own = {part.number} if inside and isinstance(part, Group) else set()
    inside = inside or isinstance(part, Choice)
    return own.union(*(_groups_of_choices(each, inside=inside) for each in _below(part)))


def _set_of(member: int | CharSet) -> CharSet:
    return char_sets.of_ranges([(member, member)]) if isinstance(member, int) else member
