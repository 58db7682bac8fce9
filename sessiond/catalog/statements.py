"""The statements that read and write the row of one session.

Every function takes a connection and runs inside the transaction of `CatalogFile.use`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, Final

from msgspec import json

from sessiond.catalog.guarded import require_types
from sessiond.catalog.query import Query, select
from sessiond.catalog.rows import Fingerprint, Known, Mark, Shown, Stored
from sessiond.catalog.schema import COLUMNS

IS_PART: Final = "instr(info, CAST('\"partial\":true' AS BLOB)) > 0"
"""Condition of rows that show the figures of a part. A text has no bare quote in JSON, so only a member `partial` of
a session's own metadata is taken for one too."""
_KNOWN: Final = (
    "session_id, path, epoch, seen_seq, seen_digest, seen_inode, inode, size, mtime_ns, listed"
)
_KNOWN_TYPES: Final = (str, str, str, int, str, int, int, int, int, int)
_PLACES: Final = ",".join("?" * (COLUMNS.count(",") + 1))
_PLACE: Final = (
    "INSERT INTO sessions (session_id, path, epoch, seen_seq, seen_digest, seen_inode) "
    "VALUES (?,?,?,?,?,?) "
    "ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, "
    "seen_seq = excluded.seen_seq, seen_digest = excluded.seen_digest, "
    "seen_inode = excluded.seen_inode, path = excluded.path, "
    # The list columns were read from the old path, so a new path makes them stale.
    "inode = CASE WHEN path = excluded.path THEN inode ELSE 0 END"
)


def find_known(connection: sqlite3.Connection, session_id: str) -> Known | None:
    """Return the record of a session's file; None if there is none."""
    row = connection.execute(
        f"SELECT {_KNOWN} FROM sessions WHERE session_id = ?",  # noqa: S608 - our names
        (session_id,),
    ).fetchone()
    return None if row is None else _known(row)


def all_known(connection: sqlite3.Connection) -> list[Known]:
    """Return the records of all files."""
    rows = connection.execute(f"SELECT {_KNOWN} FROM sessions")  # noqa: S608 - our names
    return [_known(row) for row in rows]


def known_parts(connection: sqlite3.Connection) -> list[Known]:
    """Return the records of files of which lists show the figures of a part."""
    rows = connection.execute(
        f"SELECT {_KNOWN} FROM sessions WHERE listed AND {IS_PART}"  # noqa: S608 - our names
    )
    return [_known(row) for row in rows]


def at_path(connection: sqlite3.Connection, path: str) -> list[Known]:
    """Return the records of the file at a path: one, unless an older version recorded several."""
    rows = connection.execute(
        f"SELECT {_KNOWN} FROM sessions WHERE path = ? ORDER BY listed DESC, session_id",  # noqa: S608
        (path,),
    )
    return [_known(row) for row in rows]


def find_related(connection: sqlite3.Connection, path: str, ids: Iterable[str]) -> list[Known]:
    """Return the records of the file at a path, and of the sessions with these ids."""
    wanted = tuple(ids)
    places = ",".join("?" * len(wanted))
    rows = connection.execute(
        f"SELECT {_KNOWN} FROM sessions WHERE path = ? OR session_id IN ({places}) "  # noqa: S608
        "ORDER BY listed DESC, session_id",
        (path, *wanted),
    )
    return [_known(row) for row in rows]


def below(connection: sqlite3.Connection, folder: str) -> list[Known]:
    """Return the records of the listed files below a folder."""
    rows = connection.execute(
        f"SELECT {_KNOWN} FROM sessions WHERE path >= ? AND path < ? AND listed = 1",  # noqa: S608
        # "0" is the character behind "/".
        (f"{folder}/", f"{folder}0"),
    )
    return [_known(row) for row in rows]


def find_titles(
    connection: sqlite3.Connection, session_ids: Iterable[str]
) -> dict[str, str | None]:
    """Return the titles of those of these sessions that are listed."""
    ask = "SELECT title FROM sessions WHERE session_id = ? AND listed = 1"
    found = ((one, connection.execute(ask, (one,)).fetchone()) for one in session_ids)
    return {session_id: row[0] for session_id, row in found if row is not None}


def find_roots(connection: sqlite3.Connection) -> set[str]:
    """Return the paths of the roots whose sessions are listed."""
    return {path for (path,) in connection.execute("SELECT path FROM roots")}


def change_roots(connection: sqlite3.Connection, paths: Set[str], left: Iterable[str]) -> None:
    """Set the roots whose sessions are listed; erase the text of sessions that are listed no more."""
    if find_roots(connection) != paths:
        connection.execute("DELETE FROM roots")
        connection.executemany("INSERT INTO roots VALUES (?)", [(path,) for path in paths])
    for session_id in left:
        erase(connection, session_id)


def find_settled_drafts(connection: sqlite3.Connection) -> dict[str, Fingerprint]:
    """Return the paths of drafts without an answer, with each file's identity when read."""
    rows = connection.execute(
        "SELECT path, inode, size, mtime_ns FROM sessions "
        "WHERE listed = 1 AND draft = 1 AND has_assistant = 0"
    )
    return {path: Fingerprint(*seen) for path, *seen in rows}


def place(connection: sqlite3.Connection, session_id: str, path: str, mark: Mark) -> None:
    """Record the path and the epoch of a session's file."""
    seen = (mark.epoch, mark.seen_seq, mark.seen_digest, mark.seen_inode)
    connection.execute(_PLACE, (session_id, path, *seen))


def find_shown(connection: sqlite3.Connection, session_ids: Sequence[str]) -> dict[str, Shown]:
    """Return what lists show of those of these sessions that are listed."""
    found: dict[str, Shown] = {}
    for table in reversed(_tables_in_use(connection)):
        columns = "session_id, info, draft, archived, has_assistant"
        for session_id, info, *flags in _of_many(
            connection, columns, session_ids, "listed = 1", table=table
        ):
            require_types((info,), (bytes,))
            found[session_id] = Shown(info, *map(bool, flags))
    return found


def find_chosen(
    connection: sqlite3.Connection, query: Query | None, session_ids: Sequence[str]
) -> dict[str, Known]:
    """Return the records of those of these sessions that a list has; of those that any list has without a query."""
    where, values = ("listed = 1", list[str | int]()) if query is None else select(query)
    rows = _of_many(connection, _KNOWN, session_ids, where, values)
    return {row[0]: _known(row) for row in rows}


def take_changed(connection: sqlite3.Connection) -> set[str]:
    """Return the sessions whose rows have changed since the last call."""
    return {one for (one,) in connection.execute("DELETE FROM changed RETURNING session_id")}


def find_marks(connection: sqlite3.Connection, session_ids: Sequence[str]) -> dict[str, Mark]:
    """Return the recorded marks of those of these sessions that have records."""
    return {row[0]: _known(row).mark for row in _of_many(connection, _KNOWN, session_ids)}


def _of_many(  # noqa: PLR0913 - a question, and of which rows
    connection: sqlite3.Connection,
    columns: str,
    session_ids: Sequence[str],
    where: str = "TRUE",
    values: Sequence[str | int] = (),
    *,
    table: str = "sessions",
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of many sessions for which a condition with these values holds."""
    # SQLite takes the tables of a cross join in their order: the few sessions first.
    yield from connection.execute(
        f"SELECT {columns} FROM (SELECT value AS asked FROM json_each(?))"  # noqa: S608 - our names
        f" CROSS JOIN {table} ON session_id = asked WHERE {where}",
        (json.encode(session_ids).decode(), *values),
    )


def _tables_in_use(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the tables that hold rows of sessions."""
    (volatile,) = connection.execute("SELECT EXISTS (SELECT 1 FROM volatile)").fetchone()
    return ("sessions", "volatile") if volatile else ("sessions",)


def drop(connection: sqlite3.Connection, session_id: str) -> None:
    """Delete all rows of a session."""
    for table in ("sessions", "tags", "volatile", "volatile_tags"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608


def drop_unlisted(connection: sqlite3.Connection, known: Known) -> None:
    """Delete the record of an unlisted session's file, unless the record changed since."""
    connection.execute(
        "DELETE FROM sessions WHERE session_id = ? AND path = ? AND epoch = ? AND listed = 0",
        (known.session_id, known.path, known.mark.epoch),
    )


def unlist(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove a session from lists; its epoch stays."""
    for table in ("tags", "volatile", "volatile_tags"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608
    connection.execute(
        "UPDATE sessions SET listed = 0, inode = 0, size = 0, mtime_ns = 0 WHERE session_id = ?",
        (session_id,),
    )


def erase(connection: sqlite3.Connection, session_id: str) -> None:
    """Erase the text in the row of an unlisted session; its epoch stays."""
    connection.execute(
        "UPDATE sessions SET cwd = '', title = NULL, title_key = '', words = '', agent = NULL, "
        "status = NULL, info = x'' WHERE session_id = ? AND listed = 0",
        (session_id,),
    )


def insert(connection: sqlite3.Connection, rows: Iterable[Stored]) -> None:
    """Store the rows of sessions that have none; those without a path in the temporary tables."""
    files: list[Stored] = []
    others: list[Stored] = []
    for row in rows:
        (others if row.path is None else files).append(row)
    for table, tags, some in (
        ("sessions", "tags", files),
        ("volatile", "volatile_tags", others),
    ):
        if some:
            connection.executemany(
                f"INSERT OR REPLACE INTO {table} ({COLUMNS}) VALUES ({_PLACES})",  # noqa: S608 - our names
                map(_values, some),
            )
            connection.executemany(
                f"INSERT OR IGNORE INTO {tags} VALUES (?, ?)",  # noqa: S608 - our names
                [(tag, row.session_id) for row in some for tag in row.facts.tags],
            )


def _values(row: Stored) -> tuple[Any, ...]:
    facts, mark, seen = row.facts, row.mark, row.fingerprint
    words = (facts.title or "", facts.first_message or "", facts.cwd)
    return (
        row.session_id,
        row.path or "",
        mark.epoch,
        mark.seen_seq,
        mark.seen_digest,
        mark.seen_inode,
        seen.inode,
        seen.size,
        seen.mtime_ns,
        1,
        facts.archived,
        facts.draft,
        facts.subagent,
        facts.has_assistant,
        facts.cwd,
        facts.title,
        (facts.title or "").casefold(),
        facts.agent,
        facts.status,
        facts.program,
        facts.created_at,
        facts.updated_at,
        facts.message_count,
        "\n".join(words).casefold(),
        facts.parent_id,
        facts.parent_path,
        row.info,
    )


def _known(row: tuple[str, str, str, int, str, int, int, int, int, int]) -> Known:
    require_types(row, _KNOWN_TYPES)
    session_id, path, epoch, seq, digest, seen_inode, inode, size, mtime_ns, listed = row
    if seq < 0:
        raise ValueError("a row has a line below zero")
    mark = Mark(epoch, seq, digest, seen_inode)
    return Known(session_id, path, mark, Fingerprint(inode, size, mtime_ns), bool(listed))
