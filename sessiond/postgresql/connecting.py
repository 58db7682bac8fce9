"""Connections to PostgreSQL: their settings, and their errors as the errors of a store.

Law: the text of a database's error is never told or logged, since its details may quote a row. Only a start,
and `sessiond doctor`, tell what libpq says of a connection that is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg import conninfo, errors, sql
from psycopg_pool import ConnectionPool, PoolTimeout

from sessiond.errors import StorageError
from sessiond.limits import (
    DATABASE_CONNECT_SECONDS,
    DATABASE_CONNECTIONS_MAX,
    DATABASE_IDLE_SECONDS,
    DATABASE_LOCK_SECONDS,
    DATABASE_STATEMENT_SECONDS,
)
from sessiond.postgresql.patience import PatientConnection, Unanswered
from sessiond.postgresql.statements.appending import prepare_statements
from sessiond.service.database.database import Unsent

# The driver and its pool log such texts.
logging.getLogger("psycopg").setLevel(logging.CRITICAL + 1)

Pool = ConnectionPool[PatientConnection]
Failure = psycopg.Error | PoolTimeout
FAILURES: Final = (psycopg.Error, PoolTimeout)

# What a person has to change before a retry can succeed, and what to do.
_FOR_GOOD: Final[tuple[tuple[type[psycopg.Error], str, str], ...]] = (
    (
        errors.InsufficientPrivilege,
        "EACCES",
        "the role may not do that: it needs CREATE on the database, or the schema as its own",
    ),
    (
        errors.UndefinedTable,
        "ENOENT",
        "a table of the schema is missing: bring the schema back from a backup",
    ),
    (
        errors.UndefinedColumn,
        "EINVAL",
        "a table of the schema is of another version: use the sessiond of the other daemons",
    ),
    (
        errors.UniqueViolation,
        "EEXIST",
        "there are lines behind the last one that the row of the session counts: delete these lines",
    ),
)
_PASSING: Final[tuple[tuple[type[psycopg.Error], str, str], ...]] = (
    (errors.DiskFull, "ENOSPC", "the server's disk is full: make room there"),
    (
        errors.TooManyConnections,
        "EAGAIN",
        "the server has no connection left: raise its max_connections",
    ),
    (errors.QueryCanceled, "ETIMEDOUT", "the server took too long: try again"),
    (errors.LockNotAvailable, "ETIMEDOUT", "a lock was not to be had in time: try again"),
    (
        errors.ReadOnlySqlTransaction,
        "EROFS",
        "the server is a standby, or read-only: name the primary in store, too",
    ),
)
# The class of SQLSTATE "operator intervention" that ends connections.
_ENDING_CLASS: Final = "57P"
_KEEPALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def named(dsn: str) -> str:
    """Return the host and the database of a connection string, without secrets. Raises StorageError."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq's own text quotes the string, in which a password may stand.
        text = 'the connection string is none of libpq: write it as "postgresql://host/database"'
        raise StorageError(text, errno="EINVAL", path="postgresql:", retryable=False) from None
    host, port = parts.get("host") or "local", parts.get("port") or 5432
    return f"postgresql://{host}:{port}/{parts.get('dbname') or ''}"


def connection_settings(dsn: str, password: Callable[[], str] | None) -> dict[str, Any]:
    """Return what a connection has beside its connection string. Raises what `password` raises."""
    given = conninfo.conninfo_to_dict(dsn)
    # Of several hosts, the one that takes writes.
    defaults = {"application_name": "sessiond", "target_session_attrs": "read-write", **_KEEPALIVE}
    settings: dict[str, Any] = {
        **{name: value for name, value in defaults.items() if name not in given},
        "autocommit": True,
        "client_encoding": "utf8",
        "connect_timeout": DATABASE_CONNECT_SECONDS,
        # psycopg removes all prepared statements of a connection behind a rollback, if it made any.
        "prepare_threshold": None,
    }
    return settings if password is None else settings | {"password": password()}


def see_schema(connection: PatientConnection, schema: str) -> None:
    """Let a connection see the tables of a schema, and know the statements. Raises psycopg.Error."""
    connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
    prepare_statements(connection)


def open_pool(dsn: str, schema: str, settings: Callable[[], dict[str, Any]]) -> Pool:
    """Return a pool of connections that see a schema. The pool connects in threads of its own."""

    def configure(connection: PatientConnection) -> None:
        settings = {
            "statement_timeout": f"{DATABASE_STATEMENT_SECONDS}s",
            "lock_timeout": f"{DATABASE_LOCK_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{DATABASE_IDLE_SECONDS}s",
            # To compile the statement that reads a long session takes longer than to run it.
            "jit": "off",
            # A writer that has waited for a row sees what was stored meanwhile.
            "default_transaction_isolation": "read committed",
        }
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        # An acknowledged line is on the disk, whatever the role or the database has set.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )
        see_schema(connection, schema)

    return ConnectionPool(
        dsn,
        connection_class=PatientConnection,
        min_size=1,
        max_size=DATABASE_CONNECTIONS_MAX,
        open=True,
        timeout=DATABASE_CONNECT_SECONDS,
        reconnect_timeout=DATABASE_CONNECT_SECONDS,
        configure=configure,
        kwargs=settings,
    )


def is_unreachable(failure: Failure) -> bool:
    """Return whether a failure is that of the connection, or of a server that ends or begins."""
    if isinstance(failure, PoolTimeout):
        return True
    state = failure.sqlstate
    is_lost = state is None or state.startswith(_ENDING_CLASS)
    return isinstance(failure, psycopg.OperationalError) and is_lost


def refusal(doing: str, name: str, failure: Failure) -> StorageError:
    """Return a failure as the error of a store; `doing` completes "could not …"."""
    for rules, is_passing in ((_FOR_GOOD, False), (_PASSING, True)):
        for kind, errno, why in rules:
            if isinstance(failure, kind):
                return _error(doing, name, why, errno, is_passing=is_passing)
    if isinstance(failure, PoolTimeout):
        text = f"could not {doing} at {name}: the database is away, or has no connection left"
        return Unsent(text, errno="ETIMEDOUT", path=name, retryable=True)
    if isinstance(failure, Unanswered):
        return _error(doing, name, "the server does not answer", "ETIMEDOUT", is_passing=True)
    if is_unreachable(failure):
        return _error(doing, name, "the connection ended", "ECONNRESET", is_passing=True)
    why = f"{type(failure).__name__}, SQLSTATE {failure.sqlstate}"
    return _error(doing, name, why, "EIO", is_passing=True)


def unusable(name: str, why: str, advice: str) -> Unsent:
    """Return the refusal of a server that keeps no promise as it is set up, and has stored nothing."""
    text = f"{name} is not used: {why}; {advice}"
    return Unsent(text, errno="ENOTSUP", path=name, retryable=False)


def _error(doing: str, name: str, why: str, errno: str, *, is_passing: bool) -> StorageError:
    text = f"could not {doing} at {name}: {why}"
    return StorageError(text, errno=errno, path=name, retryable=is_passing)
