"""The client by itself: its public names, its retries, its reading of errors."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import status_pb2
from hypothesis import given
from hypothesis import strategies as st

import router.client
from router.client import (
    Client,
    ClientConfig,
    ExpiredError,
    RefusedError,
    RouteAnswer,
    RouteQuery,
    ServerUnavailableError,
    UnexpectedStatusError,
)
from router.client.errors import from_rpc_error, from_status
from router.rpc import router_pb2 as pb
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from tests.router.serving.conftest import Service


def test_the_public_names_are_these() -> None:
    """A name that goes or comes is a change of the interface: make it on purpose."""
    assert router.client.__all__ == sorted(
        router.client.__all__, key=lambda n: (not n.isupper(), n)
    )
    assert set(router.client.__all__) == {
        "Arguments",
        "DEFAULT_ADDRESS",
        "Accounts",
        "AsyncClient",
        "Candidate",
        "CatalogInfo",
        "CatalogPage",
        "Client",
        "ClientConfig",
        "ClientCounts",
        "ClientTls",
        "CompiledCatalog",
        "Diagnostic",
        "ExpiredError",
        "ExposedTokenError",
        "FailedError",
        "PointsmanError",
        "RefusedError",
        "RequestError",
        "RouteAnswer",
        "RouteQuery",
        "ServerStats",
        "ServerUnavailableError",
        "Timings",
        "ToolSummary",
        "UnexpectedStatusError",
        "Usage",
    }
    assert all(hasattr(router.client, name) for name in router.client.__all__)


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_no_server_is_told_as_such() -> None:
    """After the attempts, and well within the deadline."""
    config = ClientConfig(attempts=2, first_pause_s=0.01)
    with Client(_free_address(), config) as client, pytest.raises(ServerUnavailableError):
        client.route("x")


async def test_the_blocking_client_does_what_the_other_does(service: Service) -> None:
    """Each method once, from another thread, against a running service."""
    import asyncio  # noqa: PLC0415

    def use() -> list[Any]:
        with Client(service.address) as client:
            query = RouteQuery("boil_tea", request_id="b")
            many = dict(client.route_many([query, "fly_kite"]))
            compiled = client.compile_catalog(b"dig_hole")
            activated, before = client.activate_catalog(compiled.digest, name="n")
            return [
                client.route("ring_bell").tool,
                sorted(r.tool or "" for r in many.values() if isinstance(r, RouteAnswer)),
                activated.digest == compiled.digest,
                before,
                [c.name for c in client.list_catalogs()],
                len(client.get_catalog().tools),
                client.stats().answered,
                client.is_serving(),
            ]

    found = await asyncio.to_thread(use)
    assert found == [
        "ring_bell",
        ["boil_tea", "fly_kite"],
        True,
        "",
        ["default", "n"],
        3,
        3,
        True,
    ]


@given(
    attempt=st.integers(1, 5),
    after=st.one_of(st.none(), st.floats(0, 20)),
    left=st.floats(-1, 20),
)
def test_a_pause_is_never_shorter_than_told_nor_longer_than_what_is_left(
    attempt: int, after: float | None, left: float
) -> None:
    """And there is none after the last attempt, or where it would be too long."""
    config = ClientConfig(attempts=4, longest_pause_s=5.0)
    pause = config.pause_s(attempt, after, left)
    if pause is None:
        base = after if after is not None else 0.1 * 2 ** (attempt - 1)
        assert attempt >= 4 or base > 5.0 or base * 1.25 >= left
    else:
        assert attempt < 4
        assert pause < left
        assert pause >= (after if after is not None else 0.1)
        assert after is None or pause <= 1.25 * after


@pytest.mark.parametrize(
    "bad",
    [
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"attempts": 0},
        {"first_pause_s": -1},
        {"jitter": -0.1},
    ],
)
def test_a_config_that_can_not_work_is_refused(bad: dict[str, float]) -> None:
    """The field is named."""
    with pytest.raises(ValueError, match=next(iter(bad))):
        ClientConfig(**bad)  # type: ignore[arg-type]


class _Call(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, trailing: object = ()) -> None:
        self._code, self._trailing = code, trailing

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "text"

    def trailing_metadata(self) -> object:
        return self._trailing


def test_errors_are_read_from_details_and_not_from_words() -> None:
    """Ours with its reason; a bare status by its code; garbled details as unexpected."""
    refusal = NoAnswerError(pb.REFUSAL_REASON_QUEUE_FULL, "full", retry_after_s=0.25)
    ours = from_rpc_error(_Call(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal.trailing_metadata()))
    assert isinstance(ours, RefusedError)
    assert (ours.reason, ours.retry_after_s, ours.message) == ("QUEUE_FULL", 0.25, "full")
    bare = {
        grpc.StatusCode.UNAVAILABLE: ServerUnavailableError,
        grpc.StatusCode.DEADLINE_EXCEEDED: ExpiredError,
        grpc.StatusCode.UNIMPLEMENTED: UnexpectedStatusError,
    }
    for code, kind in bare.items():
        assert type(from_rpc_error(_Call(code))) is kind
    garbled = (("grpc-status-details-bin", b"\xff\xff\xff"),)
    assert type(from_rpc_error(_Call(grpc.StatusCode.INTERNAL, garbled))) is UnexpectedStatusError
    assert type(from_status(status_pb2.Status(code=99))) is UnexpectedStatusError


def test_a_text_where_a_tuple_is_due_is_refused() -> None:
    """`names="abc"` would allow the tools a, b and c."""
    with pytest.raises(TypeError, match="names"):
        RouteQuery("x", names="abc")  # type: ignore[arg-type]


def test_two_queries_with_one_id_are_refused() -> None:
    """Their results could not be told apart."""
    query = RouteQuery("x")
    with Client(_free_address()) as client, pytest.raises(ValueError, match="request_id"):
        list(client.route_many([query, query]))


@pytest.mark.parametrize("field", ["text", "catalog", "previous", "request_id", "names", "tags"])
def test_what_utf8_can_not_spell_is_refused(field: str) -> None:
    """By the field's name, before anything is sent."""
    half: object = "caf\udce9"
    values: dict[str, object] = {
        "text": "x",
        field: (half,) if field in {"names", "tags"} else half,
    }
    with pytest.raises(ValueError, match=rf"RouteQuery\.{field}.*character 3"):
        RouteQuery(**values)  # type: ignore[arg-type]
