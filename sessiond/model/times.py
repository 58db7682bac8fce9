"""Times: many spellings in, one spelling out.

A number is seconds since 1970, or milliseconds if the number is too large for
seconds. A text without an offset is UTC. The daemon writes RFC 3339 UTC with
milliseconds. A client's time must be RFC 3339, but for the offset (`utc_time`). In a file of another
program a time may have any ISO 8601 spelling that Python reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta

_FORMATS: Final = [{"format": "date-time"}, {"format": "date-time-local"}]

TimeText = Annotated[str, Meta(extra_json_schema={"anyOf": _FORMATS})]
"""A time on the wire, from clients also without an offset; code that takes one checks it with `utc_time`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# As seconds this is a moment in the year 5138, as milliseconds one in March 1973.
_SECONDS_MAX: Final = 1e11
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
# RFC 3339 has a year 0, which Python lacks: the calendar repeats itself every 400 years.
_SAME_CALENDAR: Final = 400
_LEAP_SECOND: Final = 60
_LEAP: Final = ":60."
_ZERO_TIME: Final = b"0000-00-00T00:00:00.000Z"
_DIGITS_AS_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")

_own_spelling: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
).fullmatch
_RFC3339: Final = (
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def rfc3339(value: str | float | None) -> str:
    """Return a time in the daemon's own spelling; "" for a value that is no time."""
    if isinstance(value, str) and _own_spelling(value):
        # The usual case, once per line when a file opens.
        try:
            datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return value
    moment = _moment(value)
    if moment is None:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def newest(times: Sequence[str | float | None]) -> str:
    """Return the newest of some times in the daemon's own spelling; "" if none is a time."""
    distinct = set(times)
    if len(distinct) > 1:
        latest = _newest_text(distinct) or _newest_number(distinct)
        if latest:
            return latest
    return max(map(rfc3339, distinct))


def _newest_text(times: Collection[str | float | None]) -> str:
    """Return the newest of times in the daemon's own spelling; "" if each must be examined."""
    texts = [one for one in times if isinstance(one, str)]
    joined = "\n".join(texts)
    shape = joined.encode().translate(_DIGITS_AS_ZERO)
    # Text order is the order of time, but for a leap second, which counts as a later one.
    if len(texts) < len(times) or _LEAP in joined or shape != _shape(len(texts)):
        return ""
    latest = max(texts)
    return latest if rfc3339(latest) == latest else ""


def _newest_number(times: Collection[str | float | None]) -> str:
    """Return the newest of times that are seconds since 1970; "" if each must be examined."""
    numbers = [one for one in times if isinstance(one, float)]
    if len(numbers) < len(times) or not (0 <= min(numbers) <= max(numbers) < _SECONDS_MAX):
        return ""
    return rfc3339(max(numbers))


def _shape(count: int) -> bytes:
    return b"\n".join([_ZERO_TIME] * count)


def unix_ms(value: str | float | None) -> int | None:
    """Return a time as milliseconds since 1970; None for a value that is no time."""
    moment = _moment(value)
    return None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def is_rfc3339(text: str) -> bool:
    """Return whether a text is a date-time of RFC 3339, section 5.6, leap seconds included."""
    return _strict(text) is not None


def utc_time(text: str) -> str | None:
    """Return a time that a client sent, as RFC 3339: one without an offset is UTC. None for a text that is no time."""
    return next((one for one in (text, f"{text}Z") if is_rfc3339(one)), None)


def _moment(value: str | float | None) -> datetime | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            seconds = value if abs(value) < _SECONDS_MAX else value / 1000
            return datetime.fromtimestamp(seconds, tz=UTC)
        strict = _strict(value)
        if strict is not None:
            return strict
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _strict(text: str) -> datetime | None:
    """Return the moment that an RFC 3339 text names; None for every other text.

    A leap second is the second before midnight UTC at the end of a month, and counts as the
    first second of the next day. A moment that Python cannot hold becomes the nearest one.
    """
    found = re.fullmatch(_RFC3339, text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = found.groups()[6:]
    if second > _LEAP_SECOND or int(offset_hours or 0) > 23 or int(offset_minutes or 0) > 59:
        return None
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    shift = _SAME_CALENDAR if year <= _SAME_CALENDAR else -_SAME_CALENDAR
    try:
        # Far from both ends of Python's calendar, so that an offset cannot leave it.
        far = datetime(year + shift, month, day, hour, minute, min(second, 59), micros, UTC)
    except ValueError:
        return None
    far += offset if sign == "-" else -offset
    if second == _LEAP_SECOND:
        far += timedelta(seconds=1)
        if (far.day, far.hour, far.minute, far.second) != (1, 0, 0, 0):
            return None
    try:
        return far.replace(year=far.year - shift)
    except ValueError:
        return _FIRST if shift > 0 else _LAST
