"""The compiled machine, and sessions on it.

Owns the calls across the C border and the masks that a session keeps. Calls hold Python's lock,
since a machine's sessions share what they work out. Never defines what is allowed: that is
`reference`.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from decoder.arguments.native_stacks import MAX_STACKS, StackReader
from decoder.arguments.session import MAX_FORCED_BYTES, refused
from decoder.errors import CapacityError, KernelError
from decoder.native_library import NativeLibrary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from decoder.arguments.completion import Completer
    from decoder.arguments.facts import TableFacts
    from decoder.arguments.tables import ArgumentTables
    from decoder.arguments.vocabulary import TokenVocabulary
    from decoder.kernels.base import I32

VERSION: Final = 4
MAX_TOKENS_BYTES: Final = 32 << 20
"""Bound on the lists of tokens that a session keeps; beyond it they are dropped together."""

_REFUSED, _NO_MEMORY = -1, -2
_ACCEPTS, _FINISHED, _IN_STRING, _CLOSABLE, _FULL = 1, 2, 4, 8, 16

LIBRARY: Final = NativeLibrary(
    name="arguments",
    source=Path(__file__).with_name("machine.c"),
    headers=(
        *("masks.h", "bases.h", "steps.h", "containers.h", "frames.h"),
        *("arena.h", "grammar.h", "characters.h"),
    ),
    flags=("-O3", "-march=native", "-std=c11", "-fPIC", "-shared", "-fvisibility=hidden"),
)
_SIGNATURES: Final = {
    "am_version": ("", "i"),
    "am_machine_new": ("pp", "p"),
    "am_machine_free": ("p", ""),
    "am_session_new": ("pip", "p"),
    "am_session_free": ("p", ""),
    "am_flags": ("p", "i"),
    "am_advance": ("psl", "i"),
    "am_advance_token": ("pl", "i"),
    "am_mask": ("p", "i"),
    "am_tokens": ("plp", "i"),
    "am_forced": ("ppl", "i"),
    "am_restart": ("p", "i"),
    "am_tops": ("ppl", "i"),
    "am_frame": ("pip", ""),
    "am_used": ("pipp", ""),
    "am_text": ("pipp", ""),
}
_TYPES: Final[dict[str, Any]] = {
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "": None,
}


@cache
def _functions() -> dict[str, Any]:
    """Compile, load and declare the library once a process."""
    library = ctypes.PyDLL(str(LIBRARY.build()))
    found: dict[str, Any] = {}
    for name, (taken, given) in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = [_TYPES[kind] for kind in taken]
        function.restype = _TYPES[given]
        found[name] = function
    version = found["am_version"]()
    if version != VERSION:
        raise KernelError(f"the native argument machine is version {version}, expected {VERSION}")
    return found


_LENDERS: Final[weakref.WeakKeyDictionary[TokenVocabulary, NativeMachine]] = (
    weakref.WeakKeyDictionary()
)


class NativeMachine:
    """The tables and the vocabulary in C's hands, and what all sessions share.

    Raises:
        KernelError: it can't be built here, or there is no memory for it.

    """

    def __init__(
        self, tables: ArgumentTables, facts: TableFacts, vocabulary: TokenVocabulary
    ) -> None:
        self.call = _functions()
        self.words = -(-vocabulary.size // 32)
        starts, spellings = vocabulary.joined
        arrays: list[NDArray[Any]] = [
            tables.nodes,
            tables.lists,
            tables.property_nodes,
            tables.trie_edges,
            tables.trie_bytes,
            tables.trie_targets,
            tables.trie_values,
            tables.trie_leaves,
            tables.trie_order,
            facts.automata,
            tables.interval_starts,
            tables.interval_classes,
            tables.transitions,
            facts.accepts,
            facts.distance,
            facts.farthest,
            facts.universal,
            facts.depth,
            facts.required,
            facts.levels.first,
            facts.levels.depths,
            facts.levels.keys,
            facts.texts,
            vocabulary.bytes,
            vocabulary.ends,
            vocabulary.token_starts,
            vocabulary.tokens,
            vocabulary.child_starts,
            vocabulary.child_nodes,
            starts,
            spellings,
            vocabulary.bytes[vocabulary.child_nodes].astype(np.uint8),
        ]
        # C reads these as long as the machine lives.
        self._kept = [np.ascontiguousarray(array) for array in arrays]
        numbers = [
            len(vocabulary.bytes),
            len(vocabulary.tokens),
            vocabulary.size,
            vocabulary.longest,
            # Where a token ends one free key and begins the next, the machine shares less.
            int(vocabulary.keys_within_tokens),
        ]
        words = [array.ctypes.data for array in self._kept] + numbers
        grammar = (ctypes.c_int64 * len(words))(*words)
        # The first machine of a vocabulary lends the others what it learned of it.
        self._lender = _LENDERS.get(vocabulary)
        lent = None if self._lender is None else self._lender.handle
        handle = self.call["am_machine_new"](ctypes.addressof(grammar), lent)
        if not handle:
            raise KernelError("no memory for the argument machine; give the process more")
        self.handle: int = handle
        if self._lender is None:
            _LENDERS[vocabulary] = self
        weakref.finalize(self, self.call["am_machine_free"], handle)
        self._space = (ctypes.c_int32 * vocabulary.size)()
        self._address = ctypes.addressof(self._space)

    def tokens_of(self, bits: int) -> I32:
        """Return the tokens of the mask at an address, ascending; not to be written to."""
        count = self.call["am_tokens"](bits, self.words, self._address)
        return np.frombuffer(ctypes.string_at(self._address, 4 * count), np.int32)


class NativeSession:
    """An `ArgumentSession` in C.

    Raises:
        CapacityError: no memory.

    """

    def __init__(
        self, machine: NativeMachine, vocabulary: TokenVocabulary, completer: Completer, root: int
    ) -> None:
        self._machine = machine  # outlives its sessions
        self._vocabulary = vocabulary
        self._completer = completer
        self._call = machine.call
        bits = np.zeros(machine.words, np.uint32)  # C writes each mask here
        self._bits: int = bits.ctypes.data
        self._mask = bits.view()
        self._mask.flags.writeable = False
        handle = self._call["am_session_new"](machine.handle, root, self._bits)
        if not handle:
            raise CapacityError("no memory for a session; wait for a request to finish")
        self._handle: int = handle
        weakref.finalize(self, _free_session, machine, handle)
        self._flags: int = self._call["am_flags"](handle)
        self._tokens: dict[int, I32] = {}
        self._tokens_bytes = 0
        self._reader = StackReader(self._call, handle)
        # These are asked for every token.
        self._ask_mask, self._read_token = self._call["am_mask"], self._call["am_advance_token"]

    @property
    def accepts(self) -> bool:
        """See `ArgumentSession`."""
        return bool(self._flags & _ACCEPTS)

    @property
    def finished(self) -> bool:
        """See `ArgumentSession`."""
        return bool(self._flags & _FINISHED)

    def allowed(self) -> I32:
        """See `ArgumentSession`."""
        number = self._make_mask()
        found = self._tokens.get(number)
        if found is None:
            if self._tokens_bytes > MAX_TOKENS_BYTES:
                self._forget()
            found = self._tokens[number] = self._machine.tokens_of(self._bits)
            self._tokens_bytes += found.nbytes
        return found

    def mask(self) -> NDArray[np.uint32]:
        """See `ArgumentSession`."""
        self._make_mask()
        return self._mask

    def advance(self, token: int) -> None:
        """See `ArgumentSession`."""
        flags: int = self._read_token(self._handle, token)
        if flags < _REFUSED:
            flags = self._mended(flags, self._read_token, token)
        if flags >= 0:
            self._stand(flags)
        else:
            raise refused(token, self._vocabulary.spelling(token))

    def advance_bytes(self, text: bytes) -> bool:
        """See `ArgumentSession`."""
        return self._take(self._call["am_advance"], text, len(text))

    def forced(self) -> bytes:
        """See `ArgumentSession`."""
        space = ctypes.create_string_buffer(256)
        length = self._checked(self._call["am_forced"], ctypes.addressof(space), len(space))
        if length == len(space):
            space = ctypes.create_string_buffer(MAX_FORCED_BYTES)
            length = self._checked(self._call["am_forced"], ctypes.addressof(space), len(space))
        return space.raw[:length]

    def shortest(self) -> bytes:
        """See `ArgumentSession`."""
        return self._reader.shortest(self._completer)

    def closing(self) -> bytes:
        """See `ArgumentSession`."""
        if not self._flags & _IN_STRING:
            return b""
        if self._flags & _CLOSABLE:
            return b'"'
        return self._completer.closing(self._reader.stacks())

    def _take(self, read: Any, *text: object) -> bool:
        flags = self._checked(read, *text)
        if flags < 0:
            return False
        self._stand(flags)
        return True

    def _stand(self, flags: int) -> None:
        """Keep what C told of where the session stands now."""
        self._flags = flags
        if flags & _FULL:
            # Without memory for a new arena the old one serves for a while.
            with contextlib.suppress(CapacityError):
                self._restart()

    def _make_mask(self) -> int:
        """Have the mask made and return its number."""
        number: int = self._ask_mask(self._handle)
        return number if number >= 0 else self._mended(number, self._ask_mask)

    def _checked(self, function: Any, *arguments: object) -> int:
        """Call, with a new arena where the old one is full; -1 is for the caller."""
        result: int = function(self._handle, *arguments)
        return result if result >= _REFUSED else self._mended(result, function, *arguments)

    def _mended(self, result: int, function: Any, *arguments: object) -> int:
        """Call again with a new arena after an error, or raise it."""
        if result != _NO_MEMORY:
            self._restart()
            result = function(self._handle, *arguments)
        if result == _NO_MEMORY:
            raise CapacityError("no memory for a session's states; wait for a request to finish")
        if result < _REFUSED:
            raise CapacityError(
                f"a text can be read in more than {MAX_STACKS} ways at once, or needs more states "
                "than a session may hold; let the schema say sooner which of its options is meant"
            )
        return result

    def _restart(self) -> None:
        if self._call["am_restart"](self._handle) < 0:
            raise CapacityError("no memory for a session's states; wait for a request to finish")
        self._forget()
        self._reader.forget()
        self._flags = self._call["am_flags"](self._handle)

    def _forget(self) -> None:
        self._tokens.clear()
        self._tokens_bytes = 0


def _free_session(machine: NativeMachine, handle: int) -> None:
    machine.call["am_session_free"](handle)
