"""A compiled session's stacks as the plain machine has them, to complete what was read.

Owns the reading of C's frames (`steps.h` says what their fields are). Never changes a session.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from decoder.arguments.characters import Partial
from decoder.arguments.filling import shortest_of
from decoder.arguments.stacks import (
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

if TYPE_CHECKING:
    from decoder.arguments.completion import Completer

MAX_STACKS: Final = 4096
"""Ways in which what was read can be meant at once; more are an error."""
MAX_KEPT: Final = 4096
"""Completions that are kept; beyond it they are dropped together."""
_END, _OPENING, _LITERAL, _STRING, _DIGITS, _LIST, _CHOICES, _MEMBERS, _FREE_KEY = range(9)
_WORD: Final = 0xFFFFFFFF


class StackReader:
    """Reads one session's stacks; keeps what it has read until the frames' numbers are others."""

    def __init__(self, call: dict[str, Any], handle: int) -> None:
        self._call = call
        self._handle = handle
        self._stacks: dict[int, Stack] = {0: None}
        self._rests: dict[int, bytes] = {0: b""}
        self._space = (ctypes.c_int32 * MAX_STACKS)()

    def forget(self) -> None:
        """Drop all, since the session has a new arena."""
        self._stacks = {0: None}
        self._rests = {0: b""}

    def stacks(self) -> list[Stack]:
        """Return the stacks."""
        return [self._stack(top) for top in self._tops()]

    def shortest(self, completer: Completer) -> bytes:
        """Return the shortest of the stacks' completions."""
        return shortest_of(lambda top: self._rest(completer, top), self._tops())

    def _tops(self) -> list[int]:
        address = ctypes.addressof(self._space)
        count = self._call["am_tops"](self._handle, address, MAX_STACKS)
        return self._space[:count]

    def _rest(self, completer: Completer, number: int) -> bytes:
        found = self._rests.get(number)
        if found is None:
            if len(self._rests) > MAX_KEPT:
                self.forget()
            frame = self._stack(number)
            assert frame is not None
            own, after = completer.frame(frame)
            if isinstance(frame, FreeKeyFrame):
                found = own + completer.rest(after)
            else:
                found = own + self._rest(completer, self._fields(number)[-1])
            self._rests[number] = found
        return found

    def _fields(self, number: int) -> list[int]:
        space = (ctypes.c_int32 * 9)()
        self._call["am_frame"](self._handle, number, ctypes.addressof(space))
        return space[:]

    def _stack(self, number: int) -> Stack:
        found = self._stacks.get(number)
        if found is None and number:
            *fields, outer = self._fields(number)
            above = self._stack(outer)
            found = self._stacks[number] = self._frame(fields, above)
        return found

    def _frame(self, fields: list[int], above: Stack) -> Frame:
        kind, node, a, b, c, d, phase, depth = fields
        if kind == _OPENING:
            return Opening(node, depth, above)
        if kind == _LITERAL:
            return LiteralFrame(node, above)
        if kind == _STRING:
            return TextFrame(node, a, b, _partial(c), above)
        if kind == _DIGITS:
            return NumberFrame(node, a, above)
        if kind == _LIST:
            return ArrayFrame(node, a, phase, depth, above)
        if kind == _CHOICES:
            return DistinctFrame(node, a & _WORD | (b & _WORD) << 32, phase, c, above)
        if kind == _MEMBERS:
            return ObjectFrame(node, a, b, self._used(d), phase, c, depth, above)
        assert isinstance(above, ObjectFrame)
        return FreeKeyFrame(a, self._text(b), _partial(c), above)

    def _used(self, number: int) -> frozenset[str]:
        found = set()
        while number:
            number, text = self._pair("am_used", number)
            found.add(self._text(text))
        return frozenset(found)

    def _text(self, number: int) -> str:
        characters = []
        while number:
            number, character = self._pair("am_text", number)
            characters.append(chr(character))
        return "".join(reversed(characters))

    def _pair(self, name: str, number: int) -> tuple[int, int]:
        first, second = ctypes.c_int32(), ctypes.c_int32()
        self._call[name](self._handle, number, ctypes.addressof(first), ctypes.addressof(second))
        return first.value, second.value


def _partial(word: int) -> Partial:
    return Partial(word >> 28 & 0xF, word & 0xFFFFFF, word >> 24 & 0xF)
