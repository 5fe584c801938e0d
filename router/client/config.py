"""How a client behaves: one frozen, checked value."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.client.connection import ClientTls

DEFAULT_ADDRESS = "127.0.0.1:50551"
LONGEST_TEXT = 128
"""Longest client id and token, in characters."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Limits of one client.

    Attributes:
        timeout_s: time a call may take, its retries and their pauses included, where the call
            states none.
        attempts: most times a call is tried.
        first_pause_s: pause before the second attempt where the server states none; doubled for
            each further one.
        longest_pause_s: a pause that would be longer ends the call instead.
        jitter: a pause is lengthened at random by at most this share of it, so that clients that
            were turned away together don't come back together.
        client_id: a name by which servers without tokens tell their clients apart; "" is none.
        token: bearer token; never shown, and never sent to another machine without TLS.
        tls: how the server is known; None calls in the clear.

    """

    timeout_s: float = 10.0
    attempts: int = 3
    first_pause_s: float = 0.1
    longest_pause_s: float = 5.0
    jitter: float = 0.25
    client_id: str = ""
    token: str = field(default="", repr=False)
    tls: ClientTls | None = None

    def __post_init__(self) -> None:
        """Refuse what can't work, naming the field."""
        if not self.timeout_s > 0:
            raise ValueError("ClientConfig.timeout_s must be above 0")
        if self.attempts < 1:
            raise ValueError("ClientConfig.attempts must be at least 1")
        for name in ("first_pause_s", "longest_pause_s", "jitter"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"ClientConfig.{name} must not be negative")
        for name in ("client_id", "token"):
            value = getattr(self, name)
            if not (value.isascii() and value.isprintable()) or len(value) > LONGEST_TEXT:
                raise ValueError(
                    f"ClientConfig.{name} must be at most {LONGEST_TEXT} printable ASCII characters"
                )

    def pause_s(self, attempt: int, retry_after_s: float | None, left_s: float) -> float | None:
        """Return the pause after an attempt (from 1) that failed, or None to give up.

        Args:
            attempt: which one it was.
            retry_after_s: what the server said, or None where it said nothing.
            left_s: time left to the call.

        """
        if attempt >= self.attempts:
            return None
        base = self.first_pause_s * 2 ** (attempt - 1) if retry_after_s is None else retry_after_s
        pause = base * (1 + self.jitter * random.random())  # noqa: S311  (no secret)
        return None if base > self.longest_pause_s or pause >= left_s else pause
