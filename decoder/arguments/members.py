"""The members that an object must still have, written in few bytes.

Owns which members those are. Where a bound asks for more than the required ones, each of the
others is chosen for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from decoder.arguments.costs import FREE_KEY_BYTES, Costs
from decoder.arguments.filling import grown, rest_of_key, spell, too_long
from decoder.arguments.graph import MANY
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
        if grammar.object(here.node).low - here.count > MAX_MEMBERS:
            raise too_long()
        size = 0
        declared, free = self._further(here)
        for number in range(len(declared) + free):
            lead = {FIRST: b"", SPACE: b" "}.get(here.phase, b", ")
            if number < len(declared):
                text, here = self._declared(here, grammar.object(here.node).trie, declared[number])
            else:
                text, here = self._free(here)
            parts.append(lead + text)
            size = grown(size, text)
        return b"".join(parts) + b"}"

    def _further(self, frame: ObjectFrame) -> tuple[list[int], int]:
        """Return which declared members are still to come, in order, and how many free ones.

        Those that must come, and as many of the cheapest others as a bound asks for.
        """
        grammar = self._grammar
        row = grammar.object(frame.node)
        chosen, others = [], []
        for position in range(frame.next, row.end - row.first):
            if grammar.is_required(row, position):
                chosen.append(position)
            elif grammar.fits(grammar.property_nodes[row.first + position], frame.depth):
                others.append((self._member_cost(row.first, row.trie, position), position))
        more = row.low - frame.count - len(chosen)
        if frame.phase == SPACE and not chosen:  # a comma is followed by a member, wanted or not
            more = max(more, 1)
        ways = [(cost, position, 1) for cost, position in others]
        ways += [
            (cost + FREE_KEY_BYTES, NONE, texts) for cost, _, texts in self._free_labels(frame)
        ]
        free = 0
        for _, position, texts in sorted(ways):
            if more <= 0:
                break
            if position == NONE:
                free += min(texts, more)
            else:
                chosen.append(position)
            more -= texts
        return sorted(chosen), free

    def _free_labels(self, frame: ObjectFrame) -> list[tuple[int, int, int]]:
        """Return free keys that there still are: what a value costs, the label, how many.

        The cheapest come first.
        """
        grammar = self._grammar
        keys = grammar.free_keys(frame.node, frame.depth)
        if keys == NONE:
            return []
        free = grammar.free_values(frame.node)
        left = [texts for _, texts in free]
        if any(texts < MANY for texts in left):
            automaton = grammar.automata[keys]
            for key in frame.used:
                left[automaton.label(key)] -= 1
        return sorted(
            (self._costs.of(value), label, texts)
            for label, ((value, _), texts) in enumerate(zip(free, left, strict=True))
            if texts > 0 and grammar.fits(value, frame.depth)
        )

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
        """Return a free member, the value of which is among the cheapest, and what is left."""
        grammar = self._grammar
        row = grammar.object(frame.node)
        _, label, _ = self._free_labels(frame)[0]
        key = rest_of_key(grammar.automata.only(row.keys, label), 0, "", frame.used)
        value = self._value(grammar.free_value(frame.node, label), frame.depth)
        after = replace(
            frame,
            next=row.end - row.first,
            count=frame.count + 1,
            used=frame.used | {key},
            phase=AFTER,
        )
        return b'"' + spell(key) + b'": ' + value, after

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
