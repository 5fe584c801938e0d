"""Values of a model's configuration, each checked for what it must be.

Owns the errors for malformed values: they name the file and the key. Never knows a model.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from decoder.errors import ModelError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MOST = 1 << 31


@contextmanager
def naming(source: Path) -> Iterator[None]:
    """Put the file's name before an error that lacks it."""
    try:
        yield
    except UnsupportedModelError as error:
        if str(source) in str(error):
            raise
        raise UnsupportedModelError(f"{source}: {error}") from error


@dataclass(frozen=True, slots=True)
class Settings:
    """Keys and values as read.

    Attributes:
        values: by key; None counts as absent.
        source: what errors name.

    """

    values: Mapping[str, Any]
    source: str

    def whole(self, key: str, default: int | None = None) -> int:
        """Return a whole number from 1 on.

        Raises:
            ModelError: absent without a default, or no such number.

        """
        value = self._value(key, default)
        exact = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not exact or not 1 <= value < MOST:
            raise ModelError(f"{self.source}: {key} is {value!r}; it must be a whole number from 1")
        return int(value)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number. Raises ModelError as `whole`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(f"{self.source}: {key} is {value!r}; it must be a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ModelError(f"{self.source}: {key} is {number}; it must be finite")
        return number

    def shared(self, total: str, among: str) -> int:
        """Return one whole number over another. Raises ModelError where it leaves a rest."""
        whole, parts = self.whole(total), self.whole(among)
        if whole % parts:
            raise ModelError(
                f"{self.source}: {total} ({whole}) is not a multiple of {among} ({parts}); say the "
                "size of a head"
            )
        return whole // parts

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false. Raises ModelError where it is neither."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise ModelError(f"{self.source}: {key} is {value!r}; it must be true or false")
        return value

    def only(self, known: set[str]) -> None:
        """Refuse keys that are not known, since they might change the result."""
        for key in self.values:
            if key not in known:
                raise UnsupportedModelError(
                    f"{self.source}: the key {key!r} is unknown here and might change the result; "
                    "remove it if it does not"
                )

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self.source} has no key {key!r}")
        return value
