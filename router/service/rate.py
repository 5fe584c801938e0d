"""How many requests a client may offer in a minute.

Owns one virtual clock a client (the generic cell rate algorithm, ITU-T I.371): a client may be
ahead of its rate by a burst. Never refuses by itself.
"""

from __future__ import annotations

from typing import Final

BURST_S: Final = 10.0
"""A client that was quiet may offer at once what it may offer in so many seconds."""


class RateLimits:
    """Clocks by client id. Only clients whose policy names a rate have one."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def pause_s(self, client: str, per_minute: int, now: float) -> float | None:
        """Count one request, or return how long the client must wait before it may offer one.

        Args:
            client: its id.
            per_minute: what its policy allows, at least 1.
            now: monotonic seconds.

        """
        gap_s = 60.0 / per_minute
        due = max(self._next.get(client, now), now)
        ahead_s = due + gap_s - now - max(BURST_S, gap_s)
        if ahead_s > 1e-9:
            return ahead_s
        self._next[client] = due + gap_s
        return None
