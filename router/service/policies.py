"""What each client may do: the clients file (TOML).

Owns its reading. Tokens are kept as SHA-256 digests alone; they are 256 random bits
(`pointsman token`), so a plain digest can't be searched. Never sees a call, and never imports gRPC.

    [clients.planner]
    token_sha256 = "…"             # or a list of them, while one is replaced by another
    certificate = "planner.corp"   # common name or alternative name of a client certificate (mTLS)
    weight = 2                     # its part of slots and queue beside the others'; 1
    max_open = 64                  # most requests that run or wait at once; no limit
    requests_per_minute = 600      # no limit
    catalogs = ["default"]         # names or digests it may route over; all
    admin = true                   # may compile and activate catalogs; false
    [clients.planner.visible]      # tools it may be answered with; all
    namespaces = ["crm"]
    tags = ["read-only"]
    names = []

    [anonymous]                    # calls without credentials; without it they are refused
"""

from __future__ import annotations

import hashlib
import secrets
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from router.jobs import AllowRule, InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOKEN_BYTES: Final = 32
MAX_ID_CHARS: Final = 128
ANONYMOUS: Final = "anonymous/"
"""What ids of clients without credentials begin with, where a file lists the others."""

BUCKET_DIGITS: Final = 4
_HEX: Final = frozenset("0123456789abcdef")


class ClientsFileError(ValueError):
    """A clients file can't be used; the message names the place and the mend."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a client may do.

    Attributes:
        weight: its part of slots and queue.
        max_open: most requests that run or wait at once; 0 is no limit.
        requests_per_minute: most requests; 0 is no limit.
        catalogs: names and digests it may route over; empty is all.
        visible: tools it may be answered with; None is all.
        admin: whether it may compile and activate catalogs.

    """

    weight: int = 1
    max_open: int = 0
    requests_per_minute: int = 0
    catalogs: frozenset[str] = frozenset()
    visible: AllowRule | None = None
    admin: bool = False


EVERYBODY: Final = Policy(admin=True)
"""What anyone may do where no clients file says otherwise."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A client by its name in the file."""

    id: str
    policy: Policy


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients there are.

    Attributes:
        tokens: the first digits of a token's SHA-256 -> whole digests, hex, and their clients.
        certificates: name in a certificate -> client.
        anonymous: what calls without credentials may do; None refuses them.
        known: whether a file lists the clients.

    """

    tokens: Mapping[str, tuple[tuple[str, Listed], ...]] = field(default_factory=dict)
    certificates: Mapping[str, Listed] = field(default_factory=dict)
    anonymous: Policy | None = EVERYBODY
    known: bool = False


def read_clients(path: Path) -> Clients:
    """Read a clients file.

    Raises:
        ClientsFileError: it can't be read, holds unknown keys, or contradicts itself.

    """
    try:
        with path.open("rb") as file:
            raw = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ClientsFileError(f"{path}: {error}") from error
    try:
        return _clients(raw)
    except ClientsFileError as error:
        raise ClientsFileError(f"{path}: {error}") from error


def new_token() -> tuple[str, str]:
    """Return a new token and the digest that a clients file holds of it."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, hashlib.sha256(token.encode()).hexdigest()


def check_client_name(name: str) -> None:
    """Refuse what can't be a client's name in a clients file; raises ClientsFileError."""
    at = f"clients.{name}"
    if not name or len(name) > MAX_ID_CHARS or not name.isprintable():
        raise ClientsFileError(f"{at}: a name has 1 to {MAX_ID_CHARS} printable characters")
    if name.startswith(ANONYMOUS):
        raise ClientsFileError(f"{at}: a name can't begin with {ANONYMOUS!r}")


def _clients(raw: dict[str, Any]) -> Clients:
    _only(raw, ("clients", "anonymous"), "the file")
    tokens: dict[str, Listed] = {}
    certificates: dict[str, Listed] = {}
    listed = _table(raw.get("clients", {}), "clients")
    for name, entry in listed.items():
        at = f"clients.{name}"
        check_client_name(name)
        entry = dict(_table(entry, at))  # noqa: PLW2901
        digests = _texts(entry.pop("token_sha256", []), f"{at}.token_sha256")
        names = _texts(entry.pop("certificate", []), f"{at}.certificate")
        client = Listed(name, _policy(entry, at))
        if not digests and not names:
            raise ClientsFileError(
                f"{at} has neither token_sha256 nor certificate, so nobody can be it; run "
                "`pointsman token` for a new one"
            )
        for digest in digests:
            if len(digest) != 64 or not set(digest) <= _HEX:
                raise ClientsFileError(
                    f"{at}.token_sha256 must be 64 lower-case hexadecimal digits: the SHA-256 of "
                    "the token, never the token itself; `pointsman token` prints both"
                )
            _enter(tokens, digest, client, f"{at}.token_sha256")
        for subject in names:
            _enter(certificates, subject, client, f"{at}.certificate")
    anonymous = None
    if "anonymous" in raw:
        anonymous = _policy(dict(_table(raw["anonymous"], "anonymous")), "anonymous")
    if not listed and anonymous is None:
        raise ClientsFileError(
            "it lists no client, so every call would be refused; add [clients.…]"
        )
    buckets: dict[str, tuple[tuple[str, Listed], ...]] = {}
    for digest, client in tokens.items():
        buckets[digest[:BUCKET_DIGITS]] = (
            *buckets.get(digest[:BUCKET_DIGITS], ()),
            (digest, client),
        )
    return Clients(buckets, certificates, anonymous, known=True)


def _enter(table: dict[str, Listed], key: str, client: Listed, at: str) -> None:
    if key in table:
        raise ClientsFileError(f"{at}: client {table[key].id} has the same; give each its own")
    table[key] = client


def _policy(entry: dict[str, Any], at: str) -> Policy:
    _only(
        entry,
        ("weight", "max_open", "requests_per_minute", "catalogs", "visible", "admin"),
        at,
    )
    visible = None
    if "visible" in entry:
        rule = _table(entry["visible"], f"{at}.visible")
        _only(rule, ("names", "namespaces", "tags"), f"{at}.visible")
        lists = {key: _texts(value, f"{at}.visible.{key}") for key, value in rule.items()}
        try:
            visible = AllowRule(**{key: tuple(value) for key, value in lists.items()})
        except InvalidJobError as error:
            raise ClientsFileError(f"{at}.visible: {error}") from error
        if not visible.restricts:
            raise ClientsFileError(
                f"{at}.visible lists nothing, which would allow everything; leave it out for that"
            )
    admin = entry.get("admin", False)
    if not isinstance(admin, bool):
        raise ClientsFileError(f"{at}.admin must be true or false")
    return Policy(
        weight=_number(entry, "weight", 1, 1000, at, default=1),
        max_open=_number(entry, "max_open", 1, 1_000_000, at, default=0),
        requests_per_minute=_number(entry, "requests_per_minute", 1, 10**9, at, default=0),
        catalogs=frozenset(_texts(entry.get("catalogs", []), f"{at}.catalogs")),
        visible=visible,
        admin=admin,
    )


def _number(entry: dict[str, Any], key: str, low: int, high: int, at: str, *, default: int) -> int:
    if key not in entry:
        return default
    value = entry[key]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ClientsFileError(f"{at}.{key} must be a whole number in {low}..{high}")
    return value


def _texts(value: Any, at: str) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) and one for one in listed):
        raise ClientsFileError(f"{at} must be a text or a list of texts, none of them empty")
    return listed


def _table(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ClientsFileError(f"{at} must be a table")
    return value


def _only(table: dict[str, Any], known: tuple[str, ...], at: str) -> None:
    for key in table:
        if key not in known:
            raise ClientsFileError(f"{at} holds {key!r}, which means nothing here; known are: "
                                   f"{', '.join(known)}")  # fmt: skip
