"""How the service is set up: one frozen, checked value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from router.service.listening import TlsFiles

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 50551
DEFAULT_SLOTS = 8
DEFAULT_QUEUE = 16


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """Limits and addresses of one server.

    Attributes:
        host: address to listen on.
        port: port, or 0 for any free one.
        slots: requests in the engine at once.
        queue: requests that may wait for a slot.
        default_timeout_s: time given to a request that states no deadline.
        grace_s: time that admitted requests are given after SIGTERM.
        max_message_bytes: longest gRPC message (a catalog to be compiled is the largest).
        recorded_answers: answers kept for repeated request ids.
        recorded_for_s: how long they are kept.
        compile_timeout_s: longest compilation.
        kept_catalogs: inactive catalogs kept open per server to go back to.
        max_streams: most RouteStream calls at once, and most calls of any kind on one connection.
        max_metadata_bytes: longest metadata of a call.
        unix_socket: path of a socket to listen on in place of host and port.
        tls: the server's certificate; None serves in the clear.
        arguments: whether arguments are decoded for those who want them.

    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    slots: int = DEFAULT_SLOTS
    queue: int = DEFAULT_QUEUE
    default_timeout_s: float = 30.0
    grace_s: float = 20.0
    max_message_bytes: int = 64 << 20
    recorded_answers: int = 4096
    recorded_for_s: float = 300.0
    compile_timeout_s: float = 600.0
    kept_catalogs: int = 8
    max_streams: int = 1024
    max_metadata_bytes: int = 16 << 10
    unix_socket: Path | None = None
    tls: TlsFiles | None = None
    arguments: bool = True

    def __post_init__(self) -> None:
        """Refuse what can't work, naming the field."""
        if not self.host:
            raise ValueError("ServiceConfig.host is empty; give an address such as 127.0.0.1")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"ServiceConfig.port is {self.port}; it must lie in 0..65535")
        if self.unix_socket is not None and self.tls is not None:
            raise ValueError("ServiceConfig.tls has no use on a unix socket; leave one out")
        for name in (
            "slots", "max_message_bytes", "recorded_answers", "max_streams", "max_metadata_bytes",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"ServiceConfig.{name} must be at least 1")
        for name in ("queue", "kept_catalogs"):
            if getattr(self, name) < 0:
                raise ValueError(f"ServiceConfig.{name} must not be negative")
        for name in ("default_timeout_s", "grace_s", "recorded_for_s", "compile_timeout_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"ServiceConfig.{name} must be above 0")

    @property
    def address(self) -> str:
        """Return host and port as gRPC writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
