"""The compiled machine against the plain one: the same answers at every step of random walks."""

from __future__ import annotations

import random
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from catalog_compiler.arguments.nodes import Array, Literals, Number, Object, Property, Text, Union
from decoder.arguments import ArgumentMachine, ArgumentSession, TokenVocabulary, native
from decoder.arguments.session import bits_of
from decoder.errors import CapacityError, KernelError, RequestError
from decoder.native_library import NativeLibrary
from tests.decoder.arguments.grammars import (
    WORDS,
    all_but,
    automaton,
    draw_grammar,
    grammar,
    integers,
    literals,
    of_words,
    tables_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_compiler.arguments.nodes import ArgumentGrammar

FRAGMENTS = [
    *('"', '": ', ", ", '": "', '", "', '{"', '"}', "[", "]", "}}", "1", "12", "-", "\\", "\\u"),
    *("00", "e9", "d83d", "\\ude00", "\\n", "a", "b", "ab", "c", "x", "q", "é", "日本", "😀"),
    *("null", "true", " ", ":", ",", "xx", "abc", "\n"),
]
"""What tokens are put together from."""


@cache
def vocabulary(kind: str) -> TokenVocabulary:
    rng = random.Random(kind)
    spellings: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    wide = [f'"{rng.choice("abcxqé")}{n}' for n in range(70)] if kind == "wide" else []
    spellings += [text.encode() for text in wide]
    for _ in range({"small": 0, "wide": 300, "keys": 200}[kind]):
        text = "".join(rng.choices(FRAGMENTS, k=rng.randint(2, 4))).encode()
        spellings.append(text[rng.choice([0, 0, 0, 1]) : rng.choice([99, 99, -1])] or None)
    if kind == "keys":  # the end of one key and the next one, within one token
        spellings += [b'": 1, "', b'": 1, "a', b'": 1, "b": 1', b'"a": 1, "a": 1', b'": null, "x"']
    rng.shuffle(spellings)
    return TokenVocabulary(spellings)


def pair(drawn: ArgumentGrammar, kind: str) -> tuple[ArgumentSession, ArgumentSession]:
    tables, (root,) = tables_of(drawn)
    plain = ArgumentMachine(tables, vocabulary(kind), kernels="reference")
    compiled = ArgumentMachine(tables, vocabulary(kind), kernels="native")
    return plain.begin(root), compiled.begin(root)


def assert_same(plain: ArgumentSession, compiled: ArgumentSession, text: bytes) -> None:
    assert compiled.allowed().tolist() == plain.allowed().tolist(), text
    assert compiled.mask().tolist() == plain.mask().tolist(), text
    assert (compiled.accepts, compiled.finished) == (plain.accepts, plain.finished), text
    assert compiled.forced() == plain.forced(), text
    assert compiled.shortest() == plain.shortest(), text
    assert compiled.closing() == plain.closing(), text


def walk(drawn: ArgumentGrammar, kind: str, seed: int, steps: int = 25) -> None:
    rng = random.Random(seed)
    plain, compiled = pair(drawn, kind)
    text = b""
    for _ in range(steps):
        assert_same(plain, compiled, text)
        allowed = plain.allowed().tolist()
        if not allowed:
            break
        spelt = {token: vocabulary(kind).spelling(token) or b"" for token in allowed}
        ends = [token for token in allowed if spelt[token][-1:] in (b'"', b"}", b"]", b",")]
        token = rng.choice(ends if ends and rng.random() < 0.5 else allowed)
        plain.advance(token)
        compiled.advance(token)
        text += spelt[token]


@pytest.mark.parametrize("kind", ["small", "wide", "keys"])
@pytest.mark.parametrize("seed", range(30))
def test_random_walks_through_random_grammars(kind: str, seed: int) -> None:
    """Allowed tokens, forced runs, shortest ends and flags."""
    walk(draw_grammar(random.Random(seed)), kind, seed)


FREE = {
    "any": Object((), all_but(set()), (1,)),
    "declared": Object((Property("ab", 1, required=False),), all_but({"ab"}), (1,)),
    "few": Object((), of_words({w: n % 2 for n, w in enumerate(WORDS)}), (1, 2), 2, 5),
    # Up to 21 characters x or y: more than can be counted, but few near the end.
    "bounded": Object(
        (),
        automaton({n: {"x": n + 1, "y": n + 1} for n in range(21)}, dict.fromkeys(range(1, 22), 0)),
        (1,),
    ),
    # Endless beside a branch with one text.
    "mixed": Object((), automaton({0: {"x": 1, "a": 2}, 2: {"*": 2}}, {1: 0, 2: 1}), (1, 2)),
}


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("kind", ["small", "wide", "keys"])
@pytest.mark.parametrize("seed", range(3))
def test_free_keys(name: str, kind: str, seed: int) -> None:
    """Used keys are refused, in every spelling and within tokens."""
    walk(grammar(FREE[name], literals(1, None), literals("a")), kind, seed, steps=60)


@pytest.mark.parametrize("low", [0, 3, 40])
@pytest.mark.parametrize("room", [None, 0, 2, 9, 30])
def test_bounds_of_strings(low: int, room: int | None) -> None:
    """Far from a bound, near it, and at it."""
    nodes = (Array((), 1), Text(None, low, None if room is None else low + room))
    walk(grammar(*nodes), "wide", low, steps=60)


@pytest.mark.parametrize(
    "text",
    [
        Text(of_words(dict.fromkeys(WORDS, 0))),
        Text(all_but(set(WORDS)), 2, 12),
        Text(automaton({0: {"*": 1}, 1: {"*": 0}}, {0: 0})),
        Text(automaton({0: {"日": 1, "a": 2}, 1: {"本": 2}, 2: {"*": 2}}, {2: 0}), 0, 9),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_strings_with_rules(text: Text, seed: int) -> None:
    """Characters in parts, escapes, and states from where anything goes."""
    walk(grammar(Union((1, 2)), text, Array((1,), 1)), "wide", seed, steps=40)


def test_deep_values() -> None:
    """Up to the bound on nesting and back."""
    nodes = (Union((1, 2)), Array((), 0), Object((Property("a", 0, required=False),)))
    plain, compiled = pair(grammar(*nodes), "wide")
    for _ in range(31):
        for session in (plain, compiled):
            assert session.advance_bytes(b'[{"a": ')
    assert_same(plain, compiled, b"62 deep")
    for session in (plain, compiled):
        assert session.advance_bytes(b"[{")
    assert_same(plain, compiled, b"64 deep")
    assert compiled.forced() == b"}"


def session(*nodes: object, kind: str = "wide") -> ArgumentSession:
    tables, (root,) = tables_of(grammar(*nodes))  # type: ignore[arg-type]
    return ArgumentMachine(tables, vocabulary(kind)).begin(root)


def test_what_is_refused_changes_nothing() -> None:
    """Unknown tokens, and bytes of which only the first would do."""
    here = session(Number(integers()))
    before = here.allowed().tolist()
    for token in (-1, 1 << 40, vocabulary("wide").size):
        with pytest.raises(RequestError):
            here.advance(token)
    assert not here.advance_bytes(b"1x")
    assert here.advance_bytes(b"")
    assert here.allowed().tolist() == before
    assert not here.accepts


def test_a_long_text_begins_new_arenas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session drops what it worked out when that grows, and its answers stay the same."""
    restarts = []
    restart = native.NativeSession._restart
    monkeypatch.setattr(
        native.NativeSession, "_restart", lambda s: (restarts.append(1), restart(s))[1]
    )
    nodes = (Object((Property("a", 1, required=True),), all_but({"a"}), (1,)), Text(None, 1, 10**6))
    here = session(*nodes)
    assert here.advance_bytes(b'{"a": "x", "key": "')
    for _ in range(40):
        assert here.advance_bytes("éa".encode() * 2500)
    assert restarts
    fresh = session(*nodes)
    assert fresh.advance_bytes(b'{"a": "x", "key": "yy')
    assert here.allowed().tolist() == fresh.allowed().tolist()
    assert here.shortest() == b'"}'
    assert here.advance_bytes(b'", "key')
    assert not here.advance_bytes(b'"')
    assert here.advance_bytes(b'2": "')


def test_too_many_ways_to_read_are_an_error_and_the_session_stays() -> None:
    """Options that differ inside multiply with each level of nesting."""
    options = tuple(range(1, 9))
    nodes = (
        Union(options),
        *(Array((), 0, 0, 100 + option) for option in options),
    )
    here = session(*nodes, kind="small")
    assert here.advance_bytes(b"[[")
    with pytest.raises(CapacityError, match="ways"):
        here.advance_bytes(b"[")
    assert here.advance_bytes(b"]]")
    assert here.finished


def test_lists_of_tokens_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are dropped together, and worked out again."""
    monkeypatch.setattr(native, "MAX_TOKENS_BYTES", 2000)
    here = session(Array((), 1), Text())
    for text in (b"[", b'"', b"a", b'"', b", ", b'"', b'"', b"]"):
        assert here.advance_bytes(text)
        assert here.mask().tolist() == bits_of(here.allowed(), vocabulary("wide").size).tolist()
        assert sum(one.nbytes for one in here._tokens.values()) <= 4000  # type: ignore[attr-defined]


def test_masks_are_kept_within_a_bound() -> None:
    """More of them than C keeps, each once more where the first of them are gone."""
    size = 1 << 20
    spellings: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    wide = TokenVocabulary([*spellings, *[None] * (size - 256)])  # 128 KiB a mask: 256 are kept
    text = b"".join(b"%03d" % number for number in range(130))
    tables, (root,) = tables_of(grammar(Literals((text,))))
    machine = ArgumentMachine(tables, wide)
    here = machine.begin(root)
    for byte in text:
        mask = here.mask()
        assert mask[byte >> 5] == 1 << (byte & 31)
        assert mask.sum() == mask[byte >> 5]
        assert here.allowed().tolist() == [byte]
        here.advance(byte)
    assert here.finished


def test_masks_are_not_to_be_written_to() -> None:
    """They are kept."""
    here = session(Text())
    for array in (here.allowed(), here.mask()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_sessions_share_and_stay_apart() -> None:
    """Two of one machine, in turn."""
    tables, (root,) = tables_of(grammar(Array((), 1), Text(None, 0, 4)))
    machine = ArgumentMachine(tables, vocabulary("wide"))
    left, right = machine.begin(root), machine.begin(root)
    assert left.advance_bytes(b'["abcd')
    assert right.advance_bytes(b'["abcd", "')
    assert left.advance_bytes(b'", "')
    assert left.allowed().tolist() == right.allowed().tolist()
    del machine, left
    assert right.advance_bytes(b'ab"]')
    assert right.finished


def test_a_missing_compiler_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And the plain machine works without one."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path_factory.mktemp("cache")))
    native._functions.cache_clear()
    tables, (root,) = tables_of(grammar(Literals((b"1",))))
    with pytest.raises(KernelError, match="no C compiler found"):
        ArgumentMachine(tables, vocabulary("small"))
    plain = ArgumentMachine(tables, vocabulary("small"), kernels="reference").begin(root)
    assert plain.forced() == b"1"
    assert isinstance(plain.mask(), np.ndarray)


FAILING = """
#include <stdlib.h>
static long failing_left = -1;
static int failing(void) { return failing_left >= 0 && failing_left-- == 0; }
static void *failing_malloc(size_t n) { return failing() ? NULL : malloc(n); }
static void *failing_calloc(size_t n, size_t m) { return failing() ? NULL : calloc(n, m); }
static void *failing_realloc(void *p, size_t n) { return failing() ? NULL : realloc(p, n); }
#define malloc failing_malloc
#define calloc failing_calloc
#define realloc failing_realloc
#include "machine.c"
API void am_fail_after(long calls) { failing_left = calls; }
"""


def test_without_memory_there_is_an_error_and_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each allocation of a machine and a session fails once."""
    source = tmp_path / "failing.c"
    source.write_text(FAILING)
    include = f"-I{native.LIBRARY.source.parent}"
    failing = NativeLibrary("failing", source, (), (*native.LIBRARY.flags, "-Wall", include))
    monkeypatch.setenv("POINTSMAN_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "LIBRARY", failing)
    monkeypatch.setitem(native._SIGNATURES, "am_fail_after", ("l", ""))
    native._functions.cache_clear()
    tables, (root,) = tables_of(grammar(FREE["declared"], literals(1, None)))
    fail_after = native._functions()["am_fail_after"]
    text = (b'{"', b"a", b'b": 1, "', b"x", b'": null, "', b"y", b'": 1', b"}")
    failures = 0
    for calls in range(200):
        fail_after(calls)
        try:
            here = ArgumentMachine(tables, vocabulary("wide")).begin(root)
        except (KernelError, CapacityError):
            failures += 1
            continue
        for part in text:
            for step in (here.mask, here.forced, partial(here.advance_bytes, part)):
                try:
                    step()
                except CapacityError:
                    failures += 1
                    step()
        assert here.finished
        assert here.shortest() == b""
    fail_after(-1)
    native._functions.cache_clear()
    assert failures > 30
