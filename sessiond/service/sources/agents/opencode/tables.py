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
from sessiond.limits import (
    OPENCODE_COLUMN_BYTES,
    OPENCODE_COLUMN_CHARS_MAX,
    OPENCODE_ROWS_BYTES_MAX,
)
from sessiond.service.sources.agents.opencode.rows import (
    COLUMNS,
    Contents,
    MessageBudget,
    MessageMark,
    StoredSession,
    session_of,
)

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
        for row in _session_rows(connection, table, names, where, values):
            one = session_of(dict(zip(names, row, strict=True)))
            if one.id:
                found.setdefault(one.id, one)
    return list(found.values())


def _session_rows(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    where: str,
    values: Sequence[str],
) -> list[tuple[Any, ...]]:
    """Return these columns of sessions; of a row with a text that is too long, the id."""
    ask = f"SELECT {', '.join(map(_short, names))} FROM {table}"  # noqa: S608 - known names
    try:
        return list(_rows(connection, f"{ask}{where}", values))
    except sqlite3.DataError:
        ids = list(_rows(connection, f"SELECT id FROM {table}{where}", values))  # noqa: S608
    found: list[tuple[Any, ...]] = []
    for (session_id,) in ids:
        try:
            found += _rows(connection, f"{ask} WHERE id = ?", (session_id,))
        except sqlite3.DataError:
            found.append(tuple(session_id if name == "id" else None for name in names))
    return found


def _short(column: str) -> str:
    """Return the expression of a column whose text has a bound."""
    most = OPENCODE_COLUMN_CHARS_MAX
    return f"CASE WHEN length({column}) > {most} THEN substr({column}, 1, {most}) ELSE {column} END"


def changes_in(connection: sqlite3.Connection) -> list[tuple[StoredSession, int, int]]:
    """Return each session with messages, their number of rows and the newest time of a change."""
    found: dict[str, tuple[int, int]] = {}
    for table in filter(lambda name: _has(connection, name), _NEEDED):
        ask = f"SELECT session_id, count(*), max(time_updated) FROM {table} GROUP BY session_id"  # noqa: S608
        for session_id, count, newest in _rows(connection, ask):
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
        for message_id, count, newest in _rows(
            connection,
            "SELECT message_id, count(*), max(time_updated) FROM part WHERE session_id = ?"
            " GROUP BY message_id",
            (session_id,),
        )
    }
    found = _rows(
        connection,
        "SELECT id, time_updated FROM message WHERE session_id = ? ORDER BY time_created, id",
        (session_id,),
    )
    return [
        MessageMark(message_id, _number(time), *parts.get(message_id, (0, 0)))
        for message_id, time in found
    ]


def _row_marks(connection: sqlite3.Connection, session_id: str) -> list[MessageMark]:
    found = _rows(
        connection,
        "SELECT id, time_updated FROM session_message WHERE session_id = ? ORDER BY seq",
        (session_id,),
    )
    return [MessageMark(message_id, _number(time)) for message_id, time in found]


def messages_in(
    connection: sqlite3.Connection, contents: Contents, ids: Sequence[str]
) -> list[StoredMessage]:
    """Return the first messages of these ids, up to the end of a batch; those that are gone are left out.

    Each value is read by itself, so that the one that is too long costs no other one.
    """
    asked = ids[:_IDS_MAX]
    parts = {} if contents.is_newer else _parts_of(connection, contents, asked)
    columns, table = (
        ("time_created, type, seq", "session_message")
        if contents.is_newer
        else ("time_created", "message")
    )
    ask = f"SELECT {columns} FROM {table} WHERE session_id = ? AND id = ?"  # noqa: S608 - known names
    budget = MessageBudget()
    found: list[StoredMessage] = []
    for message_id in asked:
        row = connection.execute(ask, (contents.session.id, message_id)).fetchone()
        if row is None:
            continue
        budget.begin()
        data = budget.take(_value(connection, table, message_id))
        if contents.is_newer:
            time, kind, seq = row
            found.append(StoredMessage(message_id, time, data, kind=kind or "", seq=seq))
        else:
            own = [
                StoredPart(one, budget.take(_value(connection, "part", one)))
                for one in parts.get(message_id, ())
            ]
            found.append(StoredMessage(message_id, row[0], data, own))
        if budget.is_full:
            break
    return found


def _parts_of(
    connection: sqlite3.Connection, contents: Contents, ids: Sequence[str]
) -> dict[str, list[str]]:
    """Return the ids of the parts of each message, in their order."""
    ask = (
        "SELECT message_id, id FROM part WHERE session_id = ?"  # noqa: S608 - marks for values
        f" AND message_id IN ({', '.join('?' * len(ids))}) ORDER BY id"
    )
    found: dict[str, list[str]] = {}
    for message_id, part_id in _rows(connection, ask, (contents.session.id, *ids)):
        found.setdefault(message_id, []).append(part_id)
    return found


def _value(connection: sqlite3.Connection, table: str, row_id: str) -> bytes | None:
    """Return the JSON text of a row, "null" for a row of another type; None for one that is too long."""
    ask = f"SELECT CAST(data AS BLOB) FROM {table} WHERE id = ?"  # noqa: S608 - known names
    try:
        row = connection.execute(ask, (row_id,)).fetchone()
    except sqlite3.DataError:
        return None
    return row[0] if row is not None and isinstance(row[0], bytes) else b"null"


def _rows(
    connection: sqlite3.Connection, ask: str, values: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an answer. Raises TooLarge over OPENCODE_ROWS_BYTES_MAX."""
    size = 0
    for row in connection.execute(ask, values):
        size += sum(OPENCODE_COLUMN_BYTES + _length(value) for value in row)
        if size > OPENCODE_ROWS_BYTES_MAX:
            raise TooLarge(
                "the database has more rows than sessiond reads at once",
                limit=OPENCODE_ROWS_BYTES_MAX,
                size=size,
            )
        yield row


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
