"""A short text that completes what has been read.

Owns how values are written in few bytes: members and items that need not come are left out, of
several ways the cheapest is taken. Nearly shortest: where a bound asks for members that are not
required, each is chosen for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from decoder.arguments.characters import START
from decoder.arguments.filling import ASCII, rest_of_key, rest_of_text, spell
from decoder.arguments.reference import step
from decoder.arguments.stacks import (
    AFTER,
    COLON,
    FIRST,
    ITEM,
    KEY,
    NO_TEXT,
    SPACE,
    VALUE,
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
    OBJECT,
    TEXT,
    UNION,
)
from decoder.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decoder.arguments.grammar import Grammar

_WORST: Final = 1 << 40
_FREE_KEY_BYTES: Final = 5
"""Of the shortest free key with what follows it, or nearly."""


class Completer:
    """Completes stacks of one grammar; keeps what each node costs."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._costs: dict[int, int] = {}

    def shortest(self, stacks: Iterable[Stack]) -> bytes:
        """Return a text that makes the value whole; there is at least one stack."""
        return min((self.rest(stack) for stack in stacks), key=_order)

    def closing(self, stacks: Iterable[Stack]) -> bytes:
        """Return a text that ends the string that is open; empty where none is.

        Where a fixed text (of an enumeration) is open as well, the free string is meant.
        """
        inside = [stack for stack in stacks if isinstance(stack, TextFrame | FreeKeyFrame)]
        return min((self.frame(stack)[0] for stack in inside), key=_order, default=b"")

    def rest(self, stack: Stack) -> bytes:
        """Return a text that completes one stack."""
        parts = []
        while stack is not None:
            part, stack = self.frame(stack)
            parts.append(part)
        return b"".join(parts)

    def frame(self, frame: Frame) -> tuple[bytes, Stack]:
        """Return what ends the top frame, and the stack that is left."""
        match frame:
            case Opening(node, depth, above):
                return self._value(node, depth), above
            case LiteralFrame(place, above):
                return self._way(place, set(self._grammar.values_below(place)))[0], above
            case NumberFrame(automaton, state, above):
                return rest_of_text(self._grammar, automaton, state, 0, ASCII).encode(), above
            case TextFrame():
                return self._text(frame), frame.above
            case FreeKeyFrame():
                return self._free_key(frame)
            case ArrayFrame():
                return self._array(frame), frame.above
            case DistinctFrame():
                return self._distinct(frame), frame.above
            case ObjectFrame():
                return self._object(frame), frame.above

    def _value(self, node: int, depth: int) -> bytes:
        grammar = self._grammar
        kind, argument, end, *_ = grammar.nodes[node]
        if kind == UNION:
            options = [o for o in grammar.lists[argument:end] if grammar.fits(o, depth)]
            return self._value(min(options, key=self._cost), depth)
        if kind == LITERALS:
            return self._way(argument, set(grammar.values_below(argument)))[0]
        if kind == NUMBER:
            return rest_of_text(grammar, argument, 0, 0, ASCII).encode()
        if kind == TEXT:
            return b'"' + self._text(TextFrame(node, 0, 0, START, None))
        if kind == ARRAY:
            return b"[" + self._array(ArrayFrame(node, 0, FIRST, depth + 1, None))
        if kind == DISTINCT:
            return b"[" + self._distinct(DistinctFrame(node, 0, FIRST, NONE, None))
        return b"{" + self._object(ObjectFrame(node, 0, 0, NO_TEXT, FIRST, NONE, depth + 1, None))

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
        rest = rest_of_text(self._grammar, automaton, whole.state, low - whole.chars)
        return begun + spell(rest) + b'"'

    def _free_key(self, frame: FreeKeyFrame) -> tuple[bytes, Stack]:
        whole, text = self._whole_character(frame)
        assert isinstance(whole, FreeKeyFrame)
        used = whole.above.used
        automaton = self._grammar.object(whole.above.node).keys
        rest = rest_of_key(self._grammar, automaton, whole.state, whole.text, used)
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
        low = self._grammar.nodes[frame.node][4]
        # A comma must be followed by an item, wanted or not.
        parts = [b" " + self._item(frame)] if frame.phase == SPACE else []
        count = frame.count + len(parts)
        while count < low:
            item = self._item(replace(frame, count=count))
            parts.append(item if count == 0 else b", " + item)
            count += 1
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

    def _object(self, frame: ObjectFrame) -> bytes:
        grammar = self._grammar
        parts: list[bytes] = []
        here = frame
        if here.phase in (COLON, VALUE):
            node = grammar.free_value(here.node, here.place)
            lead = b": " if here.phase == COLON else b" "
            parts.append(lead + self._value(node, here.depth))
            here = replace(here, count=here.count + 1, phase=AFTER)
        elif here.phase == KEY:
            allowed = set(grammar.next_properties(here)) & set(grammar.values_below(here.place))
            text, here = self._declared(here, here.place, self._best(here, allowed))
            parts.append(text)
        elif here.phase == ITEM:
            text, here = self._free(here)
            parts.append(text)
        elif here.phase == SPACE:
            text, here = self._member(here)
            parts.append(b" " + text)
        while not grammar.may_close(here):
            lead = b"" if here.phase == FIRST else b", "
            text, here = self._member(here)
            parts.append(lead + text)
        return b"".join(parts) + b"}"

    def _member(self, frame: ObjectFrame) -> tuple[bytes, ObjectFrame]:
        """Return a whole member that may come next, and the object after it."""
        grammar = self._grammar
        row = grammar.object(frame.node)
        allowed = set(grammar.next_properties(frame))
        needed = grammar.required(row, frame.next)
        if grammar.may_add_free(frame):
            best = min((self._member_cost(row.first, row.trie, p) for p in allowed), default=_WORST)
            free = min(map(self._cost, grammar.free_values(frame.node))) + _FREE_KEY_BYTES
            if free < best:
                return self._free(frame)
        if needed and frame.count + needed >= row.low:
            allowed = {position for position in allowed if grammar.is_required(row, position)}
        return self._declared(frame, row.trie, self._best(frame, allowed))

    def _best(self, frame: ObjectFrame, allowed: set[int]) -> int:
        row = self._grammar.object(frame.node)
        needed = self._grammar.required(row, frame.next)
        required = {p for p in allowed if self._grammar.is_required(row, p)}
        if required and frame.count + needed >= row.low:
            allowed = required
        return min(allowed, key=lambda p: (self._member_cost(row.first, row.trie, p), p))

    def _member_cost(self, first: int, trie: int, position: int) -> int:
        node = self._grammar.property_nodes[first + position]
        return len(self._way(trie, {position})[0]) + self._cost(node)

    def _declared(self, frame: ObjectFrame, place: int, position: int) -> tuple[bytes, ObjectFrame]:
        row = self._grammar.object(frame.node)
        key, _ = self._way(place, {position})
        value = self._value(self._grammar.property_nodes[row.first + position], frame.depth)
        after = replace(frame, next=position + 1, count=frame.count + 1, phase=AFTER, place=NONE)
        return key + value, after

    def _free(self, frame: ObjectFrame) -> tuple[bytes, ObjectFrame]:
        grammar = self._grammar
        row = grammar.object(frame.node)
        key = rest_of_key(grammar, row.keys, 0, "", frame.used)
        state = 0
        for character in key:
            state = grammar.step(row.keys, state, ord(character))
        node = grammar.free_value(frame.node, grammar.accepts(row.keys, state))
        text = b'"' + spell(key) + b'": ' + self._value(node, frame.depth)
        after = replace(
            frame,
            next=row.end - row.first,
            count=frame.count + 1,
            used=frame.used | {key},
            phase=AFTER,
        )
        return text, after

    def _cost(self, node: int) -> int:
        """Return the bytes of a node's shortest text, nesting aside.

        Worked out for all nodes that it leads to at once, by lowering until nothing changes.
        """
        if node not in self._costs:
            found = [node]
            seen = {node}
            for each in found:
                new = [child for child in self._children(each) if child not in seen]
                seen.update(new)
                found += dict.fromkeys(new)
            costs = dict.fromkeys(found, _WORST)
            before: dict[int, int] = {}
            while before != costs:
                before = dict(costs)
                for each in reversed(found):
                    costs[each] = min(costs[each], self._node_cost(each, costs))
            self._costs |= costs
        return self._costs[node]

    def _children(self, node: int) -> list[int]:
        grammar = self._grammar
        kind, first, end, rest, *_ = grammar.nodes[node]
        if kind == UNION:
            return grammar.lists[first:end]
        if kind == ARRAY:
            return [*grammar.lists[first:end], *([] if rest == NONE else [rest])]
        if kind == OBJECT:
            return [*grammar.property_nodes[first:end], *grammar.free_values(node)]
        return []

    def _node_cost(self, node: int, costs: dict[int, int]) -> int:
        grammar = self._grammar
        kind, first, end, rest, low, *_ = grammar.nodes[node]
        if not grammar.fits(node, 0):
            return _WORST
        if kind == UNION:
            return min(costs[option] for option in grammar.lists[first:end])
        if kind == ARRAY:
            parts = [costs[item] for item in grammar.lists[first:end][:low]]
            further = low - len(parts)
            parts += [costs[rest]] * further if further else []
        elif kind == OBJECT:
            parts = self._member_costs(node, costs)
        else:
            return len(self._value(node, 0))
        return min(sum(parts) + 2 * max(len(parts), 1), _WORST)

    def _member_costs(self, node: int, costs: dict[int, int]) -> list[int]:
        grammar = self._grammar
        row = grammar.object(node)
        required: list[int] = []
        others: list[int] = []
        for position, value in enumerate(grammar.property_nodes[row.first : row.end]):
            chosen = required if grammar.is_required(row, position) else others
            chosen.append(len(self._way(row.trie, {position})[0]) + costs[value])
        further = max(row.low - len(required), 0)
        free = min((costs[value] for value in grammar.free_values(node)), default=_WORST)
        others += [free + _FREE_KEY_BYTES] * further
        return required + sorted(others)[:further]


def _order(text: bytes) -> tuple[int, bytes]:
    return len(text), text
