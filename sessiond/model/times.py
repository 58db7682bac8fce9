"""Times: many spellings in, one spelling out.

A number is seconds since 1970, or milliseconds where it is too large for
seconds; a text without an offset is UTC. The daemon itself writes RFC 3339 UTC
with milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["rfc3339", "unix_ms"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Seconds reach this in the year 5138, milliseconds did in March 1973.
_SECONDS_MAX: Final = 1e11


def rfc3339(value: str | float | None) -> str:
    """The one spelling; "" for what is no time."""
    moment = _moment(value)
    if moment is None:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_ms(value: str) -> int | None:
    """Milliseconds since 1970; None for what is no time."""
    moment = _moment(value)
    return None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def _moment(value: str | float | None) -> datetime | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            seconds = value if abs(value) < _SECONDS_MAX else value / 1000
            return datetime.fromtimestamp(seconds, tz=UTC)
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
