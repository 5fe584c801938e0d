"""`python -m router.engine.compile_worker`: compiles one catalog and ends.

Owns the child's side of `router.engine.compiler`, and the record of what was compiled from which
content, so that serving the same file again takes no compilation. Loads a tokenizer and the
sentence encoder; never a language model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from catalog_compiler.artifact import SUFFIX, CompiledCatalog, open_artifact, write_artifact
from catalog_compiler.compile import COMPILER_VERSION, compile_catalog
from catalog_compiler.errors import ArtifactError, CatalogError
from catalog_compiler.frontend import load_toolset
from catalog_compiler.grammar import chat_placement
from decoder.encoder import load_encoder
from decoder.errors import DecoderError
from decoder.tokenizer import load_tokenizer
from router import assets
from router.engine import wire
from router.engine.compiler import Compiled, CompileRequest, Finding
from router.engine.process import claim_stdout
from router.retrieval.extras import extras_builder, extras_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from decoder.encoder import Encoder
    from decoder.tokenizer import LoadedTokenizer

RECORDS: Final = "by-content"
"""Folder in the store: one file a compiled content, holding the catalog's digest."""


def compile_request(request: CompileRequest, progress: Callable[[str], None]) -> Compiled:
    """Compile a source, or find it compiled.

    Raises:
        CatalogError: it is refused.
        DecoderError, AssetError: tokenizer or encoder can't be loaded.
        OSError: the source can't be read or the store not be written.

    """
    if request.folder:
        os.chdir(request.folder)
    progress("loading tokenizer and encoder")
    tokenizer = load_tokenizer(Path(request.model) if request.model else assets.smollm2_gguf())
    encoder = load_encoder(assets.minilm_dir())
    store = Path(request.store)
    record = store / RECORDS / _content_key(request, tokenizer, encoder)
    found = _recorded(store, record)
    if found is not None:
        return found
    toolset = load_toolset(
        [request.source],
        format=request.format,
        strict=request.strict,
        ask_servers=request.ask_servers,
        progress=progress,
    )
    data = compile_catalog(
        toolset,
        tokenizer.tokenizer,
        chat_placement(tokenizer.tokenizer, tokenizer.end_of_turn),
        tokenizer_digest=tokenizer.digest,
        extras=extras_builder(encoder),
        extras_key=extras_key(encoder.digest),
        progress=progress,
    )
    compiled = CompiledCatalog.from_bytes(data)
    record.parent.mkdir(parents=True, exist_ok=True)
    path = write_artifact(data, store)
    if all(tool.source == request.source for tool in toolset.tools):
        _write(record, compiled.digest)  # What live servers list may be another thing tomorrow.
    return _describe(compiled, path, reused=False)


def _content_key(request: CompileRequest, tokenizer: LoadedTokenizer, encoder: Encoder) -> str:
    """Name everything that the compiled bytes depend on."""
    content = hashlib.sha256(Path(request.source).read_bytes()).hexdigest()
    parts = [
        content,
        request.source,
        request.format,
        str(request.strict),
        COMPILER_VERSION,
        tokenizer.digest,
        extras_key(encoder.digest),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _recorded(store: Path, record: Path) -> Compiled | None:
    """Return an earlier compilation that is still whole."""
    try:
        path = store / f"{record.read_text(encoding='ascii')}{SUFFIX}"
        return _describe(open_artifact(path), path, reused=True)
    except (OSError, UnicodeDecodeError, ArtifactError):
        return None  # Not compiled yet, or damaged since: compile it.


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    Path(name).replace(path)


def _describe(compiled: CompiledCatalog, path: Path, *, reused: bool) -> Compiled:
    findings = tuple(
        Finding(
            severity=found.severity.value,
            code=found.code,
            message=found.message,
            mend=found.mend,
            source=found.source,
            pointer=found.pointer,
            tool=found.tool,
            related=found.related,
        )
        for found in compiled.diagnostics
    )
    return Compiled(
        digest=compiled.digest,
        path=str(path),
        tool_count=len(compiled),
        definition_tokens=int(compiled.token_counts.sum(dtype="int64")),
        reused=reused,
        findings=findings,
    )


def main() -> int:
    """Serve one request from standard input; return the exit code."""
    replies = claim_stdout()
    message = wire.read_message(sys.stdin.buffer)
    if message is None:
        return 1

    def stage(name: str) -> None:
        _send(replies, {"op": "stage", "stage": name})

    try:
        compiled = compile_request(CompileRequest(**message["request"]), stage)
    except (CatalogError, DecoderError, assets.AssetError, OSError) as error:
        _send(replies, {"op": "refused", "message": str(error)})
        return 1
    _send(replies, {"op": "compiled", "compiled": dataclasses.asdict(compiled)})
    return 0


def _send(replies: IO[bytes], message: wire.Message) -> None:
    replies.write(wire.encode(message))
    replies.flush()


if __name__ == "__main__":
    sys.exit(main())
