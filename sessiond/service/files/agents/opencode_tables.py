"""The tables of opencode's database: those of version 1, those of version 2, or both.

Law: tables and columns are looked up by name, because each release may lack some of them. Statements
run inside the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sessiond.dialects.agents.opencode_lines import StoredMessage, StoredPart
from sessiond.errors import TooLarge
from sessiond.limits import IMPORT_BYTES_MAX
from sessiond.service.files.agents.opencode_rows import COLUMNS, StoredSession, session_of

__all__ = ["messages_in", "sessions_in"]

# The newer table comes first: a database may have the older one too, with stale rows.
_SESSIONS: Final = ("session_v2", "session")
_NEEDED: Final = {
    "message": ("id", "session_id", "time_created", "time_updated", "data"),
    "part": ("id", "message_id", "session_id", "time_updated", "data"),
    "session_message": ("id", "session_id", "type", "seq", "time_created", "time_updated", "data"),
}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; none if there is no such table."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in found}


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return _columns(connection, table).issuperset(_NEEDED[table])


def sessions_in(connection: sqlite3.Connection) -> list[StoredSession]:
    """Return all sessions of a database; a newer row counts more than one of the older table."""
    found: dict[str, StoredSession] = {}
    for table in _SESSIONS:
        there = _columns(connection, table)
        names = [name for name in COLUMNS if name in there]
        if "id" not in names:
            continue
        rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}")  # noqa: S608
        for row in rows:
            one = session_of(dict(zip(names, row, strict=True)))
            if one.id:
                found.setdefault(one.id, one)
    return list(found.values())


def messages_in(
    connection: sqlite3.Connection, session_id: str
) -> tuple[bool, list[StoredMessage]]:
    """Return whether the messages are of version 2, and the messages: the version with newer rows.

    After an update to version 2 the tables of version 1 stay, and some late releases of version 1 have
    tables of version 2 that they hardly use.
    """
    older = _newest(connection, ("message", "part"), session_id)
    newer = _newest(connection, ("session_message",), session_id)
    if newer is not None and (older is None or newer > older):
        return True, _rows(connection, session_id)
    return False, [] if older is None else _with_parts(connection, session_id)


def _newest(connection: sqlite3.Connection, tables: tuple[str, ...], session_id: str) -> int | None:
    if not all(_has(connection, table) for table in tables):
        return None
    ask = "SELECT max(time_updated) FROM {} WHERE session_id = ?"
    times = [connection.execute(ask.format(one), (session_id,)).fetchone()[0] for one in tables]
    return max((time for time in times if isinstance(time, int)), default=None)


def _with_parts(connection: sqlite3.Connection, session_id: str) -> list[StoredMessage]:
    size = _Size()
    parts: dict[str, list[StoredPart]] = {}
    for message_id, part_id, data in connection.execute(
        "SELECT message_id, id, CAST(data AS BLOB) FROM part WHERE session_id = ? ORDER BY id",
        (session_id,),
    ):
        parts.setdefault(message_id, []).append(StoredPart(part_id, size.add(data)))
    found = connection.execute(
        "SELECT id, time_created, CAST(data AS BLOB) FROM message WHERE session_id = ?"
        " ORDER BY time_created, id",
        (session_id,),
    )
    return [
        StoredMessage(message_id, time, size.add(data), parts.pop(message_id, ()))
        for message_id, time, data in found
    ]


def _rows(connection: sqlite3.Connection, session_id: str) -> list[StoredMessage]:
    size = _Size()
    found = connection.execute(
        "SELECT id, time_created, CAST(data AS BLOB), type, seq FROM session_message"
        " WHERE session_id = ? ORDER BY seq",
        (session_id,),
    )
    return [
        StoredMessage(message_id, time, size.add(data), kind=kind, seq=seq)
        for message_id, time, data, kind, seq in found
    ]


class _Size:
    """The bytes of a session so far. Raises TooLarge over IMPORT_BYTES_MAX."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, data: Any) -> bytes:
        """Return the data of a row, counted; no data for a row of another type."""
        found = data if isinstance(data, bytes) else b"null"
        self._bytes += len(found)
        if self._bytes > IMPORT_BYTES_MAX:
            raise TooLarge(
                "the session is too large to be imported", limit=IMPORT_BYTES_MAX, size=self._bytes
            )
        return found
