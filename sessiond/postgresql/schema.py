"""Tables of a profile: a schema of their own, made and brought to this version under a lock.

Law: an append changes no indexed column of a session's row. So PostgreSQL puts the new version of the row
beside the old one (a heap-only tuple), and a busy session leaves no work for vacuum in any index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from psycopg import Connection, IsolationLevel, sql

from sessiond.errors import StorageError
from sessiond.limits import (
    DATABASE_COMMIT_SECONDS,
    DATABASE_LOCK_SECONDS,
    DATABASE_STATEMENT_SECONDS,
)
from sessiond.postgresql.tables import Lack, found_in, lacks_in, lacks_of

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
# Lines are bytes, whatever the database's encoding: text would refuse a zero byte and change others.
_SESSIONS: Final = """
CREATE TABLE meta (version integer NOT NULL);
CREATE TABLE sessions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id bytea NOT NULL,
    epoch text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    digest bytea NOT NULL,
    size bigint NOT NULL,
    place text COLLATE "C" NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    is_purged boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT 0,
    leases bytea NOT NULL DEFAULT '',
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX sessions_by_id ON sessions (session_id) WHERE NOT is_deleted;
CREATE INDEX sessions_in_trash ON sessions (session_id, number) WHERE is_deleted AND NOT is_purged;
CREATE TABLE lines (
    number bigint NOT NULL,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (number, seq)
);
CREATE TABLE daemons (daemon text COLLATE "C" PRIMARY KEY, beats bigint NOT NULL);
CREATE TABLE numbers (name text COLLATE "C" PRIMARY KEY, next bigint NOT NULL);
"""
_DOCUMENTS: Final = """
CREATE TABLE IF NOT EXISTS documents (
    kind text COLLATE "C" NOT NULL,
    namespace bytea NOT NULL,
    token bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (kind, namespace)
);
"""
_CLAIMS: Final = """
CREATE TABLE claims (
    work bytea PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    ends_at timestamptz NOT NULL
);
"""
_OPEN_NOTES: Final = """
ALTER TABLE daemons ADD COLUMN open bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE daemons ADD COLUMN noted_at timestamptz NOT NULL DEFAULT clock_timestamp();
"""
_COMPANY: Final = """
CREATE UNLOGGED TABLE senders (
    number bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    daemon text COLLATE "C" NOT NULL,
    turn bigint NOT NULL,
    ordinal bigint NOT NULL,
    presence bigint NOT NULL,
    body bytea NOT NULL,
    is_open boolean NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (number, name)
) WITH (fillfactor = 50);
CREATE INDEX senders_by_daemon ON senders (daemon);
CREATE UNLOGGED TABLE signals (
    number bigint NOT NULL,
    sender text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL,
    after_seq bigint NOT NULL,
    body bytea NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (number, sender, ordinal)
);
CREATE INDEX signals_by_time ON signals (written_at);
"""
# Compression of long lines by pglz, the default, takes longer than all other work for a line. Where the server
# was built without lz4, or is older than the choice, the default stays.
_COMPRESSION: Final = """
DO $$ BEGIN
    IF EXISTS (
        SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
    ) THEN
        EXECUTE 'ALTER TABLE lines ALTER COLUMN line SET COMPRESSION lz4';
    END IF;
END $$
"""
# The script at n leads from version n to the next one. A script only adds, so that
# running daemons of the earlier version go on, and stays as it was released.
_SCRIPTS: Final = (_SESSIONS, _DOCUMENTS, _CLAIMS, _OPEN_NOTES, _COMPANY, _COMPRESSION)
_LIMITS: Final = {
    "statement_timeout": DATABASE_STATEMENT_SECONDS,
    "lock_timeout": DATABASE_LOCK_SECONDS,
    "idle_in_transaction_session_timeout": DATABASE_COMMIT_SECONDS,
}
VERSION: Final = len(_SCRIPTS)
"""Version of the tables that this sessiond works with."""
UPGRADE: Final = (
    "a later sessiond has brought the tables up to date, so install that sessiond here, too;"
    ' how to go back is said in docs/running.md, "Upgrading daemons on a database"'
)
"""Advice where the tables have a later version."""


def prepare(connection: Connection[Any], schema: str) -> None:
    """Make the tables, or bring those of an earlier sessiond to VERSION, all or nothing.

    Raises StorageError for the tables of a later sessiond, psycopg.Error.
    """
    name = sql.Identifier(schema)
    # What another daemon has made meanwhile is seen behind the wait for its lock.
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    with connection.transaction():
        # A daemon that is stopped here must not keep other daemons from their start.
        for setting, seconds in _LIMITS.items():
            connection.execute("SELECT set_config(%s, %s, true)", [setting, f"{seconds}s"])
        # Two daemons may start at once.
        connection.execute(_LOCK, [f"sessiond {schema}"])
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
        found = found_in(connection, schema)
        _refuse(schema, lacks_of(found, schema))
        version = version_of(connection, schema)
        _refuse(schema, lacks_in(found, schema, version, VERSION))
        if version > VERSION:
            text = (
                f"the schema {schema} has version {version}, and this sessiond works with versions up"
                f" to {VERSION}: {UPGRADE}"
            )
            raise StorageError(text, errno="EINVAL", path=schema, retryable=False)
        if version == VERSION:
            return
        if not found.is_there:
            # For a schema that is there this takes CREATE on the database, too.
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        for script in _SCRIPTS[version:]:
            connection.execute(script, prepare=False)
        connection.execute("DELETE FROM meta")
        connection.execute("INSERT INTO meta VALUES (%s)", [VERSION])


def _refuse(schema: str, lacks: Iterable[Lack]) -> None:
    """Raise StorageError for the first thing that a daemon lacks."""
    for lack in lacks:
        text = f"{lack.why}: {lack.advice}"
        raise StorageError(text, errno=lack.errno, path=schema, retryable=False)


def version_of(connection: Connection[Any], schema: str) -> int:
    """Return the version of the tables; 0 without tables."""
    found = connection.execute("SELECT to_regclass(%s)", [f'"{schema}".meta']).fetchone()
    if found is None or found[0] is None:
        return 0
    meta = sql.Identifier(schema, "meta")
    row = connection.execute(sql.SQL("SELECT max(version) FROM {}").format(meta)).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
