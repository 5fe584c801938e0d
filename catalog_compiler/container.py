"""The file format: named arrays and string metadata in one content-addressed safetensors file.

Owns the bytes: layout, digest, integrity, atomic writing, memory mapping. Never knows what the
arrays mean. No pickle, no code, nothing but numbers and strings can come out of a file.

Layout (every version keeps the first two lines):
  8 bytes      little-endian length of the header
  header       ``{"__metadata__":{"digest":"<64 hex>","kind":...,"format":...`` as ASCII JSON,
               padded with blanks so that the data begins at a multiple of 64
  data         the arrays, little-endian, widest element first, without gaps
The digest is the SHA-256 of the whole file with the 64 hex digits replaced by zeros, so any
altered bit anywhere is found.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from catalog_compiler.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KIND: Final = "pointsman-catalog"
FORMAT_VERSION: Final = 1
MAX_HEADER_BYTES: Final = 1 << 20

_MAGIC: Final = b'{"__metadata__":{"digest":"'
_DIGEST_START: Final = 8 + len(_MAGIC)
_DIGEST_END: Final = _DIGEST_START + 64
_ALIGNMENT: Final = 64
_DTYPES: Final = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}

Arrays = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Container:
    """An opened file.

    Attributes:
        digest: SHA-256 of the content, hex.
        metadata: every other metadata string.
        arrays: read-only views of the mapped file.

    """

    digest: str
    metadata: dict[str, str]
    arrays: Arrays


def pack(metadata: Mapping[str, str], arrays: Mapping[str, npt.NDArray[np.generic]]) -> bytes:
    """Return the file's bytes; equal input gives equal bytes in every process.

    Raises:
        ArtifactError: an array's type cannot be stored.

    """
    rows: list[tuple[str, str, npt.NDArray[np.generic]]] = []
    for name, array in arrays.items():
        kept = np.ascontiguousarray(array)
        kept = kept.astype(kept.dtype.newbyteorder("<"), copy=False)
        kind = _NAMES.get(kept.dtype)
        if kind is None:
            raise ArtifactError(f"array {name!r} is {array.dtype}; store plain numbers instead")
        rows.append((name, kind, kept))
    rows.sort(key=lambda row: (-row[2].dtype.itemsize, row[0]))
    header: dict[str, object] = {
        "__metadata__": {
            "digest": "0" * 64,
            "kind": KIND,
            "format": str(FORMAT_VERSION),
            **dict(sorted(metadata.items())),
        }
    }
    end = 0
    for name, kind, array in rows:
        start, end = end, end + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise ArtifactError("the header is too long; hand in fewer and shorter array names")
    body = bytearray(len(text).to_bytes(8, "little") + text)
    for _name, _kind, array in rows:
        body += array.tobytes()
    body[_DIGEST_START:_DIGEST_END] = _digest(memoryview(body)).encode("ascii")
    return bytes(body)


def unpack(data: bytes | mmap.mmap, where: str) -> Container:
    """Check every byte and return views of the arrays, without copying.

    Args:
        data: the file's bytes.
        where: what error messages call it.

    Raises:
        ArtifactError: it is foreign, truncated, altered or newer than this program.

    """
    view = memoryview(data)
    if len(view) < _DIGEST_END or bytes(view[8:_DIGEST_START]) != _MAGIC:
        raise ArtifactError(
            f"{where} is no compiled catalog; make one with `pointsman catalog compile`"
        )
    length = int.from_bytes(view[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise ArtifactError(f"{where} is damaged (its header cannot be that long); {_AGAIN}")
    if 8 + length > len(view):
        raise ArtifactError(f"{where} is cut off within its header; {_AGAIN}")
    stated = bytes(view[_DIGEST_START:_DIGEST_END])
    header = _parse_header(bytes(view[8 : 8 + length]))
    size = _stated_size(header)
    if size is not None and 8 + length + size > len(view):
        raise ArtifactError(
            f"{where} is cut off: it has {len(view):,} bytes of {8 + length + size:,}; {_AGAIN}"
        )
    found = _digest(view)
    if found.encode("ascii") != stated:
        raise ArtifactError(
            f"{where} was altered: its content has digest {found[:16]}…, it states "
            f"{stated[:16].decode('ascii', 'replace')}…; {_AGAIN}"
        )
    metadata = _check_metadata(header, where)
    return Container(found, metadata, _views(header, view[8 + length :], where))


def open_container(path: Path) -> Container:
    """Map a file into memory and check it.

    Raises:
        ArtifactError: it cannot be read, or `unpack` refuses it.

    """
    try:
        if not path.is_file():
            raise ArtifactError(f"{path} is no file; give the path of a compiled catalog")
        with path.open("rb") as handle:
            if os.fstat(handle.fileno()).st_size == 0:
                raise ArtifactError(f"{path} is empty; {_AGAIN}")
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"cannot open {path}: {error}") from error
    return unpack(data, str(path))


def is_container(path: Path) -> bool:
    """Tell from its first bytes whether a file is meant to be a compiled catalog."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as handle:
            return handle.read(_DIGEST_START)[8:] == _MAGIC
    except OSError:
        return False


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that other processes see the old one or the new one, never a part.

    Raises:
        ArtifactError: it cannot be written; what stood there before is untouched.

    """
    try:
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.chmod(scratch, 0o666 & ~_umask())  # noqa: PTH101 (a str from mkstemp)
            os.replace(scratch, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(scratch)  # noqa: PTH108
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}") from error


_AGAIN: Final = "compile the catalog again, or fetch the file again"


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _digest(view: memoryview) -> str:
    state = hashlib.sha256(view[:_DIGEST_START])
    state.update(b"0" * 64)
    state.update(view[_DIGEST_END:])
    return state.hexdigest()


def _parse_header(text: bytes) -> dict[str, object] | None:
    """Parse the header; None where it is no JSON object (the digest then tells why)."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


def _stated_size(header: dict[str, object] | None) -> int | None:
    ends = [_span(entry)[1] for name, entry in (header or {}).items() if name != "__metadata__"]
    return max(ends, default=None)


def _span(entry: object) -> tuple[int, int]:
    """Return an array's byte range; (0, -1), which fits nothing, where the entry has none."""
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if isinstance(offsets, list) and len(offsets) == 2 and all(type(o) is int for o in offsets):
        return offsets[0], offsets[1]
    return 0, -1


def _check_metadata(header: dict[str, object] | None, where: str) -> dict[str, str]:
    metadata = (header or {}).get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("kind") != KIND:
        raise ArtifactError(f"{where} is no compiled catalog; {_AGAIN}")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise ArtifactError(f"{where} has metadata that is no text; {_AGAIN}")
    version = metadata.get("format", "")
    if version != str(FORMAT_VERSION):
        newer = version.isdecimal() and len(version) < 10 and int(version) > FORMAT_VERSION
        raise ArtifactError(
            f"{where} has format version {version[:20]!r}; this program reads {FORMAT_VERSION}: "
            + ("upgrade pointsman, or compile the catalog here" if newer else _AGAIN)
        )
    own = ("digest", "kind", "format")
    return {name: value for name, value in metadata.items() if name not in own}


def _views(header: dict[str, object] | None, data: memoryview, where: str) -> Arrays:
    """Cut the data into arrays; they must cover it without gap or overlap."""
    arrays: Arrays = {}
    entries = [(k, v) for k, v in (header or {}).items() if k != "__metadata__"]
    at = 0
    for name, entry in sorted(entries, key=lambda item: _span(item[1])):
        start, end = _span(entry)
        kind = entry.get("dtype") if isinstance(entry, dict) else None
        shape = entry.get("shape") if isinstance(entry, dict) else None
        dtype = _DTYPES.get(kind) if isinstance(kind, str) else None
        sound = (
            dtype is not None
            and start == at <= end <= len(data)
            and isinstance(shape, list)
            and len(shape) <= 4
            and all(type(extent) is int and 0 <= extent <= len(data) for extent in shape)
            and math.prod(shape) * dtype.itemsize == end - start
        )
        if not sound or dtype is None or not isinstance(shape, list):
            raise ArtifactError(f"{where}: array {name[:80]!r} does not fit the file; {_AGAIN}")
        array: npt.NDArray[np.generic] = np.frombuffer(data[start:end], dtype=dtype).reshape(shape)
        array.flags.writeable = False
        arrays[name] = array
        at = end
    if at != len(data):
        raise ArtifactError(f"{where} has {len(data) - at:,} bytes too many; {_AGAIN}")
    return arrays
