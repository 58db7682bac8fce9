"""Times and texts as Go's encoder spells them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.model.times import rfc3339

ZERO_TIME: Final = "0001-01-01T00:00:00Z"
"""Go's time that was never set; sharur writes it into a message without a time."""

_ESCAPED: Final = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}
_MILLIS_DIGITS: Final = 3
_encoder: Final = msgspec.json.Encoder()


def go_time(value: str | float) -> str:
    """Return a time in UTC without zeros at the end of the fraction; "" for a value that is no time."""
    whole, point, fraction = rfc3339(value).removesuffix("Z").partition(".")
    digits = fraction.rstrip("0")
    return f"{whole}{point if digits else ''}{digits}Z" if whole else ""


def line_time(value: str | float | None) -> str:
    """Return the time of a line in the daemon's own spelling; "" for a value that is no time.

    Nanoseconds, which most lines of sharur have, are cut off before the text is parsed.
    """
    if isinstance(value, str) and value[19:20] == "." and value[-1] == "Z" and value.isascii():
        digits = value[20:-1]
        if len(digits) > _MILLIS_DIGITS and digits.isdigit():
            value = f"{value[: 20 + _MILLIS_DIGITS]}Z"
    return rfc3339(value)


def is_zero_time(value: str | None) -> bool:
    """Return whether a text is Go's time that was never set."""
    return value is not None and rfc3339(value) == rfc3339(ZERO_TIME)


def go_json(value: Any) -> Raw:
    """Return a value of the envelope as JSON; a payload stays as it was sent."""
    if isinstance(value, Raw):
        return value
    encoded = _encoder.encode(value)
    for plain, escaped in _ESCAPED.items():
        if plain in encoded:
            encoded = encoded.replace(plain, escaped)
    return Raw(encoded)
