"""The page itself: facts and picture poured into the template.

Owns the safety of the page: everything from a catalog is escaped by the template and its acting
characters spelt out; a content security policy lets only the page's own script run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from importlib import resources
from typing import TYPE_CHECKING, Final

import jinja2

from catalog_compiler.display import one_line, visible
from catalog_compiler.report import facts
from catalog_compiler.report.icicle import draw_icicle

if TYPE_CHECKING:
    from catalog_compiler.artifact import CompiledCatalog

MAX_ROWS: Final = 10_000
"""Most tools in the table; the numbers above it always count all."""

MAX_DESCRIPTION: Final = 900
MAX_NAME: Final = 200


def render_report(catalog: CompiledCatalog, title: str = "Tool catalog") -> str:
    """Return the report as one self-contained HTML page, the same for equal catalogs."""
    whole = int(catalog.token_counts.sum(dtype="int64"))
    groups = facts.finding_groups(catalog)
    rows = [
        (tool, int(catalog.token_counts[index]), facts.arguments(tool.input_schema))
        for index, tool in enumerate(catalog.tools[:MAX_ROWS])
    ]
    script = _read("report.js")
    page: str = _template().render(
        title=title,
        catalog=catalog,
        rows=rows,
        rows_left_out=len(catalog) - len(rows),
        whole=whole,
        saved=max(0, whole - facts.ROUTER_TOOL_TOKENS),
        router_tokens=facts.ROUTER_TOOL_TOKENS,
        saved_percent=math.floor(1000 * max(0, whole - facts.ROUTER_TOOL_TOKENS) / whole) / 10,
        shares=facts.namespace_shares(catalog),
        costliest=facts.costliest(catalog),
        groups=groups,
        severities={
            severity: sum(group.count for group in groups if group.severity == severity)
            for severity in ("error", "warning", "info")
        },
        pairs=facts.confusable_pairs(catalog),
        trie=facts.trie_facts(catalog.trie),
        icicle=draw_icicle(catalog.trie, catalog.names, catalog.placement.none_text),
        style=_read("report.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_read),
    )
    environment.filters["name"] = lambda text: visible(text, MAX_NAME)
    environment.filters["prose"] = lambda text: visible(text, MAX_DESCRIPTION)
    environment.filters["line"] = one_line
    return environment.get_template("report.html.jinja")


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
