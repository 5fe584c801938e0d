"""How a client reaches its server: in the clear or by TLS, under which name, with which token.

Owns the channel's making and the metadata that every call carries. Never calls.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

if TYPE_CHECKING:
    from pathlib import Path

    from router.client.config import ClientConfig

MAX_MESSAGE_BYTES: Final = 64 << 20
CLIENT_KEY: Final = "x-pointsman-client"
TOKEN_KEY: Final = "authorization"  # noqa: S105  (a header's name)

CHANNEL_OPTIONS: Final = (
    # Retries are this client's own business: it knows the server's pushback.
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)


class ExposedTokenError(ValueError):
    """A token would cross a network in the clear."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How the server is known, and how this client shows who it is.

    Attributes:
        ca: PEM of the roots that the server's certificate is checked by; None takes the system's.
        certificate, key: PEM of this client's own certificate (mTLS), both or neither.
        server_name: name the server's certificate must bear, where that is not the address's.

    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = field(default=None, repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        """Refuse half a certificate."""
        if (self.certificate is None) != (self.key is None):
            raise ValueError("ClientTls needs certificate and key, both or neither")

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files; raises OSError."""
        roots, key, chain = (
            None if path is None else path.read_bytes()
            for path in (self.ca, self.key, self.certificate)
        )
        return grpc.ssl_channel_credentials(roots, key, chain)

    def options(self) -> tuple[tuple[str, Any], ...]:
        """Return the channel's options."""
        if not self.server_name:
            return CHANNEL_OPTIONS
        return (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", self.server_name))


def open_channel(address: str, config: ClientConfig) -> grpc.Channel:
    """Return a channel; raises as `check_token`, and OSError for a file that can't be read."""
    check_token(address, config)
    if config.tls is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(address, config.tls.credentials(), options=config.tls.options())


def open_aio_channel(address: str, config: ClientConfig) -> grpc.aio.Channel:
    """Return a channel for asyncio; raises as `open_channel`."""
    check_token(address, config)
    if config.tls is None:
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(address, config.tls.credentials(), options=config.tls.options())


def call_metadata(config: ClientConfig) -> tuple[tuple[str, str], ...]:
    """Return what every call carries."""
    pairs = []
    if config.token:
        pairs.append((TOKEN_KEY, f"Bearer {config.token}"))
    if config.client_id:
        pairs.append((CLIENT_KEY, config.client_id))
    return tuple(pairs)


def check_token(address: str, config: ClientConfig) -> None:
    """Refuse to send a token where others could read it.

    Raises:
        ExposedTokenError: there is a token, no TLS, and the address is another machine's.

    """
    if config.token and config.tls is None and not _stays_here(address):
        raise ExposedTokenError(
            f"the token would reach {address} in the clear, for anyone on the way to read; use "
            "TLS (ClientConfig.tls, --tls)"
        )


def _stays_here(address: str) -> bool:
    kind, _, rest = address.partition(":")
    if kind in ("unix", "unix-abstract"):
        return True
    target = rest.lstrip("/") if kind in ("dns", "ipv4", "ipv6") else address
    host = target.rsplit(":", 1)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
