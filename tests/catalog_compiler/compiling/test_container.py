"""The file's bytes: equal for equal input, refused after any harm, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from catalog_compiler import container
from catalog_compiler.errors import ArtifactError

ARRAYS = {
    "wide": np.arange(5, dtype=np.float64),
    "rows": np.arange(6, dtype=np.int32).reshape(2, 3),
    "mask": np.array([True, False, True]),
    "half": np.array([1.5], dtype=np.float16),
    "none": np.zeros((0, 4), dtype=np.float32),
    "text": np.frombuffer("Gruß".encode(), dtype=np.uint8),
}
METADATA = {"compiler": "1", "note": 'quotes " and \u2028'}
DATA = container.pack(METADATA, ARRAYS)


def forge(header: dict[str, object], body: bytes = b"") -> bytes:
    """Write a file with a right digest around any header, as an attacker would."""
    metadata = {"digest": "0" * 64, "kind": container.KIND, "format": "1"}
    metadata |= header.pop("__metadata__", {})  # type: ignore[arg-type]
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    data = bytearray(len(text).to_bytes(8, "little") + text + body)
    start = data.index(b"0" * 64)
    data[start : start + 64] = hashlib.sha256(bytes(data)).hexdigest().encode()
    return bytes(data)


def test_what_is_packed_comes_out() -> None:
    """Values, types and shapes come back; the views cannot be written to."""
    opened = container.unpack(DATA, "it")
    assert opened.metadata == METADATA
    assert opened.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert opened.arrays[name].dtype == array.dtype
        assert np.array_equal(opened.arrays[name], array)
        assert not opened.arrays[name].flags.writeable
        assert opened.arrays[name].flags.aligned


def test_it_is_a_safetensors_file(tmp_path: Path) -> None:
    """The reference implementation reads the same arrays."""
    (tmp_path / "x").write_bytes(DATA)
    read = safetensors.numpy.load_file(tmp_path / "x")
    assert all(np.array_equal(read[name], array) for name, array in ARRAYS.items())
    assert read.keys() == ARRAYS.keys()


def test_order_and_memory_layout_change_nothing() -> None:
    """Equal arrays in another order, byte order or stride give the same bytes."""
    other = {name: np.asfortranarray(ARRAYS[name]) for name in reversed(ARRAYS)}
    other["wide"] = other["wide"].astype(">f8")
    assert container.pack(dict(reversed(METADATA.items())), other) == DATA


@given(st.integers(0, len(DATA) * 8 - 1))
def test_any_flipped_bit_is_found(bit: int) -> None:
    """One bit anywhere, header and digest included, is refused."""
    harmed = bytearray(DATA)
    harmed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ArtifactError):
        container.unpack(bytes(harmed), "it")


def test_every_bit_of_the_header_matters() -> None:
    """Exhaustively: each bit before the data and of the first data bytes."""
    end = 8 + int.from_bytes(DATA[:8], "little") + 16
    for bit in range(end * 8):
        harmed = bytearray(DATA)
        harmed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ArtifactError):
            container.unpack(bytes(harmed), "it")


@given(st.integers(0, len(DATA) - 1))
def test_any_cut_is_found(length: int) -> None:
    """A file that ends early is refused, wherever it ends."""
    with pytest.raises(ArtifactError):
        container.unpack(DATA[:length], "it")


@given(st.binary(min_size=1, max_size=40))
def test_anything_appended_is_found(more: bytes) -> None:
    """A file that goes on is refused."""
    with pytest.raises(ArtifactError):
        container.unpack(DATA + more, "it")


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    """Random bytes, bare or behind the first bytes of a catalog, are refused."""
    for candidate in (data, DATA[:35] + data, DATA[:99] + data):
        with pytest.raises(ArtifactError):
            container.unpack(candidate, "it")


def test_messages_say_what_to_do() -> None:
    """Foreign, cut, altered and newer files are told apart."""
    flipped = bytearray(DATA)
    flipped[-1] ^= 1
    cases = {
        b"not a catalog at all": "no compiled catalog.*catalog compile",
        DATA[:-1]: "cut off.*compile the catalog again",
        DATA[:150]: "cut off within its header",
        bytes(flipped): "altered.*compile the catalog again",
        forge({"__metadata__": {"format": "2"}}): "upgrade pointsman",
        forge({"__metadata__": {"format": "x"}}): "compile the catalog again",
        forge({"__metadata__": {"kind": "other"}}): "no compiled catalog",
        forge({}, b"xx"): "2 bytes too many",
    }
    for data, message in cases.items():
        with pytest.raises(ArtifactError, match=message):
            container.unpack(data, "it")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {"dtype": "U8", "shape": [4], "data_offsets": [0, 5]},
        {"dtype": "U8", "shape": [4], "data_offsets": [-4, 0]},
        {"dtype": "U8", "shape": [-4], "data_offsets": [0, 4]},
        {"dtype": "U8", "shape": [2, -2], "data_offsets": [0, 4]},
        {"dtype": "U8", "shape": 4, "data_offsets": [0, 4]},
        {"dtype": "U8", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "I32", "shape": [4], "data_offsets": [0, 4]},
        {"dtype": "O", "shape": [4], "data_offsets": [0, 4]},
        {"dtype": ["U8"], "shape": [4], "data_offsets": [0, 4]},
        {"dtype": "U8", "shape": [4], "data_offsets": [0.0, 4.0]},
        {"dtype": "U8", "shape": [1 << 62, 0], "data_offsets": [0, 0]},
        {"dtype": "U8", "shape": [3], "data_offsets": [1, 4]},
    ],
)
def test_forged_arrays_are_refused(entry: object) -> None:
    """A right digest helps no header that does not fit its data."""
    with pytest.raises(ArtifactError):
        container.unpack(forge({"a": entry}, b"four"), "it")


def test_forged_headers_are_refused() -> None:
    """Deep nesting, metadata that is no text and an overlong header are refused in bounded time."""
    start = forge({}, b"")[:35]
    deep = start + b"0" * 64 + b'"},"x":' + b"[" * 100_000
    for data in (
        len(deep).to_bytes(8, "little") + deep[8:],
        forge({"__metadata__": {"compiler": 1}}),
        b"\xff" * 8 + DATA[8:],
    ):
        with pytest.raises(ArtifactError):
            container.unpack(data, "it")


def test_unstorable_arrays_are_refused() -> None:
    """Objects, texts and complex numbers are no plain numbers."""
    for array in (np.array([{}]), np.array(["x"]), np.array([1j])):
        with pytest.raises(ArtifactError, match="plain numbers"):
            container.pack({}, {"a": array})
    with pytest.raises(ArtifactError, match="header"):
        container.pack({"note": "x" * container.MAX_HEADER_BYTES}, {})


def test_opening_files(tmp_path: Path) -> None:
    """Missing, empty and non-files are refused; a good one is recognised and mapped."""
    good = tmp_path / "good"
    container.write_atomically(good, DATA)
    assert container.open_container(good).digest == container.unpack(DATA, "it").digest
    assert container.is_container(good)
    empty = tmp_path / "empty"
    empty.touch()
    for path in (empty, tmp_path, tmp_path / "missing", Path("nul\0byte")):
        assert not container.is_container(path)
        with pytest.raises(ArtifactError):
            container.open_container(path)


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure on the way leaves the old file and no scratch file."""
    path = tmp_path / "a.catalog"
    container.write_atomically(path, b"old")

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArtifactError, match="No space left"):
        container.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.catalog"]
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="cannot write"):
        container.write_atomically(tmp_path / "no" / "such" / "folder", b"new")


def test_an_open_catalog_outlives_its_replacement(tmp_path: Path) -> None:
    """Readers of the old file keep their bytes when a new one takes its place."""
    path = tmp_path / "a.catalog"
    container.write_atomically(path, DATA)
    opened = container.open_container(path)
    container.write_atomically(path, container.pack({}, {"rows": np.zeros(3)}))
    assert np.array_equal(opened.arrays["rows"], ARRAYS["rows"])
