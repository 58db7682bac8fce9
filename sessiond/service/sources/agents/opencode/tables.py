"""The tables of opencode's database: those of version 1, those of version 2, or both.

Law: tables and columns are looked up by name, because each release may lack some of them. Statements
run inside the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sessiond.dialects.agents.opencode_lines import StoredMessage, StoredPart
from sessiond.errors import TooLarge
from sessiond.limits import IMPORT_BYTES_MAX
from sessiond.service.sources.agents.opencode.rows import (
    COLUMNS,
    Contents,
    MessageMark,
    StoredSession,
    session_of,
)

__all__ = ["changes_in", "contents_in", "messages_in", "sessions_in"]

# The newer table comes first: a database may have the older one too, with stale rows.
_SESSIONS: Final = ("session_v2", "session")
# SQLite takes 999 values in one statement at least.
_IDS_MAX: Final = 500
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


def sessions_in(
    connection: sqlite3.Connection, session_id: str | None = None
) -> list[StoredSession]:
    """Return all sessions of a database, or the one of this id.

    A newer row counts more than one of the older table.
    """
    where, values = ("", ()) if session_id is None else (" WHERE id = ?", (session_id,))
    found: dict[str, StoredSession] = {}
    for table in _SESSIONS:
        there = _columns(connection, table)
        names = [name for name in COLUMNS if name in there]
        if "id" not in names:
            continue
        ask = f"SELECT {', '.join(names)} FROM {table}{where}"  # noqa: S608 - known names
        rows = connection.execute(ask, values)
        for row in rows:
            one = session_of(dict(zip(names, row, strict=True)))
            if one.id:
                found.setdefault(one.id, one)
    return list(found.values())


def changes_in(connection: sqlite3.Connection) -> list[tuple[StoredSession, int, int]]:
    """Return each session with messages, their number of rows and the newest time of a change."""
    found: dict[str, tuple[int, int]] = {}
    for table in filter(lambda name: _has(connection, name), _NEEDED):
        ask = f"SELECT session_id, count(*), max(time_updated) FROM {table} GROUP BY session_id"  # noqa: S608
        for session_id, count, newest in connection.execute(ask):
            before = found.get(session_id, (0, 0))
            found[session_id] = before[0] + count, max(before[1], _number(newest))
    return [(one, *found[one.id]) for one in sessions_in(connection) if one.id in found]


def contents_in(connection: sqlite3.Connection, session_id: str) -> Contents | None:
    """Return what a session has: the version with newer rows; None if there is no such session.

    After an update to version 2 the tables of version 1 stay, and some late releases of version 1 have
    tables of version 2 that they hardly use.
    """
    session = next(iter(sessions_in(connection, session_id)), None)
    if session is None:
        return None
    older = _newest(connection, ("message", "part"), session_id)
    newer = _newest(connection, ("session_message",), session_id)
    if newer is not None and (older is None or newer > older):
        return Contents(session, _row_marks(connection, session_id), is_newer=True)
    marks = [] if older is None else _marks(connection, session_id)
    return Contents(session, marks)


def _newest(connection: sqlite3.Connection, tables: tuple[str, ...], session_id: str) -> int | None:
    if not all(_has(connection, table) for table in tables):
        return None
    ask = "SELECT max(time_updated) FROM {} WHERE session_id = ?"
    times = [connection.execute(ask.format(one), (session_id,)).fetchone()[0] for one in tables]
    return max((time for time in times if isinstance(time, int)), default=None)


def _marks(connection: sqlite3.Connection, session_id: str) -> list[MessageMark]:
    parts = {
        message_id: (count, _number(newest))
        for message_id, count, newest in connection.execute(
            "SELECT message_id, count(*), max(time_updated) FROM part WHERE session_id = ?"
            " GROUP BY message_id",
            (session_id,),
        )
    }
    found = connection.execute(
        "SELECT id, time_updated FROM message WHERE session_id = ? ORDER BY time_created, id",
        (session_id,),
    )
    return [
        MessageMark(message_id, _number(time), *parts.get(message_id, (0, 0)))
        for message_id, time in found
    ]


def _row_marks(connection: sqlite3.Connection, session_id: str) -> list[MessageMark]:
    found = connection.execute(
        "SELECT id, time_updated FROM session_message WHERE session_id = ? ORDER BY seq",
        (session_id,),
    )
    return [MessageMark(message_id, _number(time)) for message_id, time in found]


def messages_in(
    connection: sqlite3.Connection, contents: Contents, ids: Sequence[str]
) -> list[StoredMessage]:
    """Return the messages of these ids, in the order of the ids; those that are gone are left out."""
    read = _rows if contents.is_newer else _with_parts
    size = _Size()
    found: dict[str, StoredMessage] = {}
    for at in range(0, len(ids), _IDS_MAX):
        some = ids[at : at + _IDS_MAX]
        within = f"IN ({', '.join('?' * len(some))})"
        values = (contents.session.id, *some)
        found |= {one.id: one for one in read(connection, within, values, size)}
    return [found[one] for one in ids if one in found]


def _with_parts(
    connection: sqlite3.Connection, within: str, values: Sequence[str], size: _Size
) -> Iterator[StoredMessage]:
    parts: dict[str, list[StoredPart]] = {}
    for message_id, part_id, data in connection.execute(
        "SELECT message_id, id, CAST(data AS BLOB) FROM part"  # noqa: S608 - marks for values
        f" WHERE session_id = ? AND message_id {within} ORDER BY id",
        values,
    ):
        parts.setdefault(message_id, []).append(StoredPart(part_id, size.add(data)))
    found = connection.execute(
        "SELECT id, time_created, CAST(data AS BLOB) FROM message"  # noqa: S608
        f" WHERE session_id = ? AND id {within}",
        values,
    )
    for message_id, time, data in found:
        yield StoredMessage(message_id, time, size.add(data), parts.pop(message_id, ()))


def _rows(
    connection: sqlite3.Connection, within: str, values: Sequence[str], size: _Size
) -> Iterator[StoredMessage]:
    found = connection.execute(
        "SELECT id, time_created, CAST(data AS BLOB), type, seq FROM session_message"  # noqa: S608
        f" WHERE session_id = ? AND id {within}",
        values,
    )
    for message_id, time, data, kind, seq in found:
        yield StoredMessage(message_id, time, size.add(data), kind=kind or "", seq=seq)


class _Size:
    """The bytes of the messages so far. Raises TooLarge over IMPORT_BYTES_MAX."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, data: Any) -> bytes:
        """Return the data of a row, counted; no data for a row of another type."""
        found = data if isinstance(data, bytes) else b"null"
        self._bytes += len(found)
        if self._bytes > IMPORT_BYTES_MAX:
            raise TooLarge(
                "the session is too large to be read at once",
                limit=IMPORT_BYTES_MAX,
                size=self._bytes,
            )
        return found


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
