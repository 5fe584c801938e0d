"""The machine over bytes: which stacks a byte leads to. This module is the definition.

Owns the steps. A configuration is the set of all stacks that what was read can be in; a value is
whole where one of them has ended (None). No stack is ever kept that can't be completed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from decoder.arguments.characters import QUOTE, START, Partial, ranges, read
from decoder.arguments.graph import MANY
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
    Configuration,
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
from decoder.arguments.tables import ARRAY, DISTINCT, LITERALS, NONE, NUMBER, OBJECT, TEXT, UNION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from decoder.arguments.grammar import Grammar

    Alive = Callable[[Partial], bool]

COMMA, BLANK, COLON_BYTE = 0x2C, 0x20, 0x3A
OPENERS: Final = {TEXT: QUOTE, ARRAY: 0x5B, DISTINCT: 0x5B, OBJECT: 0x7B}
CLOSE_ARRAY, CLOSE_OBJECT = 0x5D, 0x7D


def begin(grammar: Grammar, node: int) -> Configuration:
    """Return the configuration before the first byte of a value."""
    return frozenset(_value(grammar, node, 0, None))


def step(grammar: Grammar, configuration: Configuration, byte: int) -> Configuration:
    """Return the configuration after one more byte; empty where it is refused."""
    return frozenset(
        after
        for stack in configuration
        if stack is not None
        for after in _steps(grammar, stack, byte)
    )


def step_all(grammar: Grammar, configuration: Configuration, text: bytes) -> Configuration:
    """Return the configuration after more bytes; empty where one is refused."""
    for byte in text:
        configuration = step(grammar, configuration, byte)
    return configuration


def _value(grammar: Grammar, node: int, depth: int, above: Stack) -> Iterator[Stack]:
    """Yield the stacks with which a value begins, within `depth` open containers."""
    if not grammar.fits(node, depth):
        return
    kind, argument, end, *_ = grammar.nodes[node]
    if kind == UNION:
        for option in grammar.lists[argument:end]:
            yield from _value(grammar, option, depth, above)
    elif kind == LITERALS:
        yield from _literal(grammar, argument, above)
    elif kind == NUMBER:
        yield from _number(grammar, NumberFrame(argument, 0, above))
    else:
        yield Opening(node, depth, above)


def _literal(grammar: Grammar, place: int, above: Stack) -> Iterator[Stack]:
    if grammar.edges(place):
        yield LiteralFrame(place, above)
    if grammar.trie_values[place] != NONE:
        yield above


def _number(grammar: Grammar, frame: NumberFrame) -> Iterator[Stack]:
    yield frame
    if grammar.automata[frame.automaton].accepts(frame.state) != NONE:
        yield frame.above


def _steps(grammar: Grammar, frame: Frame, byte: int) -> Iterator[Stack]:
    """Yield the stacks that a byte leads one stack to."""
    match frame:
        case Opening():
            yield from _open(grammar, frame, byte)
        case LiteralFrame(place, above):
            target = grammar.follow(place, byte)
            if target != NONE:
                yield from _literal(grammar, target, above)
        case NumberFrame(automaton, state, above):
            target = grammar.automata[automaton].step(state, byte) if byte < 0x80 else NONE
            if target != NONE:
                yield from _number(grammar, NumberFrame(automaton, target, above))
        case TextFrame():
            yield from _text(grammar, frame, byte)
        case FreeKeyFrame():
            yield from _free_key(grammar, frame, byte)
        case ArrayFrame():
            yield from _array(grammar, frame, byte)
        case DistinctFrame():
            yield from _distinct(grammar, frame, byte)
        case ObjectFrame():
            yield from _object(grammar, frame, byte)
        case _:  # pragma: no cover
            assert_never(frame)


def _open(grammar: Grammar, frame: Opening, byte: int) -> Iterator[Stack]:
    node, depth, above = frame.node, frame.depth, frame.above
    kind = grammar.nodes[node][0]
    if byte != OPENERS[kind]:
        return
    if kind == TEXT:
        yield TextFrame(node, 0, 0, START, above)
    elif kind == ARRAY:
        yield from _items(grammar, ArrayFrame(node, 0, FIRST, depth + 1, above))
    elif kind == DISTINCT:
        yield from _distinct_items(grammar, DistinctFrame(node, 0, FIRST, NONE, above))
    else:
        yield from _members(
            grammar, ObjectFrame(node, 0, 0, NO_TEXT, FIRST, NONE, depth + 1, above)
        )


def _text(grammar: Grammar, frame: TextFrame, byte: int) -> Iterator[Stack]:
    _, number, low, high, *_ = grammar.nodes[frame.node]
    automaton = grammar.automata[number]
    if byte == QUOTE and frame.partial == START:
        if frame.chars >= low and automaton.accepts(frame.state) != NONE:
            yield frame.above
        return
    found = read(frame.partial, byte)
    if found is None:
        return
    partial = found if isinstance(found, Partial) else START
    reach = ranges(found) if isinstance(found, Partial) else [(found, found)]
    chars = frame.chars + 1
    alive = [
        state
        for _, _, state in automaton.moves(frame.state, reach)
        if high == NONE or chars + automaton.rest(state) <= high
    ]
    if not alive:
        return
    if isinstance(found, Partial):
        yield replace(frame, partial=partial)
    else:
        yield replace(frame, state=alive[0], chars=chars, partial=START)


def _free_key(grammar: Grammar, frame: FreeKeyFrame, byte: int) -> Iterator[Stack]:
    above = frame.above
    automaton = grammar.automata[grammar.free_keys(above.node, above.depth)]
    if byte == QUOTE and frame.partial == START:
        label = automaton.accepts(frame.state)
        if label != NONE and frame.text not in above.used:
            yield replace(above, used=above.used | {frame.text}, phase=COLON, place=label)
        return
    found = read(frame.partial, byte)
    if found is None:
        return
    reach = ranges(found) if isinstance(found, Partial) else [(found, found)]
    moves = automaton.moves(frame.state, reach)
    rests = sum((high - low + 1) * automaton.rests(state) for low, high, state in moves)
    # Keys that were used are no longer to be had, so that there must be more than those.
    at = len(frame.text)
    gone = sum(
        1
        for text in above.used
        if len(text) > at
        and text.startswith(frame.text)
        and any(low <= ord(text[at]) <= high for low, high in reach)
    )
    if rests < MANY and rests <= gone:
        return
    if isinstance(found, Partial):
        yield replace(frame, partial=found)
    else:
        yield replace(frame, state=moves[0][2], text=frame.text + chr(found), partial=START)


def _array(grammar: Grammar, frame: ArrayFrame, byte: int) -> Iterator[Stack]:
    if byte == CLOSE_ARRAY and frame.phase in (FIRST, AFTER):
        if frame.count >= grammar.nodes[frame.node][4]:
            yield frame.above
    elif byte == COMMA and frame.phase == AFTER:
        if grammar.next_item(frame) != NONE:
            yield replace(frame, phase=SPACE)
    elif byte == BLANK and frame.phase == SPACE:
        yield from _items(grammar, replace(frame, phase=ITEM))


def _items(grammar: Grammar, frame: ArrayFrame) -> Iterator[Stack]:
    """Yield the stacks before an item, or before the end where it may come at once."""
    if frame.phase == FIRST and grammar.nodes[frame.node][4] == 0:
        yield frame
    item = grammar.next_item(frame)
    if item != NONE:
        rest = replace(frame, count=frame.count + 1, phase=AFTER)
        yield from _value(grammar, item, frame.depth, rest)


def _distinct(grammar: Grammar, frame: DistinctFrame, byte: int) -> Iterator[Stack]:
    _, _, _, low, high, *_ = grammar.nodes[frame.node]
    count = frame.used.bit_count()
    if frame.phase == KEY:
        target = grammar.follow(frame.place, byte)
        if target != NONE:
            yield from _distinct_at(grammar, replace(frame, place=target))
    elif byte == CLOSE_ARRAY and frame.phase in (FIRST, AFTER):
        if count >= low:
            yield frame.above
    elif byte == COMMA and frame.phase == AFTER:
        if count < high:
            yield replace(frame, phase=SPACE)
    elif byte == BLANK and frame.phase == SPACE:
        yield from _distinct_items(grammar, replace(frame, phase=ITEM))


def _distinct_items(grammar: Grammar, frame: DistinctFrame) -> Iterator[Stack]:
    _, trie, _, low, high, *_ = grammar.nodes[frame.node]
    if frame.phase == FIRST and low == 0:
        yield frame
    if frame.used.bit_count() < high:
        yield from _distinct_at(grammar, replace(frame, phase=KEY, place=trie))


def _distinct_at(grammar: Grammar, frame: DistinctFrame) -> Iterator[Stack]:
    here = grammar.trie_values[frame.place]
    below = [value for value in grammar.values_below(frame.place) if not frame.used >> value & 1]
    if any(value != here for value in below):
        yield frame
    if here in below:
        yield replace(frame, used=frame.used | 1 << here, phase=AFTER, place=NONE)


def _object(grammar: Grammar, frame: ObjectFrame, byte: int) -> Iterator[Stack]:
    phase = frame.phase
    if byte == CLOSE_OBJECT and phase in (FIRST, AFTER):
        if grammar.may_close(frame):
            yield frame.above
    elif byte == COMMA and phase == AFTER:
        if grammar.may_add_free(frame) or grammar.next_properties(frame):
            yield replace(frame, phase=SPACE)
    elif byte == BLANK and phase == SPACE:
        yield from _members(grammar, replace(frame, phase=ITEM))
    elif phase == KEY:
        target = grammar.follow(frame.place, byte)
        if target != NONE:
            yield from _key_at(grammar, replace(frame, place=target))
    elif byte == QUOTE and phase == ITEM:
        row = grammar.object(frame.node)
        yield FreeKeyFrame(0, "", START, replace(frame, next=row.end - row.first, phase=ITEM))
    elif byte == COLON_BYTE and phase == COLON:
        yield replace(frame, phase=VALUE)
    elif byte == BLANK and phase == VALUE:
        node = grammar.free_value(frame.node, frame.place)
        after = replace(frame, count=frame.count + 1, phase=AFTER, place=NONE)
        yield from _value(grammar, node, frame.depth, after)


def _members(grammar: Grammar, frame: ObjectFrame) -> Iterator[Stack]:
    """Yield the stacks before a member, or before the end where it may come at once."""
    if frame.phase == FIRST and grammar.may_close(frame):
        yield frame
    if grammar.may_add_free(frame):
        yield replace(frame, phase=ITEM)
    row = grammar.object(frame.node)
    if row.trie != NONE:
        yield from _key_at(grammar, replace(frame, phase=KEY, place=row.trie))


def _key_at(grammar: Grammar, frame: ObjectFrame) -> Iterator[Stack]:
    here = grammar.trie_values[frame.place]
    allowed = set(grammar.next_properties(frame)) & set(grammar.values_below(frame.place))
    if allowed - {here}:
        yield frame
    if here in allowed:
        row = grammar.object(frame.node)
        after = replace(frame, next=here + 1, count=frame.count + 1, phase=AFTER, place=NONE)
        yield from _value(grammar, grammar.property_nodes[row.first + here], frame.depth, after)
