"""Where the service listens, and how nobody else's place is taken.

Owns addresses, the server's certificates and the claim on a unix socket. A socket that another
process listens on is never touched; one left behind by a process that is gone is removed. Never
serves.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

CLAIM_SUFFIX: Final = ".claim"
SOCKET_MODE: Final = 0o600
LONGEST_SOCKET_PATH: Final = 100
"""Bytes; systems take 104 to 108."""


class AddressOwnedError(Exception):
    """The address can't be listened on; the message says which and why."""


class TlsFileError(ValueError):
    """A certificate or key can't be read; the message names it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The server's own certificate, and whose clients' it takes.

    Attributes:
        certificate: PEM, the server's own first, then those between it and its root.
        key: PEM, the certificate's private key, without a password.
        client_ca: PEM of the roots of client certificates; None asks clients for none.

    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def read(self) -> tuple[bytes, bytes, bytes | None]:
        """Return certificate, key and client roots.

        Raises:
            TlsFileError: one can't be read, or is no PEM.

        """
        roots = None if self.client_ca is None else _pem(self.client_ca, b"CERTIFICATE")
        return _pem(self.certificate, b"CERTIFICATE"), _pem(self.key, b"PRIVATE KEY"), roots


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address; names but localhost are taken as not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_port_free(host: str, port: int) -> None:
    """Find an owned address before minutes go into compiling; binding decides for good.

    Raises:
        AddressOwnedError: it is owned, or is none of this machine.

    """
    if not port:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise AddressOwnedError(
            f"can't listen on {host}:{port}: {error.strerror or error}; choose another with --host "
            "and --port"
        ) from error


class SocketClaim:
    """A unix socket's path, held for this process from here until `release`.

    A lock on a file beside it keeps two servers of ours apart, even as both start.

    Raises:
        AddressOwnedError: another process has it, or something that is no socket lies there.

    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if len(os.fsencode(self.path)) > LONGEST_SOCKET_PATH:
            raise AddressOwnedError(
                f"{self.path} is too long for a socket (at most {LONGEST_SOCKET_PATH} bytes)"
            )
        self._lock = self._take_lock()
        self._bound: tuple[int, int] | None = None
        try:
            self._remove_left_over()
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def address(self) -> str:
        """Return the address as gRPC writes it."""
        return f"unix:{self.path}"

    def bound(self) -> None:
        """Note that the socket is ours, and let nobody else's account use it."""
        self.path.chmod(SOCKET_MODE)
        found = self.path.stat()
        self._bound = (found.st_dev, found.st_ino)

    def release(self) -> None:
        """Remove the socket, where it is still ours, and let go of the path."""
        if self._lock < 0:
            return
        with contextlib.suppress(OSError):
            found = self.path.stat()
            if self._bound == (found.st_dev, found.st_ino):
                self.path.unlink()
        os.close(self._lock)
        self._lock = -1

    def _take_lock(self) -> int:
        place = self.path.with_name(self.path.name + CLAIM_SUFFIX)
        try:
            lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise AddressOwnedError(f"can't write {place}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise AddressOwnedError(
                f"another server listens on {self.path}; stop it, or choose another path"
            ) from error
        return lock

    def _remove_left_over(self) -> None:
        try:
            kind = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise AddressOwnedError(f"can't look at {self.path}: {error.strerror}") from error
        if not stat.S_ISSOCK(kind):
            raise AddressOwnedError(f"{self.path} exists and is no socket; choose another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(os.fspath(self.path))
            except OSError as error:
                if error.errno == errno.ECONNREFUSED:
                    self.path.unlink(missing_ok=True)  # Nobody listens: its process is gone.
                    return
                raise AddressOwnedError(
                    f"{self.path} can't be told from a socket in use ({error.strerror or error}); "
                    "remove it, or choose another path"
                ) from error
        raise AddressOwnedError(
            f"another process listens on {self.path}; stop it, or choose another path"
        )


def _pem(path: Path, kind: bytes) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TlsFileError(f"{path}: {error.strerror or error}") from error
    if b"-----BEGIN " not in content or kind not in content:
        raise TlsFileError(f"{path} holds no {kind.decode().lower()} in PEM form")
    return content
