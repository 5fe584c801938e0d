"""A short text that completes what has been read.

Owns how values are written in few bytes: members and items that need not come are left out, of
several ways the cheapest is taken. Nearly shortest: where a bound asks for members that are not
required, each is chosen for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from decoder.arguments.characters import START
from decoder.arguments.costs import WORST, Costs
from decoder.arguments.filling import ASCII, grown, rest_of_key, rest_of_text, shortest_of, spell
from decoder.arguments.members import Members
from decoder.arguments.reference import step
from decoder.arguments.stacks import (
    FIRST,
    ITEM,
    KEY,
    NO_TEXT,
    SPACE,
    ArrayFrame,
    DistinctFrame,
    Frame,
    FreeKeyFrame,
    LiteralFrame,
    NumberFrame,
    ObjectFrame,
    Opening,
    Stack,
    TextFrame,
)
from decoder.arguments.tables import (
    ARRAY,
    DISTINCT,
    LITERALS,
    NONE,
    NUMBER,
    TEXT,
    UNION,
)
from decoder.errors import BudgetError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decoder.arguments.grammar import Grammar

MAX_KEPT: Final = 16_384
"""Texts that are kept of each kind; beyond it they are dropped together."""


class Completer:
    """Completes stacks of one grammar; keeps what each node costs."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._automata = grammar.automata
        self._costs = Costs(grammar, self._leaf_bytes)
        self._members = Members(grammar, self._costs, self._value)
        self._values: dict[tuple[int, int], bytes] = {}

    def _leaf_bytes(self, node: int) -> int:
        try:
            return len(self._value(node, 0))
        except BudgetError:
            return WORST

    def shortest(self, stacks: Iterable[Stack]) -> bytes:
        """Return a text that makes the value whole; there is at least one stack."""
        return shortest_of(self.rest, stacks)

    def closing(self, stacks: Iterable[Stack]) -> bytes:
        """Return a text that ends the string that is open; empty where none is.

        Where a fixed text (of an enumeration) is open as well, the free string is meant.
        """
        inside = [stack for stack in stacks if isinstance(stack, TextFrame | FreeKeyFrame)]
        return shortest_of(lambda stack: self.frame(stack)[0], inside) if inside else b""

    def rest(self, stack: Stack) -> bytes:
        """Return a text that completes one stack."""
        parts = []
        size = 0
        while stack is not None:
            part, stack = self.frame(stack)
            parts.append(part)
            size = grown(size, part)
        return b"".join(parts)

    def frame(self, frame: Frame) -> tuple[bytes, Stack]:
        """Return what ends the top frame, and the stack that is left."""
        match frame:
            case Opening(node, depth, above):
                return self._value(node, depth), above
            case LiteralFrame(place, above):
                return self._way(place, set(self._grammar.values_below(place)))[0], above
            case NumberFrame(automaton, state, above):
                return rest_of_text(self._automata[automaton], state, 0, ASCII).encode(), above
            case TextFrame():
                return self._text(frame), frame.above
            case FreeKeyFrame():
                return self._free_key(frame)
            case ArrayFrame():
                return self._array(frame), frame.above
            case DistinctFrame():
                return self._distinct(frame), frame.above
            case ObjectFrame():
                return self._members.rest(frame), frame.above

    def _value(self, node: int, depth: int) -> bytes:
        """Return a short text of a node, within `depth` open containers."""
        key = node, depth
        if key not in self._values:
            if len(self._values) > MAX_KEPT:
                self._values.clear()
            self._values[key] = self._made(node, depth)
        return self._values[key]

    def _made(self, node: int, depth: int) -> bytes:
        grammar = self._grammar
        kind, argument, end, *_ = grammar.nodes[node]
        if kind == UNION:
            options = [o for o in grammar.lists[argument:end] if grammar.fits(o, depth)]
            return self._value(min(options, key=self._costs.of), depth)
        if kind == LITERALS:
            return self._way(argument, set(grammar.values_below(argument)))[0]
        if kind == NUMBER:
            return rest_of_text(self._automata[argument], 0, 0, ASCII).encode()
        if kind == TEXT:
            return b'"' + self._text(TextFrame(node, 0, 0, START, None))
        if kind == ARRAY:
            return b"[" + self._array(ArrayFrame(node, 0, FIRST, depth + 1, None))
        if kind == DISTINCT:
            return b"[" + self._distinct(DistinctFrame(node, 0, FIRST, NONE, None))
        return b"{" + self._members.rest(
            ObjectFrame(node, 0, 0, NO_TEXT, FIRST, NONE, depth + 1, None)
        )

    def _way(self, place: int, wanted: set[int]) -> tuple[bytes, int]:
        """Return the shortest way in a trie to one of some values, and which."""
        grammar = self._grammar
        front = [(b"", place)]
        for text, here in front:  # grows while it is read, shortest first
            if grammar.trie_values[here] in wanted:
                return text, grammar.trie_values[here]
            front.extend((text + bytes([byte]), target) for byte, target in grammar.edges(here))
        raise RequestError(f"nothing is left below trie node {place}; compile the catalog again")

    def _text(self, frame: TextFrame) -> bytes:
        whole, begun = self._whole_character(frame)
        assert isinstance(whole, TextFrame)
        _, automaton, low, *_ = self._grammar.nodes[frame.node]
        rest = rest_of_text(self._automata[automaton], whole.state, low - whole.chars)
        return begun + spell(rest) + b'"'

    def _free_key(self, frame: FreeKeyFrame) -> tuple[bytes, Stack]:
        whole, text = self._whole_character(frame)
        assert isinstance(whole, FreeKeyFrame)
        used = whole.above.used
        keys = self._grammar.free_keys(whole.above.node, whole.above.depth)
        rest = rest_of_key(self._automata[keys], whole.state, whole.text, used)
        text += spell(rest) + b'"'
        stack: Stack = whole
        for byte in spell(rest) + b'"':
            assert stack is not None
            (stack,) = step(self._grammar, frozenset([stack]), byte)
        return text, stack

    def _whole_character(self, frame: TextFrame | FreeKeyFrame) -> tuple[Frame, bytes]:
        """Read the lowest bytes that end a character that is begun."""
        text = b""
        here: Frame = frame
        while isinstance(here, TextFrame | FreeKeyFrame) and here.partial != START:
            for byte in range(256):
                after = [s for s in step(self._grammar, frozenset([here]), byte) if s is not None]
                if after:
                    here = after[0]
                    text += bytes([byte])
                    break
            else:
                raise RequestError("a character has no end; compile the catalog again")
        return here, text

    def _array(self, frame: ArrayFrame) -> bytes:
        _, first, end, _, low, *_ = self._grammar.nodes[frame.node]
        # A comma must be followed by an item, wanted or not.
        parts = [b" " + self._item(frame)] if frame.phase == SPACE else []
        count = frame.count + len(parts)
        size = 0
        while count < low:
            item = self._item(replace(frame, count=count))
            part = item if count == 0 else b", " + item
            # Beyond the first ones all items are the same.
            times = low - count if count >= max(end - first, 1) else 1
            size = grown(size, part, times)
            parts.append(part * times)
            count += times
        return b"".join(parts) + b"]"

    def _item(self, frame: ArrayFrame) -> bytes:
        return self._value(self._grammar.item(frame.node, frame.count), frame.depth)

    def _distinct(self, frame: DistinctFrame) -> bytes:
        _, trie, texts, low, *_ = self._grammar.nodes[frame.node]
        unused = {value for value in range(texts) if not frame.used >> value & 1}
        parts: list[bytes] = []
        place = frame.place
        if frame.phase in (SPACE, ITEM, KEY):
            inside = frame.phase == KEY
            text, value = self._way(place if inside else trie, unused)
            parts.append(text if inside else b" " + text)
            unused.discard(value)
        while texts - len(unused) < low:
            text, value = self._way(trie, unused)
            first = len(unused) == texts
            parts.append(text if first else b", " + text)
            unused.discard(value)
        return b"".join(parts) + b"]"
