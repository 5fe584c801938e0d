"""A port that hands out one page, for whoever scrapes metrics.

Owns the port and its connections: few at once, short ones, small requests. Speaks as much HTTP/1.1
as a scraper needs, on the service's event loop. Never knows what is on the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from router.service import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DEFAULT_HOST: Final = "127.0.0.1"
PATH: Final = "/metrics"
MAX_CONNECTIONS: Final = 8
MAX_HEAD_BYTES: Final = 8192
LIMIT_S: Final = 5.0
"""Time a connection has from its acceptance to its last byte."""


class ScrapeAddressError(Exception):
    """The address can't be listened on; the message says which and why."""


@dataclass(frozen=True, slots=True)
class ScrapeConfig:
    """Where the page is handed out; port 0 is any free one."""

    port: int
    host: str = DEFAULT_HOST

    def __post_init__(self) -> None:
        """Refuse what can't work, naming the field."""
        if not self.host:
            raise ValueError("ScrapeConfig.host is empty; give an address such as 127.0.0.1")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"ScrapeConfig.port is {self.port}; it must lie in 0..65535")

    def check_free(self) -> None:
        """Find an owned address before anything is started; `ScrapeServer.start` decides.

        Raises:
            ScrapeAddressError: it is owned, or no address of this machine.

        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.host, self.port))
        except OSError as error:
            raise self.owned(error) from error

    def owned(self, error: OSError) -> ScrapeAddressError:
        """Return what is said of an address that can't be listened on."""
        return ScrapeAddressError(
            f"can't serve metrics on {_address(self.host, self.port)}: "
            f"{error.strerror or error}; choose another with --metrics-host and --metrics-port"
        )


class ScrapeServer:
    """Answers GET and HEAD of one path.

    Args:
        config: where to listen.
        render: returns content type and page for an Accept header.

    """

    def __init__(
        self, config: ScrapeConfig, render: Callable[[str], Awaitable[tuple[str, bytes]]]
    ) -> None:
        self._config = config
        self._render = render
        self._one_at_a_time = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; return the address with its port.

        Raises:
            ScrapeAddressError: another process listens there, or the address is not ours.

        """
        try:
            self._server = await asyncio.start_server(
                self._accept, self._config.host, self._config.port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            raise self._config.owned(error) from error
        host, port, *_ = self._server.sockets[0].getsockname()
        return _address(host, port)

    async def close(self) -> None:
        """Stop listening and end what is open."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.write(_reply(http.HTTPStatus.SERVICE_UNAVAILABLE))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; whatever a client does ends within the limit."""
        try:
            async with asyncio.timeout(LIMIT_S):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            pass  # It went away, or is too slow (TimeoutError is an OSError): nobody is to be told.
        finally:
            # No word of goodbye: one who doesn't read would hold the page in memory for ever.
            with contextlib.suppress(OSError):
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.LimitOverrunError:
            return _reply(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        method, _, rest = head[0].partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1."):
            return _reply(http.HTTPStatus.BAD_REQUEST)
        if target.partition("?")[0] != PATH:
            return _reply(http.HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _reply(http.HTTPStatus.METHOD_NOT_ALLOWED, ("Allow: GET, HEAD",))
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:])
        }
        try:
            async with self._one_at_a_time:
                content_type, page = await self._render(headers.get("accept", ""))
        except Exception as error:  # noqa: BLE001  (a fault of the page is no fault of the service)
            log.fault("fault", error, what="metrics")
            return _reply(http.HTTPStatus.INTERNAL_SERVER_ERROR)
        lines = (f"Content-Type: {content_type}", f"Content-Length: {len(page)}")
        return _reply(http.HTTPStatus.OK, lines, page if method == "GET" else b"")


def _reply(status: http.HTTPStatus, lines: tuple[str, ...] = (), page: bytes = b"") -> bytes:
    if status is not http.HTTPStatus.OK:
        page = f"{status.phrase}; the page is {PATH}\n".encode()
        content = ("Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(page)}")
        lines = (*lines, *content)
    head = (f"HTTP/1.1 {status.value} {status.phrase}", *lines, "Connection: close", "", "")
    return "\r\n".join(head).encode("latin-1") + page


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
