"""From the normal form to the bytes of a compiled catalog.

Owns the order of the work and the reuse of an earlier compilation. Never reads a source and never
writes a file. What it returns depends on the tools, the findings, the tokenizer, the placement and
the extras alone: an earlier compilation saves time and changes no bit.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from catalog_compiler import records
from catalog_compiler.arguments.catalog import (
    KnownArguments,
    argument_findings,
    compile_arguments,
)
from catalog_compiler.artifact import CompiledCatalog, pack_catalog
from catalog_compiler.errors import CatalogError
from catalog_compiler.grammar.build import build_name_grammar
from catalog_compiler.grammar.spelling import without_limits
from catalog_compiler.model import Diagnostic, Severity, Tool, ToolSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from catalog_compiler.grammar.placement import Placement

COMPILER_VERSION: Final = "3"
"""Raised whenever equal input may give other bytes than before."""

Extras: TypeAlias = Mapping[str, npt.NDArray[np.generic]]
ExtrasBuilder: TypeAlias = Callable[[tuple[Tool, ...], Extras], Extras]
"""``(tools, earlier) -> arrays by name``: what a router wants to find beside the tools (its
retrieval index). ``tools`` are those of the catalog in order; ``earlier`` are the extras of the
earlier compilation where their key is the same, else empty. Must not depend on ``earlier`` for
what it returns, only for how fast."""

Progress: TypeAlias = Callable[[str], None]
"""Told the name of each stage as it begins."""

PIECE_CHARS: Final = 1 << 16
"""A definition longer than this is counted in pieces of this many characters, so that a tokenizer
never meets a text of megabytes; each border may add one token to the count."""

_BATCH: Final = 256


def compile_catalog(
    toolset: ToolSet,
    tokenizer: Tokenizer,
    placement: Placement,
    *,
    tokenizer_digest: str,
    extras: ExtrasBuilder | None = None,
    extras_key: str = "",
    previous: CompiledCatalog | None = None,
    progress: Progress | None = None,
) -> bytes:
    """Compile a tool set; see `catalog_compiler.artifact` for writing and opening.

    A tool whose name cannot be routed with this tokenizer, or whose schema is no JSON, is set
    aside with a diagnostic; nothing else is lost.

    Args:
        toolset: the normal form.
        tokenizer: the model's, any Hugging Face tokenizer; never changed.
        placement: the texts around a name; an empty `none_text` is filled in.
        tokenizer_digest: names the tokenizer (a digest of its file or model); what is reused from
            `previous` is reused only where this is the same.
        extras: makes further arrays to be stored.
        extras_key: names whatever the extras depend on beside the tools.
        previous: an earlier compilation, to be reused where nothing changed.
        progress: told of each stage.

    Raises:
        CatalogError: two tools have the same name.
        GrammarError: no tool can be routed, or the tokenizer or placement cannot be used at all.
        ArtifactError: an extra array cannot be stored.

    """
    tell = progress or (lambda _stage: None)
    tools = sorted(toolset.tools, key=lambda tool: tool.name)
    for left, right in itertools.pairwise(tools):
        if left.name == right.name:
            raise CatalogError(
                f"two tools are named {left.name!r} ({left.source}{left.pointer} and "
                f"{right.source}{right.pointer}); routed names must be distinct"
            )
    tell("storing tools")
    tools, texts, definitions, findings = _store(tools)
    tell("spelling names")
    grammar = build_name_grammar(
        [tool.name for tool in tools],
        tokenizer,
        placement,
        reserved={alias for tool in tools for alias in tool.aliases},
    )
    for position, refusal in grammar.refused.items():
        findings.append(_set_aside(tools[position], refusal.code, refusal.reason, refusal.mend))
    kept = [tools[position] for position in grammar.kept]
    definitions = [definitions[position] for position in grammar.kept]
    digests = _digests(definitions)
    tell("counting tokens")
    reusable = previous is not None and previous.tokenizer_digest == tokenizer_digest
    counts = _count_tokens(
        definitions, digests, without_limits(tokenizer), previous if reusable else None
    )
    tell("compiling arguments")
    arguments = compile_arguments(kept, digests, _known_arguments(previous))
    findings += argument_findings(kept, arguments.notes)
    extra: Extras = {}
    if extras is not None:
        tell("indexing")
        same = previous is not None and previous.extras_key == extras_key
        extra = extras(tuple(kept), previous.extras if previous is not None and same else {})
    tell("packing")
    return pack_catalog(
        tool_texts=[texts[position] for position in grammar.kept],
        names=[tool.name for tool in kept],
        diagnostics=sorted(
            (*toolset.diagnostics, *findings),
            key=lambda found: (found.source, found.pointer, found.code, found.tool, found.message),
        ),
        trie=grammar.trie,
        placement=grammar.placement,
        tokenizer_digest=tokenizer_digest,
        compiler_version=COMPILER_VERSION,
        token_counts=counts,
        definition_digests=digests,
        arguments=arguments,
        extras=extra,
        extras_key=extras_key if extras is not None else "",
    )


def _known_arguments(previous: CompiledCatalog | None) -> KnownArguments | None:
    """Return the arguments of an earlier compilation, where this very compiler made it."""
    if previous is None or previous.compiler_version != COMPILER_VERSION:
        return None
    return KnownArguments(
        previous.definition_digests, previous.arguments, tuple(previous.argument_notes_texts)
    )


def _store(
    tools: Sequence[Tool],
) -> tuple[list[Tool], list[bytes], list[str], list[Diagnostic]]:
    """Turn tools into their stored texts; one whose schema is no JSON is set aside."""
    kept, texts, definitions, findings = [], [], [], []
    for tool in tools:
        try:
            text = records.tool_to_json(tool)
            definition = records.definition_text(tool)
            if json.loads(text)["input_schema"] != tool.input_schema:
                raise ValueError("it is not the same after being written and read")  # noqa: TRY301
        except (ValueError, RecursionError) as error:
            findings.append(
                _set_aside(
                    tool,
                    "schema-not-json",
                    f"the input schema cannot be stored as JSON ({error})",
                    "use finite numbers, text keys and less nesting",
                )
            )
            continue
        kept.append(tool)
        texts.append(text)
        definitions.append(definition)
    return kept, texts, definitions, findings


def _set_aside(tool: Tool, code: str, reason: str, mend: str) -> Diagnostic:
    return Diagnostic(
        severity=Severity.ERROR,
        code=code,
        message=f"set aside: {reason}",
        mend=f"{mend[:1].upper()}{mend[1:]}.",
        source=tool.source,
        pointer=tool.pointer,
        tool=tool.name.encode("utf-8", "backslashreplace").decode("utf-8"),
    )


def _digests(definitions: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return the SHA-256 of each text: (n, 32) uint8."""
    joined = b"".join(hashlib.sha256(text.encode()).digest() for text in definitions)
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(definitions), 32)


def _count_tokens(
    definitions: Sequence[str],
    digests: npt.NDArray[np.uint8],
    tokenizer: Tokenizer,
    previous: CompiledCatalog | None,
) -> npt.NDArray[np.int32]:
    """Count each definition's tokens, (n,) int32, taking those known from `previous`."""
    known: dict[bytes, int] = {}
    if previous is not None:
        rows = map(bytes, previous.definition_digests)
        known = dict(zip(rows, previous.token_counts.tolist(), strict=True))
    keys = list(map(bytes, digests))
    fresh = list({key: i for i, key in enumerate(keys) if key not in known}.values())
    for start in range(0, len(fresh), _BATCH):
        batch = fresh[start : start + _BATCH]
        pieces = [(keys[i], piece) for i in batch for piece in _pieces(definitions[i])]
        encodings = tokenizer.encode_batch_fast(
            [piece for _key, piece in pieces], add_special_tokens=False
        )
        known.update(dict.fromkeys((keys[i] for i in batch), 0))
        for (key, _piece), encoding in zip(pieces, encodings, strict=True):
            known[key] += len(encoding.ids)
    return np.array([known[key] for key in keys], dtype=np.int32)


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
