"""The tables of catalog.sqlite, and the migration of an older file to this version.

Law: only epochs are carried over, because everything else can be read from the sessions
again. A file of another version without epochs is made anew.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from sessiond.catalog.guarded import Tables
from sessiond.catalog.home import bring_home

VERSION: Final = 10

COLUMNS: Final = (
    "session_id, path, epoch, seen_seq, seen_digest, seen_inode, inode, size, mtime_ns, listed, archived, "
    "draft, subagent, has_assistant, cwd, title, title_key, agent, status, program, created_at, updated_at, "
    "message_count, words, parent_id, parent_path, info"
)

# Narrow columns come first: SQLite reads a row only up to the last column that a query names.
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS {name} (
    session_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    epoch TEXT NOT NULL,
    seen_seq INTEGER NOT NULL,
    seen_digest TEXT NOT NULL,
    seen_inode INTEGER NOT NULL DEFAULT 0,
    inode INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    mtime_ns INTEGER NOT NULL DEFAULT 0,
    listed INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    draft INTEGER NOT NULL DEFAULT 0,
    subagent INTEGER NOT NULL DEFAULT 0,
    has_assistant INTEGER NOT NULL DEFAULT 0,
    cwd TEXT NOT NULL DEFAULT '',
    title TEXT,
    title_key TEXT NOT NULL DEFAULT '',
    agent TEXT,
    status TEXT,
    program TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL DEFAULT '',
    updated_at TEXT NOT NULL DEFAULT '',
    message_count INTEGER NOT NULL DEFAULT 0,
    words TEXT NOT NULL DEFAULT '',
    parent_id TEXT,
    parent_path TEXT,
    info BLOB NOT NULL DEFAULT x''
);
"""
_TAGS: Final = """
CREATE TABLE IF NOT EXISTS {name} (
    tag TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (tag, session_id)
) WITHOUT ROWID;
"""
_SORTS: Final = ("updated_at", "created_at", "title_key", "message_count")
_INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS sessions_by_path ON sessions (path);"
    "CREATE INDEX IF NOT EXISTS tags_by_session ON tags (session_id);"
    "CREATE INDEX IF NOT EXISTS sessions_by_title ON sessions (title_key);"
    "CREATE INDEX IF NOT EXISTS sessions_by_cwd ON sessions (cwd, archived, updated_at, session_id);"
    + "".join(
        f"CREATE INDEX IF NOT EXISTS sessions_by_{sort} ON sessions (archived, {sort}, session_id);"
        for sort in _SORTS
    )
)
_META: Final = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS roots (path TEXT PRIMARY KEY) WITHOUT ROWID;"
)

# Sessions without a file must not be written to this file either. They are in a temporary
# table of the connection, which SQLite keeps in memory.
_VOLATILE: Final = _TABLE.format(name="temp.volatile") + _TAGS.format(name="temp.volatile_tags")

ANY: Final = ""
"""Id that stands for all sessions among those whose rows have changed."""
# Each connection notes which rows change. It cannot tell of those that were there before.
_CHANGED: Final = (
    "CREATE TEMP TABLE IF NOT EXISTS changed AS SELECT '' AS session_id;"
    "CREATE UNIQUE INDEX IF NOT EXISTS temp.changed_ids ON changed (session_id);"
)
_NOTE: Final = """
CREATE TEMP TRIGGER IF NOT EXISTS note_{event} AFTER {event} ON main.sessions
WHEN NOT EXISTS (SELECT 1 FROM changed WHERE session_id IN ('', {row}.session_id))
BEGIN INSERT INTO changed VALUES ({row}.session_id); END;
"""
_NOTES: Final = "".join(
    _NOTE.format(event=event, row=row)
    for event, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old"))
)

# Versions 3 to 9 have today's tags, and lack the column of subagents. Versions 3 to 7 lack that of the
# program, which the dialect tells; versions 3 to 5 have a column more.
_SAME_TAGS: Final = frozenset({3, 4, 5, 6, 7, 8, 9})
_NO_PROGRAM: Final = frozenset({3, 4, 5, 6, 7})
_BEFORE_SUBAGENTS: Final = COLUMNS.replace(" subagent,", "")
_BEFORE_PROGRAMS: Final = _BEFORE_SUBAGENTS.replace(" program,", "")
_NAME_PROGRAMS: Final = (
    "UPDATE sessions SET program = json_extract(CAST(info AS TEXT), '$.dialect'),"
    " info = CAST(json_set(CAST(info AS TEXT), '$.agent_program',"
    " json_extract(CAST(info AS TEXT), '$.dialect')) AS BLOB)"
    " WHERE json_valid(CAST(info AS TEXT))"
    " AND json_extract(CAST(info AS TEXT), '$.dialect') IS NOT NULL;"
)
# Rows of versions 3 to 6 do not say why a session is read-only; there was one reason.
_SILENT: Final = frozenset({3, 4, 5, 6})
_SAY_WHY: Final = (
    "UPDATE sessions SET info = CAST(json_set(CAST(info AS TEXT), '$.read_only_reason',"
    " CASE json_extract(CAST(info AS TEXT), '$.read_only') WHEN 1 THEN 'bad_line' END) AS BLOB)"
    " WHERE json_valid(CAST(info AS TEXT));"
)
# Some values of versions 3 to 8 are outdated. Rows of version 3 have the time of the last entry
# instead of the newest time. Rows of versions 3 and 4 do not count messages above a record that is a
# parent, and lack the model of answers. Rows of all of them lack turns and what turns say of the
# status. Clearing the identity of its file makes a row stale, so the row is read from the file again.
_OUTDATED: Final = _SAME_TAGS - {9}
_FORGET_FILES: Final = "UPDATE sessions SET inode = 0, size = 0, mtime_ns = 0;"
_PUT_ASIDE: Final = "ALTER TABLE sessions RENAME TO older;" + "".join(
    f"DROP INDEX IF EXISTS sessions_by_{name};" for name in ("path", "title", "cwd", *_SORTS)
)
_EPOCHS: Final = "session_id, path, epoch, seen_seq, seen_digest"


def _carry(version: int) -> str:
    """Return the statements that move the rows of an older version into today's table."""
    columns = _BEFORE_SUBAGENTS if version in _SAME_TAGS else _EPOCHS
    if version in _NO_PROGRAM:
        columns = _BEFORE_PROGRAMS
    return (
        f"INSERT INTO sessions ({columns}) SELECT {columns} FROM older; DROP TABLE older;"  # noqa: S608 - our names
        + (_FORGET_FILES if version in _OUTDATED else "")
        + (_SAY_WHY if version in _SILENT else "")
        + (_NAME_PROGRAMS if version in _NO_PROGRAM else "")
    )


def _make(version: int) -> str:
    """Return the statements that make today's tables from those of a version; of 0 there are none."""
    return (
        (_PUT_ASIDE if version else "")
        + ("" if version in _SAME_TAGS else "DROP TABLE IF EXISTS tags;")
        + _TABLE.format(name="sessions")
        + _TAGS.format(name="tags")
        + _INDEXES
        + _META
        + (_carry(version) if version else "")
    )


def _arrive(connection: sqlite3.Connection, folder: Path) -> None:
    bring_home(connection, folder)
    connection.executescript(_CHANGED + _NOTES)


TABLES: Final = Tables(
    "catalog",
    VERSION,
    _make,
    _VOLATILE,
    carried=range(1, VERSION),
    arrive=_arrive,
    in_memory=True,
)
