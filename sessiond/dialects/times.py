"""Times as raw fields of a line, shown as the wire spells them."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.loose import text
from sessiond.model.times import rfc3339

__all__ = ["raw_rfc3339"]

_number: Final = msgspec.json.Decoder(float)


def raw_rfc3339(raw: Raw | None) -> str:
    """The time that a raw field holds; "" for what is no time."""
    if raw is None:
        return ""
    found = text(raw)
    if found is not None:
        return rfc3339(found)
    try:
        return rfc3339(_number.decode(raw))
    except msgspec.DecodeError:
        return ""
