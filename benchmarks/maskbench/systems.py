"""How each system compiles a schema and is asked about tokens: ours and three peers.

Owns one class a system. All have the same tokenizer, spell JSON with ``, `` and ``: ``, and give a
mask over the vocabulary before each token. Never decides what is right: `judge` does.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from benchmarks.maskbench.rows import peer_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEPARATORS: Final = (", ", ": ")


class RefusedSchemaError(Exception):
    """The system says that it doesn't take the schema."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What every system is given.

    Attributes:
        tokenizer: `tokenizers`' JSON.
        spellings: each token's bytes, None where it is no text.
        end_token: what ends an answer.

    """

    tokenizer: str
    spellings: tuple[bytes | None, ...]
    end_token: int


class Walk(Protocol):
    """One text, token by token; `mask` and `advance` are what is timed."""

    def mask(self) -> None:
        """Find what may come next."""
        ...

    def allows(self, token: int) -> bool:
        """Look a token up in the mask."""
        ...

    def advance(self, token: int) -> None:
        """Take an allowed token."""
        ...

    def complete(self) -> bool:
        """Tell whether the text may end here."""
        ...


class Compiled(Protocol):
    """A compiled schema."""

    checked_after: bool

    def texts(self, value: Any) -> Sequence[str]:
        """Return the spellings to ask about."""
        ...

    def walk(self) -> Walk:
        """Begin a text."""
        ...

    def check(self, value: Any) -> bool:
        """Validate after decoding, where `checked_after` asks for it."""
        ...


class System(Protocol):
    """What the worker asks of a system."""

    how: str

    def compile(self, schema: Any) -> Compiled:
        """Compile up to where a first mask can be asked for; RefusedSchemaError where it can't."""
        ...


class _BitWalk:
    """A walk whose mask is bits in 32-bit words."""

    def __init__(self, words: int) -> None:
        self.bits = np.zeros((1, words), np.int32)

    def allows(self, token: int) -> bool:
        """See `Walk`."""
        return bool(int(self.bits[0, token >> 5]) >> (token & 31) & 1)


class Ours:
    """The compiler's grammar, its tables, and the decoder's machine."""

    def __init__(self, vocabulary: Vocabulary, *, assert_formats: bool = True) -> None:
        from decoder.arguments import TokenVocabulary  # noqa: PLC0415

        self._vocabulary = TokenVocabulary(vocabulary.spellings)
        self._assert_formats = assert_formats
        self.how = f"formats {'asserted' if assert_formats else 'as annotations'}"

    def compile(self, schema: Any) -> Compiled:
        """See `System`."""
        from catalog_compiler.arguments.schema import compile_schema  # noqa: PLC0415
        from catalog_compiler.arguments.tables import ArgumentPool  # noqa: PLC0415
        from decoder.arguments import ArgumentMachine, ArgumentTables  # noqa: PLC0415

        compiled = compile_schema(schema, assert_formats=self._assert_formats)
        if compiled.grammar is None:
            assert compiled.refusal is not None
            raise RefusedSchemaError(compiled.refusal.code, compiled.refusal.message)
        pool = ArgumentPool()
        root = pool.add(compiled.grammar)
        machine = ArgumentMachine(ArgumentTables.from_arrays(pool.to_arrays()), self._vocabulary)
        return _OurCompiled(
            schema, compiled.grammar, machine, root, checked_after=bool(compiled.checked_after),
            assert_formats=self._assert_formats,
        )  # fmt: skip


class _OurCompiled:
    def __init__(
        self, schema: Any, grammar: Any, machine: Any, root: int, *, checked_after: bool,
        assert_formats: bool,
    ) -> None:  # fmt: skip
        self.checked_after = checked_after
        self._schema, self._grammar, self._machine, self._root = schema, grammar, machine, root
        self._assert_formats = assert_formats
        self._validate: Callable[[Any], Sequence[str]] | None = None

    def texts(self, value: Any) -> Sequence[str]:
        from catalog_compiler.arguments.arrange import arrange  # noqa: PLC0415

        return arrange(self._grammar, value)

    def walk(self) -> Walk:
        return _OurWalk(self._machine.begin(self._root))

    def check(self, value: Any) -> bool:
        from catalog_compiler.arguments.schema import validator  # noqa: PLC0415

        if self._validate is None:
            self._validate = validator(self._schema, assert_formats=self._assert_formats)
        return not self._validate(value)


class _OurWalk:
    def __init__(self, session: Any) -> None:
        self._session = session
        self._bits = np.zeros(0, np.uint32)

    def mask(self) -> None:
        self._bits = self._session.mask()

    def allows(self, token: int) -> bool:
        return bool(int(self._bits[token >> 5]) >> (token & 31) & 1)

    def advance(self, token: int) -> None:
        self._session.advance(token)

    def complete(self) -> bool:
        return bool(self._session.accepts)


class _PeerCompiled:
    """What a peer's compiled schemas have alike: an instance's spellings, and no check after."""

    checked_after = False

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._order: Any = None

    def texts(self, value: Any) -> Sequence[str]:
        from catalog_compiler.arguments.arrange import arrange  # noqa: PLC0415
        from catalog_compiler.arguments.schema import compile_schema  # noqa: PLC0415

        # Ours puts each item in the order of the option that it fits: no peer is to miss that.
        self._order = self._order or compile_schema(self._schema).grammar
        ours = arrange(self._order, value) if self._order else ()
        return tuple(dict.fromkeys([*peer_texts(self._schema, value), *ours]))

    def check(self, value: Any) -> bool:
        raise NotImplementedError


class LLGuidance:
    """llguidance's matcher: masks are made when they are asked for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance  # noqa: PLC0415

        self._library: Any = llguidance
        self._tokenizer = llguidance.LLTokenizer(
            vocabulary.tokenizer, eos_token=vocabulary.end_token
        )
        self._words = (len(vocabulary.spellings) + 31) // 32
        self.how = f"{version('llguidance')}, LLMatcher, no flexible white space, not lenient"

    def compile(self, schema: Any) -> Compiled:
        """See `System`."""
        comma, colon = SEPARATORS
        try:
            grammar = self._library.LLMatcher.grammar_from_json_schema(
                json.dumps(schema),
                overrides={
                    "whitespace_flexible": False, "item_separator": comma, "key_separator": colon,
                },
            )  # fmt: skip
        except ValueError as error:
            raise RefusedSchemaError("refused", str(error)) from error
        matcher = self._library.LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise RefusedSchemaError("refused", matcher.get_error())
        return _LLGuidanceCompiled(schema, matcher, self._words)


class _LLGuidanceCompiled(_PeerCompiled):
    def __init__(self, schema: Any, matcher: Any, words: int) -> None:
        super().__init__(schema)
        self._matcher, self._words = matcher, words

    def walk(self) -> Walk:
        return _LLGuidanceWalk(self._matcher.deep_copy(), self._words)


class _LLGuidanceWalk(_BitWalk):
    def __init__(self, matcher: Any, words: int) -> None:
        super().__init__(words)
        self._matcher = matcher
        self._place, self._size = self.bits.ctypes.data, self.bits.nbytes

    def mask(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(self._place, self._size)
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error())

    def advance(self, token: int) -> None:
        if not self._matcher.consume_token(token):
            raise RuntimeError(self._matcher.get_error())

    def complete(self) -> bool:
        return bool(self._matcher.is_accepting())


class XGrammar:
    """xgrammar's compiled grammar: what masks have alike is made when the schema is compiled."""

    def __init__(self, vocabulary: Vocabulary, *, strict: bool = False) -> None:
        import xgrammar  # noqa: PLC0415

        self._library: Any = xgrammar
        info = xgrammar.TokenizerInfo(
            [spelling or b"" for spelling in vocabulary.spellings],
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=len(vocabulary.spellings),
            stop_token_ids=[vocabulary.end_token],
        )
        self._compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
        self._size = len(vocabulary.spellings)
        self._end, self._strict = vocabulary.end_token, strict
        members = "none but those declared" if strict else "what the schema says"
        self.how = (
            f"{version('xgrammar')}, any_whitespace=False, strict_mode={strict} (additional "
            f"members: {members})"
        )

    def compile(self, schema: Any) -> Compiled:
        """See `System`."""
        try:
            grammar = self._compiler.compile_json_schema(
                json.dumps(schema), any_whitespace=False, separators=SEPARATORS,
                strict_mode=self._strict,
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise RefusedSchemaError("refused", str(error)) from error
        return _XGrammarCompiled(schema, self._library, grammar, self._size, self._end)


class _XGrammarCompiled(_PeerCompiled):
    def __init__(self, schema: Any, library: Any, grammar: Any, size: int, end: int) -> None:
        super().__init__(schema)
        self._library, self._grammar, self._size, self._end = library, grammar, size, end
        self.walk()

    def walk(self) -> Walk:
        matcher = self._library.GrammarMatcher(self._grammar)
        bits = self._library.allocate_token_bitmask(1, self._size)
        return _XGrammarWalk(matcher, bits, self._end)


class _XGrammarWalk(_BitWalk):
    def __init__(self, matcher: Any, tensor: Any, end: int) -> None:
        self._matcher, self._tensor, self._end = matcher, tensor, end
        self.bits = tensor.numpy()  # the same memory

    def mask(self) -> None:
        # False says that every token is allowed, and leaves the mask as it was.
        if not self._matcher.fill_next_token_bitmask(self._tensor):
            self.bits[:] = -1

    def advance(self, token: int) -> None:
        if not self._matcher.accept_token(token):
            raise RuntimeError(f"token {token} is refused though the mask allows it")

    def complete(self) -> bool:
        self.mask()
        return self.allows(self._end)


class OutlinesCore:
    """outlines-core's index: every mask is made when the schema is compiled."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import outlines_core  # noqa: PLC0415

        self._library: Any = outlines_core
        ids: dict[bytes, list[int]] = {}
        for token, spelling in enumerate(vocabulary.spellings):
            if spelling and token != vocabulary.end_token:
                ids.setdefault(spelling, []).append(token)
        self._vocabulary = outlines_core.Vocabulary(vocabulary.end_token, ids)
        self._words = (len(vocabulary.spellings) + 31) // 32
        self.how = f"{version('outlines-core')}, build_regex_from_schema and Index, its own spaces"

    def compile(self, schema: Any) -> Compiled:
        """See `System`."""
        try:
            pattern = self._library.json_schema.build_regex_from_schema(json.dumps(schema))
            index = self._library.Index(pattern, self._vocabulary)
        except (ValueError, TypeError) as error:
            raise RefusedSchemaError("refused", str(error)) from error
        return _OutlinesCompiled(schema, self._library, index, self._words)


class _OutlinesCompiled(_PeerCompiled):
    def __init__(self, schema: Any, library: Any, index: Any, words: int) -> None:
        super().__init__(schema)
        self._library, self._index, self._words = library, index, words
        self.walk()

    def walk(self) -> Walk:
        return _OutlinesWalk(self._library.Guide(self._index), self._words)


class _OutlinesWalk(_BitWalk):
    def __init__(self, guide: Any, words: int) -> None:
        super().__init__(words)
        self._guide = guide
        self._place = self.bits.ctypes.data

    def mask(self) -> None:
        self._guide.write_mask_into(self._place, self.bits.size, 4)

    def advance(self, token: int) -> None:
        self._guide.advance(token, return_tokens=False)

    def complete(self) -> bool:
        return bool(self._guide.is_finished())


PEERS: Final[dict[str, tuple[str, Callable[[Vocabulary], System]]]] = {
    "llguidance": ("llguidance", LLGuidance),
    "xgrammar": ("xgrammar", XGrammar),
    # Its default: another meaning of a schema than the standard's, and quicker to compile.
    "xgrammar-strict": ("xgrammar", functools.partial(XGrammar, strict=True)),
    "outlines-core": ("outlines_core", OutlinesCore),
}
"""Name, module that has to be installed, class."""
