"""Catalogs listed, paged, compiled and activated; reflection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from router.client import ExpiredError, RefusedError
from router.rpc import router_pb2 as pb

if TYPE_CHECKING:
    from tests.router.serving.conftest import Service


async def test_catalogs_are_listed_with_what_they_hold(service: Service) -> None:
    """Name, digest, tools and tokens; which one is the default."""
    (catalog,) = await service.client.list_catalogs()
    assert (catalog.name, catalog.digest, catalog.is_default) == ("default", service.digest, True)
    assert (catalog.tool_count, catalog.definition_tokens) == (3, 300)


async def test_tools_come_page_by_page(service: Service) -> None:
    """Pages join to the whole, by name and by digest, and the last has no token."""
    first = await service.client.get_catalog(page_size=2)
    assert [tool.name for tool in first.tools] == ["ring_bell", "fly_kite"]
    rest = await service.client.get_catalog(
        service.digest, page_size=2, page_token=first.next_page_token
    )
    assert [tool.name for tool in rest.tools] == ["boil_tea"]
    assert rest.next_page_token == ""
    assert rest.tools[0].tags == ("t",)


@pytest.mark.parametrize("token", ["-1", "x", "٣", "9" * 30])
async def test_a_strange_page_token_is_refused(service: Service, token: str) -> None:
    """It is INVALID, whatever it holds."""
    with pytest.raises(RefusedError) as caught:
        await service.client.get_catalog(page_token=token)
    assert caught.value.reason == "INVALID"


async def test_a_page_beyond_the_end_is_empty(service: Service) -> None:
    """Nothing and no token."""
    page = await service.client.get_catalog(page_token="99")
    assert (page.tools, page.next_page_token) == ((), "")


async def test_compiled_and_activated_under_a_new_name(service: Service) -> None:
    """Findings come worst first; routes go to it once it is activated, and not before."""
    compiled = await service.client.compile_catalog(b"dig_hole plant_tree", source_format="mcp")
    assert (compiled.tool_count, compiled.diagnostic_count) == (2, 2)
    assert [d.severity for d in compiled.diagnostics] == ["error", "warning"]
    with pytest.raises(RefusedError):
        await service.client.route("dig_hole", catalog="garden")
    catalog, before = await service.client.activate_catalog(compiled.digest, name="garden")
    assert (catalog.name, catalog.is_default, before) == ("garden", False, "")
    assert (await service.client.route("dig_hole", catalog="garden")).tool == "dig_hole"
    assert await service.client.is_serving("pointsman.v1.RouterService/garden")
    assert [c.name for c in await service.client.list_catalogs()] == ["default", "garden"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "INVALID"), (b"refused", "BAD_CATALOG"), (b"crash", "BAD_CATALOG")],
)
async def test_what_can_not_be_compiled_is_refused(
    service: Service, content: bytes, reason: str
) -> None:
    """Empty, refused by the compiler, and a compiler that dies: each has its reason."""
    with pytest.raises(RefusedError) as caught:
        await service.client.compile_catalog(content)
    assert caught.value.reason == reason
    assert (await service.client.route("ring_bell")).tool == "ring_bell"


async def test_an_endless_compilation_ends_with_its_deadline(service: Service) -> None:
    """It is told as out of time, and routes go on meanwhile."""
    endless = asyncio.create_task(service.client.compile_catalog(b"never", timeout_s=1.0))
    assert (await service.client.route("ring_bell")).tool == "ring_bell"
    with pytest.raises(ExpiredError):
        await endless


@pytest.mark.parametrize("name", ["", "a b", "x" * 64, "名", "../x", "a" * 64])
async def test_names_are_checked(service: Service, name: str) -> None:
    """Only plain names are taken; the empty one is the default's."""
    if not name:
        catalog, before = await service.client.activate_catalog(service.digest, name=name)
        assert (catalog.name, before) == ("default", service.digest)
        return
    with pytest.raises(RefusedError) as caught:
        await service.client.activate_catalog(service.digest, name=name)
    assert caught.value.reason == "INVALID"


async def test_the_number_of_names_is_bounded(service: Service) -> None:
    """The 65th name is refused; the names there are can still be changed."""
    for number in range(63):
        await service.client.activate_catalog(service.digest, name=f"n{number}")
    with pytest.raises(RefusedError) as caught:
        await service.client.activate_catalog(service.digest, name="more")
    assert caught.value.reason == "INVALID"
    await service.client.activate_catalog(service.digest, name="n0")


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "a" * 63])
async def test_digests_are_checked(service: Service, digest: str) -> None:
    """Nothing but a digest reaches the file system."""
    with pytest.raises(RefusedError) as caught:
        await service.client.activate_catalog(digest)
    assert caught.value.reason == "INVALID"


async def test_reflection_describes_the_service(service: Service) -> None:
    """A client with nothing but reflection can build and make the call."""
    async with grpc.aio.insecure_channel(service.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(
                file_containing_symbol="pointsman.v1.RouterService"
            ),
        ]
        listed, described = [reply async for reply in stub.ServerReflectionInfo(iter(asked))]
        names = {entry.name for entry in listed.list_services_response.service}
        assert {"pointsman.v1.RouterService", "grpc.health.v1.Health"} <= names
        pool = descriptor_pool.DescriptorPool()
        files = {}
        for raw in described.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(raw)
            files[file.name] = file
        for file in sorted(files.values(), key=lambda f: len(f.dependency)):
            pool.AddSerializedFile(file.SerializeToString())
        method = pool.FindServiceByName("pointsman.v1.RouterService").methods_by_name["Route"]
        assert method.input_type.full_name == "pointsman.v1.RouteRequest"
        call = channel.unary_unary("/pointsman.v1.RouterService/Route")
        raw_answer = await call(pb.RouteRequest(text="ring_bell").SerializeToString())
        assert pb.RouteResponse.FromString(raw_answer).tool.name == "ring_bell"
