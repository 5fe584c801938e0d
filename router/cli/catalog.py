"""`pointsman catalog`: compile, show, diff, lint and report.

Owns the commands' options, output and exit codes (docs/cli.md). All work is done by
`catalog_compiler`; the model and the encoder are loaded only by `compile`, and only when needed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from catalog_compiler import container
from catalog_compiler.artifact import CompiledCatalog, open_artifact, write_artifact
from catalog_compiler.compile import compile_catalog
from catalog_compiler.errors import ArtifactError, CatalogError, StrictError
from catalog_compiler.grammar import chat_placement
from router.cli import catalog_output as printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_compiler.model import Diagnostic, ToolSet

EXIT_FOUND: Final = 1
"""`diff`: the catalogs differ. `lint`: errors, or warnings under --strict. `compile`: --strict and
a tool was set aside."""

EXIT_FAILED: Final = 3
"""An input could not be read, compiled, opened or written."""

FORMATS: Final = ("auto", "mcp", "openai", "anthropic", "openapi")


class CatalogFailure(click.ClickException):
    """A typed error as the command line shows it, its acting characters spelt out."""

    exit_code = EXIT_FAILED

    def __init__(self, error: Exception) -> None:
        """Take the message of the error."""
        super().__init__(printed.safe(str(error)))


class StrictFailure(CatalogFailure):
    """A tool was set aside where `--strict` allows none."""

    exit_code = EXIT_FOUND


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turn the compiler's, the model's and the assets' errors into exit codes and messages."""
    from decoder.errors import DecoderError  # noqa: PLC0415 (each command loads what it uses)
    from router.assets import AssetError  # noqa: PLC0415

    try:
        yield
    except StrictError as error:
        raise StrictFailure(error) from error
    except (CatalogError, DecoderError, AssetError, OSError) as error:
        raise CatalogFailure(error) from error


@click.group("catalog")
def catalog() -> None:
    """Compile tool schemas, and look at what came out."""


def _reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that reads tool schemas."""
    for option in (
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0, min_open=True),
            default=30.0,
            show_default=True,
            help="Seconds a live MCP server may take to answer.",
        ),
        click.option(
            "--aliases",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help='JSON object of old names: {"old name": "routed name"}.',
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            default="auto",
            show_default=True,
            help="Format of the inputs; recognised by itself when auto.",
        ),
    ):
        command = option(command)
    return command


@catalog.command("compile")
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="The .catalog file to write, or a folder, where it is named by its digest.",
)
@click.option(
    "--model",
    "model_path",
    type=click.Path(exists=True, path_type=Path),
    help="GGUF file or model folder to compile for; by default the embedded model.",
)
@click.option(
    "--tokenizer",
    "tokenizer_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A tokenizer.json to compile for, in place of a model.",
)
@click.option(
    "--end-of-turn",
    help="With --tokenizer: the token that closes an answer, where it is not recognised.",
)
@click.option(
    "--index/--no-index",
    default=True,
    show_default=True,
    help="Store the retrieval index, so that serving starts at once.",
)
@click.option("--strict", is_flag=True, help="Fail when a tool has to be set aside.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@_reading_options
def compile_command(
    inputs: tuple[str, ...],
    output: Path,
    model_path: Path | None,
    tokenizer_path: Path | None,
    end_of_turn: str | None,
    timeout_s: float,
    aliases: Path | None,
    form: str,
    *,
    index: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Compile tool schemas into one .catalog file.

    IN are files or URLs of tool schemas (MCP tools/list, OpenAI, Anthropic, OpenAPI), or an
    mcp.json whose servers are then asked. A catalog already at OUTPUT is reused where nothing
    changed; the result is the same as that of a compilation from nothing.

    Exit codes: 0 compiled; 1 --strict and a tool was set aside; 2 wrong usage; 3 failed.
    """
    if model_path is not None and tokenizer_path is not None:
        raise click.UsageError("give --model or --tokenizer, not both")
    if end_of_turn is not None and tokenizer_path is None:
        raise click.UsageError("--end-of-turn goes with --tokenizer; a model states its own")
    with failures(), _stages(silent=as_json) as tell:
        started = time.perf_counter()
        previous = _earlier(output)
        toolset = _load(inputs, form, timeout_s, aliases, strict=strict, tell=tell)
        tell("loading the tokenizer")
        from router import compiling  # noqa: PLC0415 (brings the decoder)

        tokenizer = (
            compiling.file_tokenizer(tokenizer_path, end_of_turn)
            if tokenizer_path is not None
            else compiling.model_tokenizer(model_path)
        )
        extras, extras_key = compiling.retrieval_extras() if index else (None, "")
        data = compile_catalog(
            toolset,
            tokenizer.tokenizer,
            chat_placement(tokenizer.tokenizer, tokenizer.end_of_turn),
            tokenizer_digest=tokenizer.digest,
            extras=extras,
            extras_key=extras_key,
            previous=previous,
            progress=tell,
        )
        compiled = CompiledCatalog.from_bytes(data)
        if strict:
            _refuse_set_aside(compiled.diagnostics)
        written = write_artifact(data, output)
        elapsed = time.perf_counter() - started
    if as_json:
        printed.print_json(
            {"output": str(written), "seconds": round(elapsed, 3), **printed.summary(compiled)}
        )
        return
    console = printed.new_console()
    printed.show_findings(console, compiled.diagnostics)
    console.print(
        f"{printed.safe(str(written))}: {len(compiled):,} tools, {len(data):,} bytes, "
        f"{int(compiled.token_counts.sum()):,} tokens in a prompt, {elapsed:.2f} s"
    )
    console.print(f"digest {compiled.digest}")


@catalog.command("show")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON value and nothing else.")
def show_command(file: Path, name: str | None, *, as_json: bool) -> None:
    """Show a compiled catalog, or one of its tools by name or alias.

    Exit codes: 0 shown; 2 wrong usage; 3 it cannot be opened or has no such tool.
    """
    with failures():
        compiled = open_artifact(file)
        if name is not None:
            printed.show_tool(compiled, _find(compiled, name), as_json=as_json)
            return
        if as_json:
            counts = compiled.token_counts.tolist()
            tools = [
                {
                    "name": tool.name,
                    "namespace": tool.namespace,
                    "aliases": list(tool.aliases),
                    "tags": list(tool.tags),
                    "tokens": count,
                }
                for tool, count in zip(compiled.tools, counts, strict=True)
            ]
            printed.print_json({**printed.summary(compiled), "tools": tools})
            return
        printed.show_catalog(compiled)


@catalog.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@_reading_options
def diff_command(
    before: str,
    after: str,
    timeout_s: float,
    aliases: Path | None,
    form: str,
    *,
    as_json: bool,
) -> None:
    """Show what changed from A to B: compiled catalogs, or anything `compile` reads.

    Exit codes: 0 no difference; 1 they differ; 2 wrong usage; 3 one cannot be read.
    """
    from catalog_compiler.diff import diff_tools  # noqa: PLC0415

    with failures():
        tools = [
            open_artifact(Path(source)).tools
            if container.is_container(Path(source))
            else _load((source,), form, timeout_s, aliases, strict=False).tools
            for source in (before, after)
        ]
        difference = diff_tools(*tools)
    if as_json:
        printed.print_json(difference.to_record())
    else:
        printed.show_diff(difference)
    if not difference.empty:
        raise click.exceptions.Exit(EXIT_FOUND)


@catalog.command("lint")
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option(
    "--deep", is_flag=True, help="List the pairs of tools that requests can hardly tell apart too."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@_reading_options
def lint_command(
    inputs: tuple[str, ...],
    timeout_s: float,
    aliases: Path | None,
    form: str,
    *,
    strict: bool,
    deep: bool,
    as_json: bool,
) -> None:
    """Check tool schemas without compiling them.

    With --deep every two tools are compared by the texts that requests are held against, with the
    sentence encoder.

    Exit codes: 0 clean; 1 errors (with --strict: or warnings); 2 wrong usage; 3 cannot be read.
    """
    from catalog_compiler.model import Severity  # noqa: PLC0415
    from catalog_compiler.records import diagnostic_record  # noqa: PLC0415

    with failures(), _stages(silent=as_json) as tell:
        toolset = _load(inputs, form, timeout_s, aliases, strict=False, tell=tell)
        found = toolset.diagnostics
        if deep:
            tell("comparing the tools")
            from router.confusion import confusion_findings  # noqa: PLC0415 (brings the decoder)

            found = (*found, *confusion_findings(toolset.tools))
    if as_json:
        records = [diagnostic_record(diagnostic) for diagnostic in found]
        printed.print_json(
            {
                "tools": len(toolset.tools),
                "findings": printed.count_findings(found),
                "diagnostics": records,
            }
        )
    else:
        console = printed.new_console()
        printed.show_findings(console, found, at_most=None)
        counts = printed.count_findings(found)
        console.print(
            f"{len(toolset.tools):,} tools: {counts['error']:,} errors, "
            f"{counts['warning']:,} warnings, {counts['info']:,} notes"
        )
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    if any(diagnostic.severity in failing for diagnostic in found):
        raise click.exceptions.Exit(EXIT_FOUND)


@catalog.command("report")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file to write.",
)
@click.option("--title", default="", help="Heading of the page; by default the file's name.")
def report_command(file: Path, output: Path, title: str) -> None:
    """Write one self-contained HTML page on a compiled catalog.

    Exit codes: 0 written; 2 wrong usage; 3 the catalog cannot be opened or the page not written.
    """
    with failures():
        compiled = open_artifact(file)
        if container.is_container(output):
            raise ArtifactError(f"{output} is a compiled catalog; write the page to another file")
        from catalog_compiler.report import render_report  # noqa: PLC0415

        page = render_report(compiled, title or file.stem)
        container.write_atomically(output, page.encode())
    printed.new_console().print(f"{printed.safe(str(output))}: {len(compiled):,} tools")


def _load(
    inputs: Sequence[str],
    form: str,
    timeout_s: float,
    aliases: Path | None,
    *,
    strict: bool,
    tell: Callable[[str], None] | None = None,
) -> ToolSet:
    from catalog_compiler.frontend import load_toolset  # noqa: PLC0415 (brings the MCP SDK)

    return load_toolset(
        list(inputs),
        format=form,
        strict=strict,
        aliases=aliases,
        live_timeout_s=timeout_s,
        progress=tell,
    )


def _earlier(output: Path) -> CompiledCatalog | None:
    """Open what stands at the output, to be reused; refuse to write over what is no catalog."""
    if not output.parent.is_dir():
        raise ArtifactError(f"{output.parent} is no folder; make it, or choose another output")
    if not output.exists() or output.is_dir():
        return None
    if not container.is_container(output):
        raise ArtifactError(
            f"{output} exists and is no compiled catalog; it is not overwritten: "
            "move it away or choose another output"
        )
    try:
        return open_artifact(output)
    except ArtifactError:
        return None  # damaged or of another version: a compilation from nothing replaces it


def _refuse_set_aside(diagnostics: Sequence[Diagnostic]) -> None:
    errors = [found for found in diagnostics if found.severity == "error"]
    if errors:
        first = errors[0]
        raise StrictError(
            f"--strict: {len(errors)} finding(s) set tools aside; the first: "
            f"{first.tool or first.source}: {first.message} {first.mend}"
        )


def _find(compiled: CompiledCatalog, name: str) -> int:
    index = compiled.indices.get(name)
    if index is not None:
        return index
    owners = [i for i, tool in enumerate(compiled.tools) if name in tool.aliases]
    if len(owners) == 1:
        return owners[0]
    import difflib  # noqa: PLC0415

    close = difflib.get_close_matches(name, compiled.names, n=3)
    hint = f"; close to it: {', '.join(close)}" if close else ""
    raise CatalogError(
        f"{name!r} is an alias of {len(owners)} tools; give a routed name"
        if owners
        else f"there is no tool {name!r} in this catalog{hint}"
    )


@contextlib.contextmanager
def _stages(*, silent: bool) -> Iterator[Callable[[str], None]]:
    """Show the present stage on a terminal; nothing elsewhere."""
    if silent or not sys.stderr.isatty():
        yield lambda _stage: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda stage: progress.update(task, description=stage)
