"""Checks of `doctor` on a database: nothing is changed, and no table is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from secrets import randbits
from shlex import quote
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg import Connection, sql

from sessiond.errors import StorageError
from sessiond.limits import DATABASE_CONNECTIONS_MAX, OPEN_NOTE_COUNTS_SECONDS
from sessiond.postgresql.connecting import (
    FAILURES,
    connection_settings,
    named,
    refusal,
    see_schema,
)
from sessiond.postgresql.patience import PatientConnection
from sessiond.postgresql.pooling import trouble_of
from sessiond.postgresql.schema import UPGRADE, VERSION, version_of
from sessiond.postgresql.starting import not_connected
from sessiond.postgresql.statements.rows import id_of
from sessiond.postgresql.tables import Lack, found_in, lacks_in, lacks_of
from sessiond.state.codec import SECRETS, STATE, Damaged, NewerVersion, decode_as
from sessiond.visible import counted

_LISTEN_SECONDS: Final = 2.0
_SECONDS: Final = 30
_OLDEST: Final = 130000
_QUEUE_PERCENT: Final = 50
_DEAD_ROWS: Final = 100_000
_NAMED: Final = 3
_DOCUMENTS_SINCE: Final = 2
_NOTES_SINCE: Final = 4
_UNCOUNTED: Final = """
SELECT session_id, number, sessions.seq, counted.behind FROM sessions CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE lines.seq BETWEEN 0 AND sessions.seq) AS there,
        count(*) FILTER (WHERE lines.seq > sessions.seq) AS behind
        FROM lines WHERE lines.number = sessions.number
) AS counted
    WHERE NOT is_deleted AND (behind > 0 OR there <= sessions.seq)
    ORDER BY number LIMIT %s
"""
_SETTINGS: Final = """
SELECT current_setting('server_version'), current_setting('server_version_num')::int,
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
    pg_is_in_recovery()
"""
# A role sees of the connections of others that they are there, and their application_name.
_CONNECTIONS: Final = """
SELECT current_setting('max_connections')::int, current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int
    - (SELECT sum(numbackends) FROM pg_stat_database)::int,
    (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sessiond')
"""
_DAEMONS: Final = """
SELECT count(*) FROM daemons WHERE noted_at > clock_timestamp() - make_interval(secs => %s)
"""
_NO_IDS: Final = """
SELECT number, session_id FROM sessions WHERE NOT is_deleted
    AND encode(session_id, 'escape') !~ '^[A-Za-z0-9_-]{8,128}$'
    ORDER BY number LIMIT %s
"""


class Examined(Struct, frozen=True):
    """A fact about the database, and what to do if it is not well."""

    what: str
    next: str | None = None
    """None if all is well."""


def examine(dsn: str, schema: str, password: Callable[[], str] | None) -> Iterator[Examined]:
    """Yield what is well and what is not, with the settings of a daemon's connection."""
    try:
        name = named(dsn)
        settings = connection_settings(dsn, password)
    except StorageError as error:
        yield Examined(error.message, "correct store or store_password_command")
        return
    try:
        connection = PatientConnection.connect(dsn, **settings)
    except psycopg.OperationalError as failure:
        said = not_connected(name, failure)
        yield Examined(said.why, said.advice)
        return

    def connect() -> PatientConnection:
        return PatientConnection.connect(dsn, **settings)

    with connection:
        try:
            trouble = trouble_of(connection, connect)
            if trouble is not None:
                # Nothing is set here: other clients of the pooler would have it.
                yield Examined(*trouble)
                return
            connection.patience = 2 * _SECONDS
            yield from _server(connection, name)
            timeout = f"{_SECONDS}s"
            connection.execute("SELECT set_config('statement_timeout', %s, false)", [timeout])
            with connect() as other:
                yield from _rings(connection, other)
            yield from _tables(connection, schema)
        except FAILURES as failure:
            yield Examined(refusal("examine", name, failure).message, "see the server's log")


def _server(connection: Connection[Any], name: str) -> Iterator[Examined]:
    row = connection.execute(_SETTINGS).fetchone()
    assert row is not None, "a query without a table returns one row"
    version, number, is_durable, is_standby = row
    is_old = number < _OLDEST
    yield Examined(f"{name}: PostgreSQL {version}", "use version 13 or later" if is_old else None)
    if not is_durable:
        what = "fsync or full_page_writes is off: a crash may lose acknowledged entries"
        yield Examined(what, 'switch them on; until then appends of durability "disk" are refused')
    if is_standby:
        yield Examined("the server is a standby, which takes no writes", "name the primary, too")


def _rings(connection: Connection[Any], other: Connection[Any]) -> Iterator[Examined]:
    """Find out whether notifications come from one connection to another one."""
    full = connection.execute("SELECT round(100 * pg_notification_queue_usage())").fetchone()
    if full is not None and full[0] >= _QUEUE_PERCENT:
        what = f"the server's queue of notifications is {full[0]:g} % full, and takes none once it is full"
        yield Examined(what, "end the transaction that is open longest: see pg_stat_activity")
        return
    channel = f"sessiond_doctor_{randbits(62)}"
    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    other.execute("SELECT pg_notify(%s, '')", [channel])
    if any(True for _ in connection.notifies(timeout=_LISTEN_SECONDS, stop_after=1)):
        yield Examined("notifications come through")
        return
    what = "notifications do not come through, so events of other daemons come up to 2 s late"
    yield Examined(what, "name the server itself, not what is in front of it")


def _tables(connection: PatientConnection, schema: str) -> Iterator[Examined]:
    """Yield what is well and what is not with the tables of a schema. Raises psycopg.Error."""
    found = found_in(connection, schema)
    lacks = [*lacks_of(found, schema)]
    if not found.rights and not lacks:
        yield Examined(f"the schema {schema} has no tables: the first daemon makes them")
    if not found.rights or lacks:
        yield from map(_told, lacks)
        return
    version = version_of(connection, schema)
    if version > VERSION:
        what = f"the schema {schema} has version {version}, later than this sessiond's {VERSION}"
        yield Examined(what, UPGRADE)
        return
    lacks = [*lacks_in(found, schema, version, VERSION)]
    if lacks:
        yield from map(_told, lacks)
        return
    if version == VERSION:
        # The statements of a daemon find columns that are missing.
        see_schema(connection, schema)
    else:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
    row = connection.execute("SELECT count(*) FROM sessions WHERE NOT is_deleted").fetchone()
    count = 0 if row is None else row[0]
    yield Examined(f"the schema {schema} has {counted(count, 'session')}, and version {version}")
    yield from _sessions(connection, schema)
    if version >= _NOTES_SINCE:
        yield _connections(connection)
    if version >= _DOCUMENTS_SINCE:
        yield from _documents(connection)


def _connections(connection: Connection[Any]) -> Examined:
    """Return how many connections the daemons may take, and whether the server has as many left."""
    most, left, taken = connection.execute(_CONNECTIONS).fetchone() or (0, 0, 0)
    (count,) = connection.execute(_DAEMONS, [OPEN_NOTE_COUNTS_SECONDS]).fetchone() or (0,)
    # One more hears rings. The connection that asks is none of a daemon.
    each = DATABASE_CONNECTIONS_MAX + 1
    left, more = left + 1, max(count, 1) * each - (taken - 1)
    what = (
        f"a daemon takes up to {each} connections, and {counted(count, 'daemon')} had sessions open within a"
        f" minute; of the server's {most} connections {left} are left"
    )
    then = "raise max_connections, or let more clients share a daemon"
    return Examined(what, then if left < more else None)


def _told(lack: Lack) -> Examined:
    return Examined(lack.why, lack.advice)


def _sessions(connection: Connection[Any], schema: str) -> Iterator[Examined]:
    """Yield what is wrong with the rows of sessions and their lines."""
    for session_id, number, seq, behind in connection.execute(_UNCOUNTED, [_NAMED]).fetchall():
        name = id_of(bytes(session_id))
        if behind:
            what = f"{name}: there are lines behind the last one that the row counts"
            then = f"delete the rows of {schema}.lines with number {number} and a seq above {seq}"
            yield Examined(what, f"{then}; or correct the row's seq")
        else:
            what = f"{name}: the row counts other lines than are there"
            yield Examined(what, f"see `sessiond verify {quote(name)}`")
    for number, session_id in connection.execute(_NO_IDS, [_NAMED]).fetchall():
        what = f"the row number {number} of the table sessions has no session id"
        yield Examined(f"{what}: {id_of(bytes(session_id))}", "correct session_id there")
    dead = connection.execute(
        "SELECT n_dead_tup FROM pg_stat_user_tables"
        " WHERE schemaname = %s AND relname = 'sessions' AND n_dead_tup > %s",
        [schema, _DEAD_ROWS],
    ).fetchone()
    if dead is not None:
        what = f"the table sessions has {dead[0]} dead rows, which slow each append down"
        yield Examined(what, "see why autovacuum does not come, or run VACUUM on the table")


def _documents(connection: Connection[Any]) -> Iterator[Examined]:
    """Yield the rows of values and secrets that no daemon can use."""
    names = connection.execute(
        "SELECT kind, namespace FROM documents WHERE kind = ANY(%s) ORDER BY kind, namespace",
        [[STATE, SECRETS]],
    ).fetchall()
    wrong = 0
    for kind, namespace in names:
        # One at a time: a document may be large.
        row = connection.execute(
            "SELECT data FROM documents WHERE kind = %s AND namespace = %s",
            [kind, namespace],
            binary=True,
        ).fetchone()
        why = None if row is None else _flaw(kind, bytes(namespace), bytes(row[0]))
        if why is None:
            continue
        name = bytes(namespace).decode(errors="replace")
        what = (
            f"the row of the namespace {name} ({kind}) in the table documents cannot be used: {why}"
        )
        then = "bring the row back from a backup, or delete the row to begin without it"
        yield Examined(what, then)
        wrong += 1
        if wrong == _NAMED:
            return


def _flaw(kind: str, namespace: bytes, data: bytes) -> str | None:
    """Return why a document is none; None for a sound one, and for one that was moved away."""
    if not data:
        return None
    try:
        decode_as(kind, data, namespace.decode())
    except UnicodeDecodeError:
        return "the namespace is not UTF-8"
    except Damaged as damaged:
        return str(damaged)
    except NewerVersion:
        return "it was written by a newer sessiond"
    return None
