"""Compiles catalogs in processes of their own.

Owns the one-shot child: its request, its stages, its reply, its end. A child that is given up is
ended. Never imports gRPC and never compiles in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.engine import wire
from router.engine.errors import CompileError, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COMPILER_COMMAND = (sys.executable, "-m", "router.engine.compile_worker")
AT_ONCE = 1
WAITING = 3
UNMEASURED_S = 5.0
REQUEST_SOURCE = "request"
"""What findings and tools call definitions that came with a request: the same every time, for the
name is part of the compiled bytes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic of the compiler; see `catalog_compiler.model.Diagnostic`."""

    severity: str
    code: str
    message: str
    mend: str
    source: str
    pointer: str
    tool: str
    related: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """What a child is asked.

    Attributes:
        source: file to compile; findings and tools call it so.
        folder: where `source` lies, or "" for the working folder.
        ask_servers: whether a configuration's live servers are asked. Never for what a client sent:
            a configuration starts commands.
        format: as `catalog_compiler.frontend.load_toolset` takes it.
        strict: a tool that would be set aside refuses the whole.
        model: model file or folder whose tokenizer spells the names; "" is the embedded model.
        store: folder to write `<digest>.catalog` to.

    """

    source: str
    folder: str
    ask_servers: bool
    format: str
    strict: bool
    model: str
    store: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled catalog on disk.

    Attributes:
        digest: its identity.
        path: its file.
        tool_count: how many tools.
        definition_tokens: tokens of all definitions in an agent's prompt.
        reused: whether an earlier compilation of the same content was found.
        findings: everything the compiler had to say.

    """

    digest: str
    path: str
    tool_count: int
    definition_tokens: int
    reused: bool
    findings: tuple[Finding, ...]


class CompileRunner:
    """Runs compilations, `AT_ONCE` at a time.

    Args:
        store: folder of compiled catalogs; made where it is missing.
        model: model whose tokenizer is used; "" is the embedded one.
        command: argv of the child.

    """

    def __init__(self, store: Path, model: str, command: Iterable[str] = COMPILER_COMMAND) -> None:
        self.typical_s = UNMEASURED_S
        self._store = store.resolve()
        self._model = str(Path(model).resolve()) if model else ""
        self._command = tuple(command)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._asked = 0

    @property
    def crowded(self) -> bool:
        """Whether no further compilation should be asked for now."""
        return self._asked >= AT_ONCE + WAITING

    async def compile_content(
        self,
        content: bytes,
        *,
        form: str,
        strict: bool,
        timeout_s: float,
    ) -> Compiled:
        """Compile definitions held in memory.

        Raises:
            CompileError: they are refused.
            TimeoutError: it took longer than `timeout_s`, waiting included.

        """
        with tempfile.TemporaryDirectory(prefix="pointsman-") as folder:
            await asyncio.to_thread((Path(folder) / REQUEST_SOURCE).write_bytes, content)
            request = CompileRequest(
                source=REQUEST_SOURCE,
                folder=folder,
                ask_servers=False,
                format=form,
                strict=strict,
                model=self._model,
                store=str(self._store),
            )
            async with asyncio.timeout(timeout_s):
                return await self._run(request, lambda _stage: None)

    async def compile_file(
        self,
        source: Path,
        *,
        form: str = "auto",
        progress: Callable[[str], None],
    ) -> Compiled:
        """Compile a file, or find what was compiled of the same content before.

        Raises:
            CompileError: it is refused.

        """
        request = CompileRequest(
            source=str(source),
            folder="",
            ask_servers=True,
            format=form,
            strict=False,
            model=self._model,
            store=str(self._store),
        )
        return await self._run(request, progress)

    async def _run(self, request: CompileRequest, progress: Callable[[str], None]) -> Compiled:
        clock = asyncio.get_running_loop().time
        self._asked += 1
        try:
            async with self._turn:
                began = clock()
                compiled = await self._child(request, progress)
                self.typical_s = max(clock() - began, 0.1)
                return compiled
        finally:
            self._asked -= 1

    async def _child(self, request: CompileRequest, progress: Callable[[str], None]) -> Compiled:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(
                wire.encode({"op": "compile", "request": dataclasses.asdict(request)})
            )
            while True:
                message = await wire.receive(process.stdout)
                match message["op"]:
                    case "stage":
                        progress(str(message["stage"]))
                    case "refused":
                        raise CompileError(str(message["message"]))
                    case "compiled":
                        return _compiled(message["compiled"])
                    case unknown:
                        raise WireError(f"the compiler sent {unknown!r}")  # noqa: TRY301
        except (asyncio.IncompleteReadError, WireError) as error:
            raise CompileError(
                "the compiler ended without a result; its standard error says more"
            ) from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            process.stdin.close()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await process.stdin.wait_closed()
            await process.wait()


def _compiled(raw: dict[str, Any]) -> Compiled:
    findings = tuple(
        Finding(**{**finding, "related": tuple(finding["related"])}) for finding in raw["findings"]
    )
    return Compiled(**{**raw, "findings": findings})
