"""The report: complete, self-contained, and safe with hostile catalogs."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog_compiler.artifact import CompiledCatalog
from catalog_compiler.compile import compile_catalog
from catalog_compiler.display import one_line, visible
from catalog_compiler.grammar import Placement, build_name_trie
from catalog_compiler.model import Diagnostic, Severity, Tool, ToolSet
from catalog_compiler.report import render_report
from catalog_compiler.report.facts import (
    arguments,
    confusable_pairs,
    costliest,
    finding_groups,
    namespace_shares,
    trie_facts,
)
from catalog_compiler.report.icicle import draw_icicle

from .conftest import FINDINGS, TOOLS, byte_level, make_tool

if TYPE_CHECKING:
    from tokenizers import Tokenizer

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}&amp;]]>\x1b[31m\u202e\x00"
)
TOKENIZER = byte_level()


def compiled(tools: tuple[Tool, ...], findings: tuple[Diagnostic, ...] = ()) -> CompiledCatalog:
    """Compile with the byte-level tokenizer and open."""
    return CompiledCatalog.from_bytes(
        compile_catalog(ToolSet(tools, findings), TOKENIZER, Placement(), tokenizer_digest="t")
    )


class Page(HTMLParser):
    """Collects the tags, attributes and scripts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note tag and attributes."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "input", "br", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that closes itself."""
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check the nesting."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note what stands in scripts."""
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def test_the_page_shows_everything() -> None:
    """Tools, findings with mends, pairs, tokens, trie and arguments are on it."""
    catalog = compiled(TOOLS, FINDINGS)
    page = render_report(catalog, "Home & garden")
    assert page == render_report(catalog, "Home & garden")
    for tool in TOOLS:
        assert tool.name.replace("&", "&amp;") in page
    for text in (
        "Home &amp; garden",
        catalog.digest,
        "near-duplicate",
        FINDINGS[0].mend,
        "litres",
        "one of 2",
        "kitchen",
        "alias",
        f"{int(catalog.token_counts.sum()):,}",
        "<svg",
    ):
        assert text in page
    assert Page(page).open == []


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No address outside the page, and the policy lets only its own script run."""
    page = render_report(compiled(TOOLS, FINDINGS))
    parsed = Page(page)
    assert not [
        a for a in parsed.attributes if a[0] in ("src", "href") and not a[1].startswith("#")
    ]
    assert "@import" not in page
    assert "url(" not in page
    (script,) = parsed.scripts
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(value for name, value in parsed.attributes if "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert f"'sha256-{hashed}'" in policy


def test_hostile_texts_stay_text() -> None:
    """Tags, quotes, template marks, controls and bidi marks in every field act nowhere."""
    tool = Tool(
        name=f"x{HOSTILE}",
        source_name=HOSTILE,
        namespace=HOSTILE,
        aliases=(HOSTILE,),
        title=HOSTILE,
        description=HOSTILE * 40,
        input_schema={"properties": {HOSTILE: {"type": HOSTILE}}, "required": [HOSTILE]},
        tags=(HOSTILE,),
        source=HOSTILE,
        pointer=HOSTILE,
    )
    finding = Diagnostic(
        Severity.WARNING, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, tool.name, ("kettle_boil",)
    )
    plain = Page(render_report(compiled(TOOLS, FINDINGS)))
    page = render_report(compiled((tool, *TOOLS), (*FINDINGS, finding)), HOSTILE)
    parsed = Page(page)
    assert parsed.scripts == plain.scripts
    assert set(parsed.tags) == set(plain.tags) | {"details", "p", "summary"}
    assert {name for name, _value in parsed.attributes} == {n for n, _value in plain.attributes}
    assert "{{7*7}}" in page
    assert not re.search("[\x00\x1b\u202e]", page)
    assert "⟨U+202E⟩" in page


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4, unique=True), st.text())
def test_any_text_gives_a_well_formed_page(names: list[str], text: str) -> None:
    """Whatever names and descriptions hold, the tags nest and the page can be encoded."""
    tools = tuple(make_tool(name, text, namespace=text) for name in names)
    page = render_report(compiled((*tools, make_tool("kettle"))))
    assert Page(page).open == []
    page.encode()


def test_one_tool_and_no_finding() -> None:
    """The smallest catalog has a page too."""
    page = render_report(compiled((make_tool("kettle"),)))
    assert "None: every tool was read" in page
    assert "None: no two tools" in page


def test_facts() -> None:
    """The numbers are those of the catalog."""
    errors = tuple(Diagnostic(Severity.ERROR, "bad", "m", "m", "s", f"/{n}") for n in range(300))
    catalog = compiled(TOOLS, (*errors, *FINDINGS))
    shares = namespace_shares(catalog)
    assert sum(share.tokens for share in shares) == int(catalog.token_counts.sum())
    assert sum(share.tools for share in shares) == len(TOOLS)
    assert shares[0].percent == 100
    assert [share.tokens for share in costliest(catalog)] == sorted(
        catalog.token_counts.tolist(), reverse=True
    )
    groups = finding_groups(catalog)
    assert [(g.severity.value, g.code, g.count) for g in groups] == [
        ("error", "bad", 300),
        ("warning", "near-duplicate", 1),
    ]
    assert len(groups[0].shown) == 200
    (pair,) = confusable_pairs(catalog)
    assert (pair.left.name, pair.right.name) == ("kettle_boil", "kettle_boil_twice")
    assert pair.codes == ("near-duplicate",)


@pytest.mark.parametrize(
    "schema",
    [{}, [], None, {"properties": []}, {"properties": {"a": 1}, "required": 3}, True],
)
def test_arguments_of_odd_schemas(schema: object) -> None:
    """What is no object schema has no arguments, and none of it is an error."""
    assert len(arguments(schema)) <= 1


def test_kinds_of_arguments() -> None:
    """Each common form is named in a word or two; required ones come first."""
    schema = {
        "properties": {
            "a": {"type": ["string", "null"]},
            "b": {"enum": [1, 2, 3]},
            "c": {"anyOf": [{}, {}]},
            "d": {"$ref": "#/$defs/Seed"},
            "e": {},
        },
        "required": ["e", 3],
    }
    assert [(row.name, row.kind, row.required) for row in arguments(schema)] == [
        ("e", "any", True),
        ("a", "string or null", False),
        ("b", "one of 3", False),
        ("c", "anyOf 2", False),
        ("d", "Seed", False),
    ]


def test_trie_facts_by_hand(chat_tokenizer: Tokenizer) -> None:
    """A trie of three names: counted by hand through its own walk."""
    names = ["kettle", "kettle_boil", "lamp"]
    trie = build_name_trie(names, chat_tokenizer, Placement())
    facts = trie_facts(trie)
    lengths = [len(tokens) for tokens in trie.sequences()]
    assert facts.mean_tokens == sum(lengths) / 4
    assert facts.choices == sum(trie.leaf_hi - trie.leaf_lo > 1)
    assert facts.most_choices == 2
    assert facts.mean_choices == (1 + 1 + 2 + 2) / 4


def test_the_picture_tiles_its_columns(chat_tokenizer: Tokenizer) -> None:
    """Boxes of a column never overlap and never leave the picture; labels spell the names."""
    names = [f"{verb}_{noun}" for verb in ("get", "set") for noun in map(str, range(400))]
    trie = build_name_trie(names, chat_tokenizer, Placement())
    picture = draw_icicle(trie, names, "none")
    columns: dict[float, list[tuple[float, float]]] = {}
    for box in picture.boxes:
        columns.setdefault(box.x, []).append((box.y, box.y + box.height))
        assert box.x + box.width <= picture.width + 0.1
        assert box.y + box.height <= picture.height + 0.1
    for spans in columns.values():
        ordered = sorted(spans)
        assert all(a[1] <= b[0] + 0.02 for a, b in itertools.pairwise(ordered))
    assert abs(sum(hi - lo for lo, hi in columns[0.0]) - picture.height) < 0.1
    assert {"get_", "set_"} <= {box.label for box in picture.boxes}


def test_visible_text() -> None:
    """Acting characters are spelt out, the rest stays; long texts say what was cut."""
    assert visible("Grüße 🌧️ 日本\n") == "Grüße 🌧️ 日本\n"
    assert visible("a\x1b[0m\u202eb\ud800\u2028") == "a⟨U+001B⟩[0m⟨U+202E⟩b⟨U+D800⟩⟨U+2028⟩"
    assert visible("x" * 1_500, 500) == "x" * 500 + "… (1,000 more characters)"
    assert one_line("a \n\t b" + "c" * 50, 10) == "a bcccccc…"
    assert one_line("", 10) == ""
