"""The plain machine: exact texts, no dead ends, and what it accepts is what the nodes allow."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_compiler.arguments.automaton import Automaton
from catalog_compiler.arguments.nodes import (
    ArgumentGrammar,
    Array,
    DistinctLiterals,
    Literals,
    Node,
    Number,
    Object,
    Property,
    Text,
    Union,
)
from decoder.arguments import ArgumentMachine, ArgumentSession, TokenVocabulary
from decoder.errors import BudgetError, KernelError, RequestError
from tests.decoder.arguments.grammars import (
    all_but,
    draw_grammar,
    grammar,
    integers,
    literals,
    of_words,
    tables_of,
    valid,
)

if TYPE_CHECKING:
    import numpy as np

BYTES = TokenVocabulary([bytes([byte]) for byte in range(256)])


def session(*nodes: Node, vocabulary: TokenVocabulary = BYTES) -> ArgumentSession:
    tables, roots = tables_of(grammar(*nodes))
    return ArgumentMachine(tables, vocabulary, kernels="reference").begin(roots[0])


def accepts(nodes: tuple[Node, ...], text: bytes) -> bool:
    here = session(*nodes)
    return here.advance_bytes(text) and here.accepts if text else here.accepts


CITY = Object((Property("city", 1, required=True), Property("days", 2, required=False)))
WEATHER = (CITY, Text(None, 1, 5), Number(integers()))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ('{"city": "Ulm"}', True),
        ('{"city": "Ulm", "days": 3}', True),
        ('{"city": "Ulm", "days": -12}', True),
        ('{"city": "Ulm", "days": 03}', False),
        ('{"city": "Ulm", "days": -}', False),
        ('{"days": 3, "city": "Ulm"}', False),
        ('{"days": 3}', False),
        ("{}", False),
        ('{"city":"Ulm"}', False),
        ('{"city": "Ulm" }', False),
        ('{"city": "Ulm", }', False),
        ('{"city": ""}', False),
        ('{"city": "Bonn am Rhein"}', False),
        ('{"city": "12345"}', True),
        ('{"city": "123456"}', False),
        ('{"city": "日本日本日"}', True),
        ('{"city": "日本日本日本"}', False),
        ('{"city": "\\u65e5\\n\\"\\\\/"}', True),
        ('{"city": "\\ud83d\\ude00"}', True),
        ('{"city": "\\ud83d"}', False),
        ('{"city": "\\ude00"}', False),
        ('{"city": "\\x"}', False),
        ('{"city": "a\nb"}', False),
        ('{"city": "\x7f"}', True),
        ('{"c\\u0069ty": "Ulm"}', False),
    ],
)
def test_an_object_of_declared_properties(text: str, whole: bool) -> None:
    """Keys stand in order and in one spelling; strings take any escape and count characters."""
    assert accepts(WEATHER, text.encode()) is whole


@pytest.mark.parametrize(
    "text",
    [
        *(b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80"),
        *(b"\xed\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80"),
        *(b"\xf5\x80\x80\x80", b"\x80", b"\xff", b"\xe6\x97", b"\x00", b"\x1f"),
    ],
)
def test_bytes_that_are_no_character_are_refused(text: bytes) -> None:
    """Overlong forms, surrogates, what lies beyond U+10FFFF, and control characters."""
    assert not accepts((Text(),), b'"' + text + b'"')


@pytest.mark.parametrize("code_point", [0x20, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF])
def test_the_ends_of_each_length_are_read(code_point: int) -> None:
    """As UTF-8 and as an escape."""
    assert accepts((Text(None, 1, 1),), f'"{chr(code_point)}"'.encode())
    assert accepts((Text(None, 1, 1),), f'"\\u{code_point:04X}"'.encode())


def test_pairs_reach_from_the_first_to_the_last_plane() -> None:
    """Two escapes are one character."""
    for pair in (b"\\ud800\\udc00", b"\\uDBFF\\uDFFF", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf"):
        assert accepts((Text(None, 1, 1),), b'"' + pair + b'"'), pair


def test_a_character_that_can_become_nothing_allowed_is_refused_at_its_first_byte() -> None:
    """Only é is allowed: other lead bytes and escapes of others are dead at once."""
    here = session(Text(of_words({"é": 0})))
    assert here.advance_bytes(b'"')
    assert here.allowed().tolist() == [ord("\\"), 0xC3]
    assert here.advance_bytes(b"\\")
    assert here.allowed().tolist() == [ord("u")]
    for given, then in (
        (b"u", b"0"),
        (b"0", b"0"),
        (b"0", b"eE"),
        (b"E", b"9"),
        (b"9", b'"'),
    ):
        assert here.advance_bytes(given)
        assert here.allowed().tolist() == sorted(then)


@pytest.mark.parametrize(
    ("text", "whole"),
    [("1", True), ("12", True), ("123", False), ("", False), ('"a"', True), ("null", True)],
)
def test_literals_may_begin_one_another(text: str, whole: bool) -> None:
    """1 beside 12."""
    assert accepts((literals(1, 12, "a", None),), text.encode()) is whole


def test_a_number_ends_where_its_state_accepts() -> None:
    """What follows is the array's."""
    nodes = (Array((), 1, 0, 2), Number(integers()))
    for text, whole in (
        (b"[]", True),
        (b"[0]", True),
        (b"[0, -5]", True),
        (b"[0, -]", False),
        (b"[1, 2, 3]", False),
        (b"[1,2]", False),
        (b"[1, ]", False),
        (b"[, 1]", False),
    ):
        assert accepts(nodes, text) is whole, text


def test_prefix_items_then_none() -> None:
    """A tuple of two, the second one optional."""
    nodes = (Array((1, 2), None, 1), literals(True), literals(None))
    found = [t for t in (b"[]", b"[true]", b"[true, null]", b"[true, null, null]", b"[null]")
             if accepts(nodes, t)]  # fmt: skip
    assert found == [b"[true]", b"[true, null]"]


def test_distinct_literals_come_once_each() -> None:
    """Used ones are refused, 12 stays possible after 1, and bounds are kept."""
    nodes = (DistinctLiterals(literals(1, 12, "a").texts, 1, 2),)
    for text, whole in (
        (b"[]", False),
        (b"[1]", True),
        (b"[1, 12]", True),
        (b"[12, 1]", True),
        (b"[1, 1]", False),
        (b'["a", "a"]', False),
        (b'["a", 12]', True),
        (b'["a", 12, 1]', False),
    ):
        assert accepts(nodes, text) is whole, text


def test_skipped_properties_leave_enough_for_the_bounds() -> None:
    """Of three optional ones at least two, at most two."""
    members = tuple(Property(key, 1, required=False) for key in "abc")
    nodes = (Object(members, None, (), 2, 2), literals(1))
    for text, whole in (
        (b'{"a": 1, "b": 1}', True),
        (b'{"a": 1, "c": 1}', True),
        (b'{"b": 1, "c": 1}', True),
        (b'{"a": 1}', False),
        (b'{"a": 1, "b": 1, "c": 1}', False),
        (b"{}", False),
    ):
        assert accepts(nodes, text) is whole, text
    here = session(*nodes)
    assert here.advance_bytes(b'{"')
    assert here.allowed().tolist() == [ord("a"), ord("b")]  # after c there would be one alone


def test_a_required_property_is_not_crowded_out() -> None:
    """One member at most: the optional one before the required one can't be taken."""
    nodes = (
        Object((Property("a", 1, required=False), Property("b", 1, required=True)), None, (), 0, 1),
        literals(1),
    )
    assert session(*nodes).forced() == b'{"b": 1}'


def test_free_keys_come_after_declared_ones_and_never_twice() -> None:
    """Whatever their spelling."""
    nodes = (
        Object((Property("a", 1, required=True),), all_but({"a"}), (1,)),
        Number(integers()),
    )
    for text, whole in (
        (b'{"a": 1}', True),
        (b'{"a": 1, "b": 2}', True),
        (b'{"a": 1, "b": 2, "ab": 3, "": 4}', True),
        (b'{"a": 1, "b": 2, "b": 3}', False),
        (b'{"a": 1, "b": 2, "\\u0062": 3}', False),
        (b'{"a": 1, "\\u0061": 3}', False),
        (b'{"b": 1, "a": 2}', False),
        (b'{"a": 1, "\\u00e9": 2, "\xc3\xa9": 3}', False),
        (b'{"a": 1, "\\u00e9": 2, "e": 3}', True),
    ):
        assert accepts(nodes, text) is whole, text


def test_free_keys_that_run_out() -> None:
    """Two keys are possible: the third comma is refused, and so is a prefix that is used up."""
    nodes = (Object((), of_words({"xa": 0, "xb": 1}), (1, 2), 0, None), literals(1), literals("z"))
    here = session(*nodes)
    assert here.advance_bytes(b'{"xa": 1, "x')
    assert here.allowed().tolist() == sorted(b"b\\")
    assert here.advance_bytes(b'b": "z"')
    assert here.allowed().tolist() == [ord("}")]


def test_a_union_keeps_all_its_options() -> None:
    """Until one of them is refused."""
    nodes = (Union((1, 2, 3)), literals("red", 5), Text(None, 4, 4), Array((), 1))
    for text, whole in (
        (b'"red"', True),
        (b'"blue"', True),
        (b'"reds"', True),
        (b'"re"', False),
        (b"5", True),
        (b'["red", 5]', True),
        (b'["blue"]', False),
    ):
        assert accepts(nodes, text) is whole, text


def test_nesting_ends_at_the_bound() -> None:
    """A recursive value may be 64 deep; the mask refuses the opening of the next."""
    nodes = (Array((), 0),)
    here = session(*nodes)
    for _ in range(63):
        here.advance(ord("["))
    assert here.allowed().tolist() == sorted(b"[]")
    here.advance(ord("["))
    assert here.allowed().tolist() == [ord("]")]
    assert here.advance_bytes(b"]" * 64)
    assert here.finished


def test_a_value_that_needs_more_than_the_room_left_is_never_begun() -> None:
    """The optional child needs three levels of its own."""
    nodes = (
        Object((Property("child", 1, required=False),)),
        Array((2,), None, 1),
        Array((0,), None, 1),
    )
    here = session(*nodes)
    for _ in range(21):
        assert here.advance_bytes(b'{"child": [[')
    assert here.advance_bytes(b"{")
    assert here.allowed().tolist() == [ord("}")]  # 64 are open
    assert here.advance_bytes(b"}]]" + b"}]]" * 20 + b"}")
    assert here.finished


def test_forced_runs_end_at_the_first_choice() -> None:
    """Keys and punctuation, and nothing of what is free."""
    here = session(*WEATHER)
    assert here.forced() == b'{"city": "'
    assert here.advance_bytes(b'{"city": "Ulm"')
    assert here.forced() == b""
    assert here.advance_bytes(b",")
    assert here.forced() == b' "days": '


def test_what_is_whole_may_end() -> None:
    """A number at the end accepts and is not finished; an object is both."""
    here = session(Number(integers()))
    assert not here.accepts
    here.advance(ord("1"))
    assert here.accepts
    assert not here.finished
    assert here.forced() == b""
    closed = session(literals({}))
    assert closed.advance_bytes(b"{}")
    assert closed.finished
    assert not len(closed.allowed())


@pytest.mark.parametrize(
    ("read", "rest"),
    [
        (b"", b'{"city": "a"}'),
        (b'{"city": "Ulm', b'"}'),
        (b'{"city": "Ulm"', b"}"),
        (b'{"city": "Ulm",', b' "days": 0}'),
        (b'{"city": "\\', b'""}'),
        (b'{"city": "\xf0\x9f', b'\x80\x80"}'),
    ],
)
def test_the_shortest_rest(read: bytes, rest: bytes) -> None:
    """Optional members are left out, unless one is begun."""
    here = session(*WEATHER)
    assert not read or here.advance_bytes(read)
    assert here.shortest() == rest


def test_the_rest_of_a_string_is_closed_by_itself() -> None:
    """`closing` ends the string alone, and is empty outside of one."""
    here = session(*WEATHER)
    assert here.closing() == b""
    assert here.advance_bytes(b'{"city": "')
    assert here.closing() == b'a"'
    assert here.advance_bytes(b'Ulm"')
    assert here.closing() == b""
    free = session(Object((), all_but(set()), (1,)), literals(1))
    assert free.advance_bytes(b'{"": 1, "')
    assert free.closing() == b'a"'


@pytest.mark.parametrize(
    "node",
    [
        Text(None, (1 << 31) - 1),
        Array((), 1, (1 << 31) - 1),
        Object((), all_but(set()), (1,), 10_000),
    ],
)
def test_what_can_not_be_completed_within_reason_is_a_budget_error(node: Node) -> None:
    """Where such a value is one of several options, another one is taken."""
    with pytest.raises(BudgetError, match="262144 bytes"):
        session(node, literals(1)).shortest()
    huge = node if isinstance(node, Text) else replace(node, **_child(node))
    assert session(Union((1, 2)), huge, literals(None), literals(1)).shortest() == b"null"


def _child(node: Node) -> dict[str, object]:
    return {"rest": 3} if isinstance(node, Array) else {"values": (3,)}


def test_tokens_of_several_bytes_are_walked_through() -> None:
    """Across keys, quotes and characters in parts; control tokens never."""
    spellings = [
        b'{"',
        b"city",
        b'": "',
        b"x",
        b'x"}',
        b'", "',
        b"\xe6",
        b"\x97\xa5",
        None,
        b"xy\n",
    ]
    here = session(*WEATHER, vocabulary=TokenVocabulary(spellings))
    walked = []
    for token in (0, 1, 2, 6, 7, 4):
        walked.append(here.allowed().tolist())
        here.advance(token)
    assert walked == [[0], [1], [2], [0, 1, 3, 4, 6], [7], [0, 1, 3, 4, 5, 6]]
    assert here.finished
    assert here.mask().tolist() == [0]


def test_a_token_that_is_not_allowed_changes_nothing() -> None:
    """It is refused by number, spelling, or because it has none."""
    vocabulary = TokenVocabulary([b"1", b"1x", None])
    here = session(Number(integers()), vocabulary=vocabulary)
    for token in (1, 2, 3, -1):
        with pytest.raises(RequestError):
            here.advance(token)
    assert not here.advance_bytes(b"1x")
    assert here.allowed().tolist() == [0]
    assert here.mask().tolist() == [1]


def test_only_nodes_that_there_are() -> None:
    """Neither -1 (refused arguments) nor one past the last; kernels have names."""
    tables, _ = tables_of(grammar(literals(1)))
    machine = ArgumentMachine(tables, BYTES, kernels="reference")
    for root in (-1, 1):
        with pytest.raises(RequestError, match="node"):
            machine.begin(root)
    with pytest.raises(KernelError, match="native, reference"):
        ArgumentMachine(tables, BYTES, kernels="quick")


@pytest.mark.parametrize("seed", range(150))
def test_random_walks_end_in_values_that_the_nodes_allow(seed: int) -> None:
    """No dead end, whatever is chosen; shortest rests lead to the end from everywhere."""
    rng = random.Random(seed)
    drawn = draw_grammar(rng)
    tables, (root,) = tables_of(drawn)
    machine = ArgumentMachine(tables, BYTES, kernels="reference")
    for _ in range(4):
        here = machine.begin(root)
        text = b""
        for _ in range(rng.randint(0, 60)):
            allowed = here.allowed()
            if not len(allowed):
                break
            token = _choose(rng, allowed)
            here.advance(token)
            text += bytes([token])
        assert here.accepts or len(here.allowed())
        rest = here.shortest()
        assert not rest or here.advance_bytes(rest)
        assert here.accepts, (text, rest)
        whole = (text + rest).decode()
        assert valid(drawn, 0, whole), whole


def _choose(rng: random.Random, allowed: np.ndarray) -> int:
    tokens = allowed.tolist()
    ends = [token for token in tokens if token in b'"}],']
    return rng.choice(ends if ends and rng.random() < 0.4 else tokens)


@pytest.mark.parametrize("seed", range(40))
def test_values_that_the_nodes_allow_are_accepted(seed: int) -> None:
    """Shortest texts of random grammars, with one change: accepted where the nodes say so."""
    rng = random.Random(seed)
    drawn = draw_grammar(rng)
    tables, (root,) = tables_of(drawn)
    machine = ArgumentMachine(tables, BYTES, kernels="reference")
    text = machine.begin(root).shortest().decode()
    for _ in range(30):
        place = rng.randrange(len(text) + 1)
        changed = text[:place] + rng.choice('a1"0, {}[]é') + text[place + rng.randint(0, 1) :]
        try:
            value = json.loads(changed)
        except ValueError:
            continue
        canonical = json.dumps(value, ensure_ascii=False)
        if canonical != changed:
            continue
        here = machine.begin(root)
        found = here.advance_bytes(changed.encode()) and here.accepts
        assert found is valid(drawn, 0, changed), changed


def test_a_grammar_whose_root_accepts_nothing_is_refused() -> None:
    """An empty automaton: nothing to begin."""
    tables, (root,) = tables_of(
        ArgumentGrammar((Text(Automaton((0,), (0,), (), ())), Literals((b"1",))))
    )
    with pytest.raises(RequestError, match="no value"):
        ArgumentMachine(tables, BYTES, kernels="reference").begin(root)
