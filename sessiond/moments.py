"""Times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

MOMENT_HINT: Final = (
    "give a time as 2026-01-31, 2026-01-31T12:00:00Z, or 30m, 12h, 7d for a time ago"
)
_AGO: Final = r"(\d{1,6})([mhd])"
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def moment(text: str) -> str:
    """Return an RFC 3339 time, a date, or a span before now as RFC 3339 UTC. Raises ValueError, OverflowError."""
    if ago := re.fullmatch(_AGO, text):
        found = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    else:
        found = datetime.fromisoformat(text).astimezone(UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
