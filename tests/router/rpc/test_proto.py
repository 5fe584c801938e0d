"""The .proto keeps Buf's standard rules and the committed stubs are what it gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from router import rpc_build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message

PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*")
LOWER_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@pytest.fixture(scope="module")
def proto(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pb2.FileDescriptorProto:
    """Return the .proto with its comments, as protoc sees it."""
    out: Path = tmp_path_factory.mktemp("proto") / "set.bin"
    arguments = [*rpc_build.include_args(), "--include_source_info", f"--descriptor_set_out={out}"]
    assert protoc.main(["protoc", *arguments, rpc_build.PROTO]) == 0
    found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return found.file[0]


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _elements(
    proto: descriptor_pb2.FileDescriptorProto,
) -> Iterator[tuple[str, tuple[int, ...], Message]]:
    """Every element that a reader looks up: (name, path in the source info, descriptor)."""
    for i, message in enumerate(proto.message_type):
        assert not message.nested_type, f"{message.name}: keep messages at the top level"
        yield message.name, (4, i), message
        for j, field in enumerate(message.field):
            yield f"{message.name}.{field.name}", (4, i, 2, j), field
        for j, oneof in enumerate(message.oneof_decl):
            yield f"{message.name}.{oneof.name}", (4, i, 8, j), oneof
    for i, enum in enumerate(proto.enum_type):
        yield enum.name, (5, i), enum
        for j, value in enumerate(enum.value):
            yield f"{enum.name}.{value.name}", (5, i, 2, j), value
    for i, service in enumerate(proto.service):
        yield service.name, (6, i), service
        for j, method in enumerate(service.method):
            yield f"{service.name}.{method.name}", (6, i, 2, j), method


def test_every_element_is_documented(proto: descriptor_pb2.FileDescriptorProto) -> None:
    """A leading comment that ends as a sentence stands before every element."""
    comments = {tuple(at.path): at.leading_comments for at in proto.source_code_info.location}
    bare = [
        n for n, path, _ in _elements(proto) if not comments.get(path, "").strip().endswith(".")
    ]
    assert bare == []


def test_package_and_directory_agree(proto: descriptor_pb2.FileDescriptorProto) -> None:
    """The package is versioned and the file lies where the package says."""
    assert proto.package == "pointsman.v1"
    assert proto.name == "pointsman/v1/router.proto"
    assert proto.syntax == "proto3"


def test_enums_are_prefixed_and_start_unspecified(
    proto: descriptor_pb2.FileDescriptorProto,
) -> None:
    """Enum values carry the enum's name, zero is _UNSPECIFIED, no alias."""
    for enum in proto.enum_type:
        prefix = _upper_snake(enum.name) + "_"
        assert PASCAL.fullmatch(enum.name)
        assert all(value.name.startswith(prefix) for value in enum.value), enum.name
        assert (enum.value[0].name, enum.value[0].number) == (prefix + "UNSPECIFIED", 0)
        assert not enum.options.allow_alias


def test_names_are_cased_as_usual(proto: descriptor_pb2.FileDescriptorProto) -> None:
    """Messages and RPCs are PascalCase; fields and oneofs lower_snake_case."""
    for message in proto.message_type:
        assert PASCAL.fullmatch(message.name)
        for name in [f.name for f in message.field] + [o.name for o in message.oneof_decl]:
            assert LOWER_SNAKE.fullmatch(name), f"{message.name}.{name}"


def test_each_rpc_has_its_own_request_and_response(
    proto: descriptor_pb2.FileDescriptorProto,
) -> None:
    """Service names end in Service; RPC X takes XRequest and returns XResponse, none shared."""
    for service in proto.service:
        assert service.name.endswith("Service")
        for method in service.method:
            assert PASCAL.fullmatch(method.name)
            assert method.input_type == f".pointsman.v1.{method.name}Request"
            assert method.output_type == f".pointsman.v1.{method.name}Response"


def test_committed_stubs_are_what_the_proto_gives() -> None:
    """Generating again changes nothing; a stale or superfluous stub would be named."""
    assert rpc_build.differences() == []


def test_a_stale_stub_is_named(tmp_path: Path) -> None:
    """The comparison can fail: an altered and a superfluous file are both told."""
    for name, text in rpc_build.generate().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "router_pb2.py").write_text("pass\n", encoding="utf-8")
    (tmp_path / "old_pb2.py").write_text("pass\n", encoding="utf-8")
    assert rpc_build.differences(tmp_path) == ["old_pb2.py", "router_pb2.py"]
