"""A compiled catalog, opened from its file.

Owns what the arrays of the file mean and the lazy reading of tools. Never compiles: that is
`catalog_compiler.compile`; never knows the bytes: that is `catalog_compiler.container`.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import numpy.typing as npt

from catalog_compiler import container, records
from catalog_compiler.arguments.catalog import ArgumentNotes
from catalog_compiler.arguments.tables import check_tables
from catalog_compiler.errors import ArtifactError, GrammarError
from catalog_compiler.grammar.placement import Placement
from catalog_compiler.grammar.trie import NameTrie

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from catalog_compiler.arguments.catalog import CatalogArguments
    from catalog_compiler.model import Diagnostic, Tool

SUFFIX: Final = ".catalog"
"""What a compiled catalog's file name ends with."""

_Number = TypeVar("_Number", bound=np.generic)

_TRIE: Final = "trie."
_EXTRA: Final = "extra."
_ARGUMENTS: Final = "arguments."


class CompiledCatalog:
    """A compiled catalog; its arrays are views of a mapped file.

    Attributes:
        digest: SHA-256 of its content, hex: the catalog's identity.
        compiler_version: of the compiler that made it.
        tokenizer_digest: names the tokenizer its trie is spelt with.
        placement: the texts around a name, the spelling of "no tool fits" filled in.
        trie: the name trie; leaf tools index the catalog's tools.
        token_counts: (tools,) int32, tokens of each tool's definition in an agent's prompt.
        definition_digests: (tools, 32) uint8, SHA-256 of each definition text.
        extras: arrays the caller of the compiler handed in, by name.
        extras_key: what made the extras (an encoder's digest, say); "" without extras.
        arguments: the tables of the tools' arguments (`docs/arguments.md`), by name; `roots` has
            an entry for each tool, -1 where its arguments are refused.

    """

    def __init__(self, source: container.Container, where: str) -> None:
        """Check that the arrays belong together; tools are parsed only when asked for.

        Raises:
            ArtifactError: they do not.

        """
        arrays, metadata = source.arrays, source.metadata
        self._where = where
        self.digest = source.digest
        self.arguments: Mapping[str, npt.NDArray[np.generic]] = {
            k.removeprefix(_ARGUMENTS): v for k, v in arrays.items() if k.startswith(_ARGUMENTS)
        }
        try:
            check_tables(self.arguments)
            self.compiler_version = metadata["compiler"]
            self.tokenizer_digest = metadata["tokenizer"]
            self.extras_key = metadata["extras_key"]
            self.placement = Placement.from_json(metadata["placement"])
            self.trie = NameTrie.from_arrays(
                {k.removeprefix(_TRIE): v for k, v in arrays.items() if k.startswith(_TRIE)}
            )
            self._names = _Texts(arrays["names.text"], arrays["names.offsets"])
            self._tools = _Texts(arrays["tools.text"], arrays["tools.offsets"])
            self.argument_notes_texts = _Texts(arrays["notes.text"], arrays["notes.offsets"])
            self._diagnostics = _typed(arrays["diagnostics.text"], np.uint8, 1).tobytes()
            self.token_counts = _typed(arrays["tools.tokens"], np.int32, 1)
            self.definition_digests = _typed(arrays["tools.definitions"], np.uint8, 2)
        except (KeyError, GrammarError, ValueError) as error:
            raise ArtifactError(f"{where} is no sound catalog ({error}); compile again") from error
        self.extras: Mapping[str, npt.NDArray[np.generic]] = {
            k.removeprefix(_EXTRA): v for k, v in arrays.items() if k.startswith(_EXTRA)
        }
        rows = {len(self._names), len(self.token_counts), len(self.definition_digests)}
        rows |= {self.trie.leaves - 1, len(self._tools), len(self.argument_notes_texts)}
        rows |= {len(self.arguments["roots"])}
        if len(rows) != 1 or self.definition_digests.shape[1] != 32:
            raise ArtifactError(f"{where}: its arrays disagree with one another; {_AGAIN}")

    @classmethod
    def from_bytes(cls, data: bytes, where: str = "the compiled catalog") -> CompiledCatalog:
        """Open a catalog held in memory.

        Raises:
            ArtifactError: it is foreign, truncated, altered or newer than this program.

        """
        return cls(container.unpack(data, where), where)

    def __len__(self) -> int:
        """Return how many tools it has."""
        return len(self._tools)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The routed names, sorted; the position is the tool's index."""
        try:
            return tuple(text.decode() for text in self._names)
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{self._where}: a name is no text; {_AGAIN}") from error

    def tool(self, index: int) -> Tool:
        """Return one tool, parsing only its own text.

        Raises:
            IndexError: there is no such tool.
            ArtifactError: its stored text is malformed.

        """
        return records.tool_from_json(self._tools[index])

    @functools.cached_property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, sorted by routed name; parsed at the first use."""
        return tuple(self.tool(index) for index in range(len(self)))

    @functools.cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All findings, those of tools set aside included; parsed at the first use."""
        return records.diagnostics_from_json(self._diagnostics)

    @functools.cached_property
    def indices(self) -> Mapping[str, int]:
        """Tool index by routed name."""
        return {name: index for index, name in enumerate(self.names)}

    def argument_notes(self, index: int) -> ArgumentNotes:
        """Return what is to be known of one tool's arguments.

        Raises:
            IndexError: there is no such tool.
            ArtifactError: the stored text is malformed.

        """
        return ArgumentNotes.from_json(self.argument_notes_texts[index])

    def tool_json(self, index: int) -> bytes:
        """Return one tool's canonical JSON as stored."""
        return self._tools[index]


def open_artifact(path: Path) -> CompiledCatalog:
    """Map a compiled catalog into memory; every byte is checked against its digest.

    Raises:
        ArtifactError: it cannot be read, or it is foreign, truncated, altered or newer than this
            program; the message says what to do.

    """
    return CompiledCatalog(container.open_container(path), str(path))


def write_artifact(data: bytes, path: Path) -> Path:
    """Write a compiled catalog atomically.

    Args:
        data: what `compile_catalog` returned.
        path: the file to write; where it is a folder, ``<digest>.catalog`` in it.

    Returns:
        The file written.

    Raises:
        ArtifactError: `data` is no sound catalog, or it cannot be written.

    """
    digest = container.unpack(data, "the catalog to be written").digest
    target = path / f"{digest}{SUFFIX}" if path.is_dir() else path
    container.write_atomically(target, data)
    return target


def pack_catalog(
    *,
    tool_texts: Sequence[bytes],
    names: Sequence[str],
    diagnostics: Sequence[Diagnostic],
    trie: NameTrie,
    placement: Placement,
    tokenizer_digest: str,
    compiler_version: str,
    token_counts: npt.NDArray[np.int32],
    definition_digests: npt.NDArray[np.uint8],
    arguments: CatalogArguments,
    extras: Mapping[str, npt.NDArray[np.generic]],
    extras_key: str,
) -> bytes:
    """Lay a catalog out as a file's bytes (attributes as in `CompiledCatalog`).

    Raises:
        ArtifactError: an extra array's type cannot be stored.

    """
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "tools.tokens": token_counts,
        "tools.definitions": definition_digests,
        "diagnostics.text": _bytes(records.diagnostics_to_json(diagnostics)),
        **{_TRIE + name: array for name, array in trie.to_arrays().items()},
        **{_ARGUMENTS + name: array for name, array in arguments.arrays.items()},
        **{_EXTRA + name: array for name, array in extras.items()},
    }
    for prefix, texts in (
        ("tools", tool_texts),
        ("names", [name.encode() for name in names]),
        ("notes", [notes.to_json() for notes in arguments.notes]),
    ):
        arrays[f"{prefix}.text"] = _bytes(b"".join(texts))
        arrays[f"{prefix}.offsets"] = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    metadata = {
        "compiler": compiler_version,
        "tokenizer": tokenizer_digest,
        "placement": placement.to_json(),
        "extras_key": extras_key,
    }
    return container.pack(metadata, arrays)


_AGAIN: Final = "compile the catalog again"


class _Texts:
    """Byte strings in one blob with offsets, cut out when asked for."""

    def __init__(self, text: npt.NDArray[np.generic], offsets: npt.NDArray[np.generic]) -> None:
        self._text = _typed(text, np.uint8, 1)
        self._offsets = _typed(offsets, np.int64, 1)
        bounds = self._offsets
        sound = (
            len(bounds) > 0
            and int(bounds[0]) == 0
            and int(bounds[-1]) == len(self._text)
            and bool(np.all(bounds[1:] >= bounds[:-1]))
        )
        if not sound:
            raise ValueError("text offsets do not fit their text")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < len(self):
            raise IndexError(f"tool {index} of {len(self)}")
        return self._text[int(self._offsets[index]) : int(self._offsets[index + 1])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        whole = self._text.tobytes()
        bounds = self._offsets.tolist()
        return (whole[lo:hi] for lo, hi in itertools.pairwise(bounds))


def _typed(array: npt.NDArray[np.generic], dtype: type[_Number], ndim: int) -> npt.NDArray[_Number]:
    if array.dtype != dtype or array.ndim != ndim:
        raise ValueError(f"an array is {array.dtype} of {array.ndim} dimensions, not {dtype}")
    return array.view(dtype)


def _bytes(text: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text, dtype=np.uint8)
