"""Times in raw fields of a line, converted to the spelling of the wire."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.dialects.lenient_json import text
from sessiond.model.times import rfc3339

_number: Final = typed.decoder(float)


def raw_rfc3339(raw: Raw | None) -> str:
    """Return the time in a raw field; "" for a value that is no time."""
    return rfc3339(raw_time(raw))


def raw_time(raw: Raw | None) -> str | float | None:
    """Return the text or number that a raw field spells its time with; None for anything else."""
    if raw is None:
        return None
    found = text(raw)
    if found is not None:
        return found
    try:
        return _number.decode(raw)
    except msgspec.DecodeError:
        return None
