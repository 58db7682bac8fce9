"""Times as files spell them, shown as RFC 3339 UTC with milliseconds.

A number is seconds since 1970, or milliseconds where it is too large for
seconds; a text without an offset is UTC. What is no time reads as "".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.loose import text

__all__ = ["raw_rfc3339", "rfc3339", "unix_ms"]

_number: Final = msgspec.json.Decoder(float)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Seconds reach this in the year 5138, milliseconds did in March 1973.
_SECONDS_MAX: Final = 1e11


def rfc3339(value: str | float | None) -> str:
    """The time in the spelling of the wire."""
    moment = _moment(value)
    if moment is None:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def raw_rfc3339(raw: Raw | None) -> str:
    """The time that a raw field holds, in the spelling of the wire."""
    if raw is None:
        return ""
    found = text(raw)
    if found is not None:
        return rfc3339(found)
    try:
        return rfc3339(_number.decode(raw))
    except msgspec.DecodeError:
        return ""


def unix_ms(value: str) -> int | None:
    """Milliseconds since 1970; None if the text is no time."""
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
