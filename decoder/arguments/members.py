"""The members that an object must still have, written in few bytes.

Owns which members those are. Where a bound asks for more than the required ones, each of the
others is chosen for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from decoder.arguments.costs import FREE_KEY_BYTES, WORST, Costs
from decoder.arguments.filling import grown, rest_of_key, spell, too_long
from decoder.arguments.stacks import AFTER, COLON, FIRST, ITEM, KEY, SPACE, VALUE, ObjectFrame
from decoder.arguments.tables import NONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from decoder.arguments.grammar import Grammar

MAX_MEMBERS: Final = 1024
"""Most members that an object is given because it needs so many."""


class Members:
    """Completes objects.

    Args:
        grammar: the tables.
        costs: of its nodes.
        value: gives a short text of a node within some open containers.

    """

    def __init__(self, grammar: Grammar, costs: Costs, value: Callable[[int, int], bytes]) -> None:
        self._grammar = grammar
        self._costs = costs
        self._value = value

    def rest(self, frame: ObjectFrame) -> bytes:
        """Return what ends an object."""
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
        size = 0
        if grammar.object(here.node).low - here.count > MAX_MEMBERS:
            raise too_long()
        while not grammar.may_close(here):
            lead = b"" if here.phase == FIRST else b", "
            text, here = self._member(here)
            parts.append(lead + text)
            size = grown(size, text)
        return b"".join(parts) + b"}"

    def _member(self, frame: ObjectFrame) -> tuple[bytes, ObjectFrame]:
        """Return a whole member that may come next, and the object after it."""
        grammar = self._grammar
        row = grammar.object(frame.node)
        if grammar.needs_no_more(row, frame):
            return self._declared(frame, row.trie, grammar.next_required(row, frame.next))
        allowed = grammar.next_properties(frame)
        if grammar.may_add_free(frame):
            best = min((self._member_cost(row.first, row.trie, p) for p in allowed), default=WORST)
            free = min(map(self._costs.of, grammar.free_values(frame.node))) + FREE_KEY_BYTES
            if free < best:
                return self._free(frame)
        return self._declared(frame, row.trie, self._best(frame, set(allowed)))

    def _best(self, frame: ObjectFrame, allowed: set[int]) -> int:
        """Return the required one of the properties that may come, or else the cheapest."""
        row = self._grammar.object(frame.node)
        if self._grammar.needs_no_more(row, frame):
            required = self._grammar.next_required(row, frame.next)
            if required in allowed:
                return required
        return min(allowed, key=lambda p: (self._member_cost(row.first, row.trie, p), p))

    def _member_cost(self, first: int, trie: int, position: int) -> int:
        node = self._grammar.property_nodes[first + position]
        return len(self._costs.keys(trie)[position]) + self._costs.of(node)

    def _declared(self, frame: ObjectFrame, place: int, position: int) -> tuple[bytes, ObjectFrame]:
        row = self._grammar.object(frame.node)
        whole = place == row.trie
        key = self._costs.keys(place)[position] if whole else self._key(place, position)
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

    def _key(self, place: int, position: int) -> bytes:
        """Return the rest of a declared key from a node of its trie."""
        grammar = self._grammar
        text = bytearray()
        while grammar.trie_values[place] != position:
            byte, place = next(
                (byte, target)
                for byte, target in grammar.edges(place)
                if position in grammar.values_below(target)
            )
            text.append(byte)
        return bytes(text)
