"""Sessions as tests make them: ids, messages, entries and files."""

from __future__ import annotations

from typing import Any, Final

import msgspec

SESSION: Final = "session-a"
"""The id of a test's only session, where no other is asked for."""


def native_file(lines: list[Any], session_id: str = SESSION) -> bytes:
    """Return the bytes of a native file: a header, then the entries."""
    header = {
        "type": "session_header",
        "version": 1,
        "id": session_id,
        "timestamp": "2026-01-15T10:30:00.000Z",
        "cwd": "/p",
    }
    return b"".join(msgspec.json.encode(line) + b"\n" for line in [header, *lines])
