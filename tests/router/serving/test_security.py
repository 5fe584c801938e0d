"""Who may call, what they may see, and what nobody can take or read on the way."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2

from router.client import (
    AsyncClient,
    ClientConfig,
    ClientTls,
    ExposedTokenError,
    RefusedError,
    RequestError,
    RouteQuery,
    ServerUnavailableError,
)
from router.rpc import router_pb2 as pb
from router.service.clients import identify
from router.service.config import ServiceConfig
from router.service.listening import (
    AddressOwnedError,
    SocketClaim,
    TlsFileError,
    TlsFiles,
    is_loopback,
)
from router.service.policies import Clients, ClientsFileError, new_token, read_clients
from router.service.refusals import NoAnswerError
from tests.router.serving.certificates import Authority
from tests.router.serving.conftest import serving, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.serving.conftest import Service

PLANNER, PLANNER_DIGEST = new_token()
ADMIN, ADMIN_DIGEST = new_token()

CLIENTS = f"""
[clients.planner]
token_sha256 = "{PLANNER_DIGEST}"
requests_per_minute = 30
[clients.planner.visible]
names = ["fly_kite"]
[clients.admin]
token_sha256 = ["{"0" * 64}", "{ADMIN_DIGEST}"]
admin = true
[clients.robot]
certificate = "robot"
catalogs = ["other"]
"""


def clients_file(folder: Path, text: str = CLIENTS) -> Clients:
    path = folder / "clients.toml"
    path.write_text(text, encoding="utf-8")
    return read_clients(path)


def client_of(service: Service, token: str = "", **more: Any) -> AsyncClient:
    config = ClientConfig(attempts=1, timeout_s=20.0, token=token, **more)
    return AsyncClient(service.address, config)


async def reason_of(call: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        await call
    return caught.value.reason


# tokens and policies


async def test_only_listed_clients_get_in(tmp_path: Path) -> None:
    """No token, a wrong one and a malformed one are refused, typed, and counted."""
    async with serving(tmp_path, ServiceConfig(), clients=clients_file(tmp_path)) as service:
        for token in ("", "wrong", PLANNER[:-1], PLANNER_DIGEST):
            async with client_of(service, token) as client:
                assert await reason_of(client.route("fly_kite")) == "UNAUTHENTICATED"
                assert await reason_of(client.stats()) == "UNAUTHENTICATED"
                assert await reason_of(client.list_catalogs()) == "UNAUTHENTICATED"
                results = [r async for _, r in client.route_many(["fly_kite"])]
                assert isinstance(results[0], RefusedError)
                assert results[0].reason == "UNAUTHENTICATED"
                assert await client.is_serving()  # for whoever balances the load
        async with client_of(service, PLANNER) as client:
            assert (await client.route("fly_kite")).tool == "fly_kite"
            stats = await client.stats()
        assert (stats.offered, stats.answered, stats.refused) == (5, 1, 4)
        assert stats.reasons == {"UNAUTHENTICATED": 4}
        assert set(stats.clients) == {"planner", "unknown"}


async def test_a_client_is_answered_with_what_it_may_see(tmp_path: Path) -> None:
    """The engine walks the visible tools alone; asking for others is FORBIDDEN_TOOLSET."""
    async with serving(tmp_path, ServiceConfig(), clients=clients_file(tmp_path)) as service:
        async with client_of(service, PLANNER) as client:
            answer = await client.route("ring_bell fly_kite", k=3)
            assert [c.name for c in answer.candidates] == ["fly_kite"]
            assert answer.usage.allowed_size == 1
            assert (await client.route("ring_bell")).tool is None
            query = RouteQuery("ring_bell", names=("ring_bell",))
            assert await reason_of(client.route(query)) == "FORBIDDEN_TOOLSET"
            query = RouteQuery("ring_bell", names=("ring_bell", "fly_kite"))
            assert (await client.route(query)).tool is None
            page = await client.get_catalog()
            assert [tool.name for tool in page.tools] == ["fly_kite"]
        async with client_of(service, ADMIN) as client:
            assert (await client.route("ring_bell")).tool == "ring_bell"
            assert len((await client.get_catalog()).tools) == 3


async def test_only_admins_compile_and_activate(tmp_path: Path) -> None:
    """The others are told so, and nothing changes."""
    async with serving(tmp_path, ServiceConfig(), clients=clients_file(tmp_path)) as service:
        other = service.catalog_file("one two")
        async with client_of(service, PLANNER) as client:
            assert await reason_of(client.activate_catalog(other)) == "FORBIDDEN"
            assert await reason_of(client.compile_catalog(b"x")) == "FORBIDDEN"
            assert (await client.get_catalog()).catalog.digest == service.digest
        async with client_of(service, ADMIN) as client:
            assert (await client.activate_catalog(other))[0].digest == other


async def test_a_rate_is_kept_and_its_pause_told(tmp_path: Path) -> None:
    """30 a minute lets five through at once; the sixth may come in two seconds."""
    async with (
        serving(tmp_path, ServiceConfig(), clients=clients_file(tmp_path)) as service,
        client_of(service, PLANNER) as client,
    ):
        for _ in range(5):
            await client.route("fly_kite")
        with pytest.raises(RefusedError) as caught:
            await client.route("fly_kite")
        assert caught.value.reason == "OVER_QUOTA"
        assert caught.value.retry_after_s is not None
        assert 0 < caught.value.retry_after_s <= 2.0


async def test_nobody_gets_anothers_recorded_answer(tmp_path: Path) -> None:
    """The same id and content of two clients are two requests."""
    async with serving(tmp_path, ServiceConfig(), clients=clients_file(tmp_path)) as service:
        query = RouteQuery("ring_bell", request_id="same")
        async with client_of(service, ADMIN) as client:
            assert (await client.route(query)).tool == "ring_bell"
        async with client_of(service, PLANNER) as client:
            assert (await client.route(query)).tool is None
        assert service.server.ledger.counts.repeated == 0


def test_who_calls_is_told_by_what_it_shows(tmp_path: Path) -> None:
    """Token before certificate before its own word; a host's connections are one client."""
    listed = clients_file(tmp_path, CLIENTS + "\n[anonymous]\nmax_open = 2\n")
    bearer = [("authorization", f"bearer {ADMIN}")]
    assert identify(listed, bearer, ["robot"], "ipv4:10.0.0.9:1").id == "admin"
    assert identify(listed, [], ["x", "robot"], "ipv4:10.0.0.9:1").id == "robot"
    named = [("x-pointsman-client", "planner")]
    assert identify(listed, named, [], "ipv4:10.0.0.9:1").id == "anonymous/planner"
    assert identify(listed, [], [], "ipv4:10.0.0.9:1").share.max_open == 2
    with pytest.raises(NoAnswerError):  # a token is there to be checked, whatever else is shown
        identify(listed, [("authorization", "Basic x")], ["robot"], "")
    everyone = Clients()
    assert identify(everyone, named, [], "ipv4:10.0.0.9:1").id == "planner"
    assert identify(everyone, [], ["robot"], "ipv4:10.0.0.9:1").id == "robot"
    hosts = [identify(everyone, [], [], f"ipv6:[fe80::1]:{port}").id for port in (1, 22)]
    assert hosts == ["[fe80::1]"] * 2
    assert identify(everyone, [], [], "unix:").id == "unix"
    for bad in ("x" * 129, "\x07"):
        with pytest.raises(NoAnswerError):
            identify(everyone, [("x-pointsman-client", bad)], [], "")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "lists no client"),
        ("[client.a]\n", "'client'"),
        ("[clients.a]\nadmin = true\n", "clients.a has neither"),
        ('[clients.a]\ntoken_sha256 = "secret"\n', "never the token itself"),
        ('[clients.a]\ncertificate = "x"\nquota = 3\n', "'quota'"),
        ('[clients.a]\ncertificate = "x"\nweight = 0\n', "clients.a.weight"),
        ('[clients.a]\ncertificate = "x"\nmax_open = true\n', "clients.a.max_open"),
        ('[clients.a]\ncertificate = "x"\nadmin = 1\n', "clients.a.admin"),
        ('[clients.a]\ncertificate = ["x", ""]\n', "clients.a.certificate"),
        ('[clients.a]\ncertificate = "x"\n[clients.a.visible]\n', "lists nothing"),
        ('[clients.a]\ncertificate = "x"\n[clients.a.visible]\ntools = ["b"]\n', "'tools'"),
        ('[clients.a]\ncertificate = "x"\n[clients.b]\ncertificate = "x"\n', "client a has the"),
        ('[clients."anonymous/a"]\ncertificate = "x"\n', "can't begin"),
        ("clients = 3\n", "clients must be a table"),
        ("[clients.a", "clients.toml"),
    ],
)
def test_a_clients_file_that_cannot_be_meant_is_refused(
    tmp_path: Path, text: str, named: str
) -> None:
    """By the place and the mend; nothing is guessed."""
    with pytest.raises(ClientsFileError) as caught:
        clients_file(tmp_path, text)
    assert named in str(caught.value)
    assert "clients.toml" in str(caught.value)


def test_a_missing_clients_file_is_named(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    with pytest.raises(ClientsFileError, match=r"none\.toml"):
        read_clients(tmp_path / "none.toml")


# on the way


async def test_calls_by_tls_need_the_root(tmp_path: Path) -> None:
    """With the root it serves; without, or in the clear, no answer comes."""
    root = Authority(tmp_path, "root")
    own = root.issue("server")
    tls = TlsFiles(own.certificate, own.key)
    async with serving(tmp_path, ServiceConfig(tls=tls)) as service:
        async with client_of(service, tls=ClientTls(root.file)) as client:
            assert (await client.route("fly_kite")).tool == "fly_kite"
        other = Authority(tmp_path, "other")
        for wrong in (ClientTls(other.file), None):
            async with client_of(service, tls=wrong) as client:
                with pytest.raises(RequestError) as caught:
                    await client.route("fly_kite", timeout_s=2.0)
                assert not isinstance(caught.value, RefusedError)
        assert service.server.ledger.counts.offered == 1


async def test_a_client_is_its_certificate(tmp_path: Path) -> None:
    """mTLS: a listed name gets its policy, an unlisted one is refused, no certificate none."""
    root = Authority(tmp_path, "root")
    own = root.issue("server")
    config = ServiceConfig(tls=TlsFiles(own.certificate, own.key, root.file))
    listed = clients_file(tmp_path)
    async with serving(tmp_path, config, clients=listed) as service:

        def shown(name: str) -> ClientTls:
            pair = root.issue(name)
            return ClientTls(root.file, pair.certificate, pair.key)

        async with client_of(service, tls=shown("robot")) as client:
            assert await reason_of(client.route("fly_kite")) == "FORBIDDEN_TOOLSET"
            assert await client.list_catalogs() == ()
        async with client_of(service, tls=shown("stranger")) as client:
            assert await reason_of(client.route("fly_kite")) == "UNAUTHENTICATED"
        async with client_of(service, PLANNER, tls=shown("stranger")) as client:
            assert (await client.route("fly_kite")).tool == "fly_kite"
        async with client_of(service, tls=ClientTls(root.file)) as client:
            with pytest.raises((ServerUnavailableError, RequestError)):
                await client.route("fly_kite", timeout_s=2.0)
        assert set(service.server.ledger.clients) == {"robot", "unknown", "planner"}


def test_a_token_never_leaves_in_the_clear() -> None:
    """Only this machine's addresses take one without TLS; it shows in no text."""
    config = ClientConfig(token="secret")
    for address in ("tools.corp:1", "10.1.2.3:1", "dns:///tools.corp:1", "[2001:db8::1]:1"):
        with pytest.raises(ExposedTokenError, match="in the clear"):
            AsyncClient(address, config)
    assert "secret" not in repr(config)
    for token in ("a\nb", "ä", "x" * 129):
        with pytest.raises(ValueError, match="token"):
            ClientConfig(token=token)


async def test_addresses_of_this_machine_take_a_token() -> None:
    """Loopback by number or name, and sockets."""
    for address in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/x", "ipv4:127.0.0.1:1"):
        async with AsyncClient(address, ClientConfig(token="secret")):
            pass


def test_loopback_is_told_from_the_rest() -> None:
    """A name could be anything, so it counts as reachable."""
    assert [is_loopback(h) for h in ("127.0.0.1", "127.8.0.1", "::1", "localhost")] == [True] * 4
    assert [is_loopback(h) for h in ("0.0.0.0", "::", "10.0.0.1", "me.local")] == [False] * 4


def test_tls_files_are_named_when_they_are_wrong(tmp_path: Path) -> None:
    """Missing, not PEM, or the key in the certificate's place."""
    root = Authority(tmp_path, "root")
    own = root.issue("server")
    (tmp_path / "text").write_text("hello")
    for files in (
        TlsFiles(tmp_path / "none", own.key),
        TlsFiles(own.key, own.key),
        TlsFiles(own.certificate, tmp_path / "text"),
        TlsFiles(own.certificate, own.key, tmp_path / "none"),
    ):
        with pytest.raises(TlsFileError, match=str(tmp_path)):
            files.read()


# unix sockets


async def test_a_unix_socket_is_for_its_account_and_is_removed(tmp_path: Path) -> None:
    """Mode 600 while it serves; gone afterwards; free for the next."""
    path = tmp_path / "s.sock"
    for _ in range(2):
        config = ServiceConfig(unix_socket=path)
        async with serving(tmp_path, config) as service:
            assert service.address == f"unix:{path}"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert (await service.client.route("fly_kite")).tool == "fly_kite"
            with pytest.raises(AddressOwnedError, match="another server"):
                SocketClaim(path)
            assert (await service.client.route("fly_kite")).tool == "fly_kite"
        assert not path.exists()


def test_anothers_socket_is_never_taken(tmp_path: Path) -> None:
    """One that listens is left alone; one left behind is replaced; a file is no socket."""
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(AddressOwnedError, match="another process listens"):
            SocketClaim(path)
        assert path.exists()
    claim = SocketClaim(path)  # its process has closed it
    assert not path.exists()
    claim.release()
    path.write_text("precious")
    with pytest.raises(AddressOwnedError, match="no socket"):
        SocketClaim(path)
    assert path.read_text() == "precious"
    with pytest.raises(AddressOwnedError, match="too long"):
        SocketClaim(tmp_path / ("x" * 120))
    with pytest.raises(AddressOwnedError, match="can't write"):
        SocketClaim(tmp_path / "none" / "s.sock")


def test_a_socket_that_somebody_else_has_put_there_stays(tmp_path: Path) -> None:
    """Released after its path was taken over: the other's socket is not removed."""
    path = tmp_path / "s.sock"
    claim = SocketClaim(path)
    with socket.socket(socket.AF_UNIX) as mine, socket.socket(socket.AF_UNIX) as theirs:
        mine.bind(str(path))
        claim.bound()
        os.rename(path, tmp_path / "moved")  # noqa: PTH104
        theirs.bind(str(path))
        claim.release()
        assert path.exists()
        claim.release()  # a second time is no error


# words of our own


async def test_bytes_that_are_no_message_are_refused_in_our_words(tmp_path: Path) -> None:
    """On every call, with reason and details, and counted where requests are."""
    async with (
        serving(tmp_path, ServiceConfig()) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        service_name = pb.DESCRIPTOR.services_by_name["RouterService"].full_name
        for method in ("Route", "ListCatalogs", "GetCatalog", "CompileCatalog", "ActivateCatalog",
                       "Stats"):  # fmt: skip
            raw = channel.unary_unary(f"/{service_name}/{method}")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await raw(b"\x0a\xff\xff\xff")
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            trailing = dict(caught.value.trailing_metadata())
            status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
            info = error_details_pb2.ErrorInfo()
            assert status.details[0].Unpack(info)
            assert (info.reason, info.metadata["outcome"]) == ("INVALID", "refused")
            assert trailing["grpc-retry-pushback-ms"] == "-1"
        good = pb.RouteStreamRequest(request=pb.RouteRequest(request_id="g", text="fly_kite"))
        stream = channel.stream_stream(f"/{service_name}/RouteStream")(
            iter([b"\xff\xff", good.SerializeToString()])
        )
        results = [pb.RouteStreamResponse.FromString(r) async for r in stream]
        assert sorted(r.WhichOneof("result") for r in results) == ["answer", "refusal"]
        counts = service.server.ledger.counts
        assert (counts.offered, counts.answered, counts.refused) == (3, 1, 2)


async def test_streams_are_bounded(tmp_path: Path) -> None:
    """One too many is told so; a place is free again when one ends."""
    async with serving(tmp_path, ServiceConfig(max_streams=2)) as service:
        # Each on a connection of its own: on one, the library lets no third call begin.
        own = (("grpc.use_local_subchannel_pool", 1),)
        channels = [grpc.aio.insecure_channel(service.address, options=own) for _ in range(3)]
        name = f"/{pb.DESCRIPTOR.services_by_name['RouterService'].full_name}/RouteStream"
        ask = pb.RouteStreamRequest(request=pb.RouteRequest(text="fly_kite")).SerializeToString()
        streams = []
        for channel in channels[:2]:
            streams.append(channel.stream_stream(name)())
            await streams[-1].write(ask)
            await streams[-1].read()
        third = channels[2].stream_stream(name)()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await third.read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await streams[0].done_writing()
        assert await streams[0].read() is grpc.aio.EOF
        await until(lambda: len(service.server._servicer._streams) == 1)
        again = channels[2].stream_stream(name)()
        await again.write(ask)
        assert await again.read() is not grpc.aio.EOF
        for channel in channels:
            await channel.close()


async def test_no_text_of_a_request_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Answered, refused, failed: the log names ids and reasons alone."""
    with caplog.at_level(logging.DEBUG):
        async with serving(tmp_path, ServiceConfig(slots=1, queue=0)) as service:
            texts = ["fly_kite zebra-1", "fault zebra-2", "hold zebra-3", "hold zebra-4"]
            calls = [asyncio.create_task(service.client.route(text)) for text in texts]
            await asyncio.wait(calls, timeout=1.0)
            for name in ("zebra-3", "zebra-4"):
                service.let(name)
            await asyncio.gather(*calls, return_exceptions=True)
            long = RouteQuery("zebra-5", previous="zebra-6" * 40_000)
            assert await reason_of(service.client.route(long)) == "TOO_LONG"
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert "zebra" not in logged
