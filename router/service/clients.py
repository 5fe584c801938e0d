"""Who is calling.

Owns the reading of a call's credentials: tokens are compared in constant time. Never admits and
never routes.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from router.rpc import router_pb2 as pb
from router.service.admission import Share
from router.service.policies import ANONYMOUS, BUCKET_DIGITS, EVERYBODY, MAX_ID_CHARS
from router.service.refusals import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from router.service.policies import Clients, Policy

CLIENT_KEY: Final = "x-pointsman-client"
"""Metadata by which clients that nobody authenticates may tell themselves apart."""

TOKEN_KEY: Final = "authorization"  # noqa: S105  (a header's name)
_SCHEME: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """A call's client: `id` is never empty."""

    id: str
    policy: Policy

    @property
    def share(self) -> Share:
        """Return what admission needs to know."""
        return Share(self.id, self.policy.weight, self.policy.max_open)

    def may_use(self, name: str, digest: str) -> bool:
        """Return whether this client may route over a catalog."""
        allowed = self.policy.catalogs
        return not allowed or name in allowed or digest in allowed

    def check_catalog(self, name: str, digest: str) -> None:
        """Refuse a catalog that this client may not route over, asked for by `name`."""
        if not self.may_use(name, digest):
            raise NoAnswerError(
                pb.REFUSAL_REASON_FORBIDDEN_TOOLSET,
                f"client {self.id} may not route over catalog {name or digest}",
            )

    def check_admin(self, what: str) -> None:
        """Refuse administration by others than administrators."""
        if not self.policy.admin:
            raise NoAnswerError(
                pb.REFUSAL_REASON_FORBIDDEN, f"client {self.id} may not {what}; an admin may"
            )


def identify(
    clients: Clients,
    metadata: Iterable[tuple[str, str | bytes]],
    certificate_names: Iterable[str],
    peer: str,
) -> Caller:
    """Return who calls.

    Args:
        clients: those there are.
        metadata: of the call, keys in lower case.
        certificate_names: those of a verified client certificate; empty without one.
        peer: the other end as gRPC writes it.

    Raises:
        NoAnswerError: UNAUTHENTICATED, or INVALID for a malformed id.

    """
    given = dict(metadata)
    token = given.get(TOKEN_KEY)
    if token is not None and clients.known:
        return _by_token(clients, token)
    for name in certificate_names:
        if not clients.known:
            return Caller(name, EVERYBODY)
        if (found := clients.certificates.get(name)) is not None:
            return Caller(found.id, found.policy)
    if clients.anonymous is None:
        raise NoAnswerError(
            pb.REFUSAL_REASON_UNAUTHENTICATED,
            "this server wants to know its clients: send metadata "
            '"authorization: Bearer TOKEN", or a certificate that it lists',
        )
    name = _own_name(given.get(CLIENT_KEY)) or _peer_name(peer)
    # Nobody may call itself what a client of the file is called: answers are kept by client.
    return Caller(f"{ANONYMOUS}{name}" if clients.known else name, clients.anonymous)


def _by_token(clients: Clients, header: str | bytes) -> Caller:
    text = header if isinstance(header, str) else ""
    token = text[len(_SCHEME) :].strip() if text.lower().startswith(_SCHEME) else ""
    digest = hashlib.sha256(token.encode(errors="replace")).hexdigest()
    found = None
    # What decides how far to look is a part of a digest, which nobody can steer.
    for stored, client in clients.tokens.get(digest[:BUCKET_DIGITS], ()):
        if hmac.compare_digest(stored, digest):
            found = client
    if found is None:
        raise NoAnswerError(
            pb.REFUSAL_REASON_UNAUTHENTICATED,
            'the token is none of this server\'s; send "authorization: Bearer TOKEN" with one',
        )
    return Caller(found.id, found.policy)


def _own_name(given: str | bytes | None) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or not given.isprintable() or len(given) > MAX_ID_CHARS:
        raise NoAnswerError(
            pb.REFUSAL_REASON_INVALID,
            f"metadata {CLIENT_KEY} must be at most {MAX_ID_CHARS} printable characters",
        )
    return given


def _peer_name(peer: str) -> str:
    """Return the other end without its port: connections of one host are one client."""
    kind, _, address = peer.partition(":")
    if kind in ("ipv4", "ipv6"):
        return address.rsplit(":", 1)[0] or peer
    return kind or "unknown"
