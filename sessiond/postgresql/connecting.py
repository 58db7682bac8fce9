"""Connections to PostgreSQL: their settings, and their errors as the errors of a store.

Law: the text of a database's error is never told or logged, since its details may quote a row.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import Connection, conninfo, errors, sql
from psycopg_pool import ConnectionPool, PoolTimeout

from sessiond.errors import StorageError
from sessiond.limits import (
    DATABASE_CONNECT_SECONDS,
    DATABASE_CONNECTIONS_MAX,
    DATABASE_IDLE_SECONDS,
    DATABASE_LOCK_SECONDS,
    DATABASE_STATEMENT_SECONDS,
)

__all__ = ["FAILURES", "Failure", "Pool", "cannot_connect", "named", "open_pool", "refusal"]

Pool = ConnectionPool[Connection[Any]]
Failure = psycopg.Error | PoolTimeout
FAILURES: Final = (psycopg.Error, PoolTimeout)

# What a person has to change before a retry can succeed, and what to do.
_FOR_GOOD: Final[tuple[tuple[type[psycopg.Error], str, str], ...]] = (
    (
        errors.InsufficientPrivilege,
        "EACCES",
        "the role may not do that: it needs CREATE on the database, or the schema as its own",
    ),
    (errors.UndefinedTable, "ENOENT", "a table of the schema is missing"),
    (errors.UndefinedColumn, "EINVAL", "a table of the schema is of another version"),
)
_PASSING: Final[tuple[tuple[type[psycopg.Error], str, str], ...]] = (
    (errors.DiskFull, "ENOSPC", "the server's disk is full"),
    (errors.TooManyConnections, "EAGAIN", "the server has no connection left"),
    (errors.QueryCanceled, "ETIMEDOUT", "the server took too long"),
    (errors.LockNotAvailable, "ETIMEDOUT", "a lock was not to be had in time"),
    (errors.ReadOnlySqlTransaction, "EROFS", "the server is a standby, or read-only"),
)
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


def open_pool(dsn: str, schema: str) -> Pool:
    """Return a pool of connections that see a schema. The pool connects in threads of its own."""

    def configure(connection: Connection[Any]) -> None:
        settings = {
            "statement_timeout": f"{DATABASE_STATEMENT_SECONDS}s",
            "lock_timeout": f"{DATABASE_LOCK_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{DATABASE_IDLE_SECONDS}s",
        }
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        # An acknowledged line is on the disk, whatever the role or the database has set.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )

    given = conninfo.conninfo_to_dict(dsn)
    # Of several hosts, the one that takes writes.
    defaults = {"application_name": "sessiond", "target_session_attrs": "read-write", **_KEEPALIVE}
    return ConnectionPool(
        dsn,
        min_size=1,
        max_size=DATABASE_CONNECTIONS_MAX,
        open=True,
        timeout=DATABASE_CONNECT_SECONDS,
        reconnect_timeout=DATABASE_CONNECT_SECONDS,
        configure=configure,
        kwargs={
            **{name: value for name, value in defaults.items() if name not in given},
            "autocommit": True,
            "client_encoding": "utf8",
            "connect_timeout": DATABASE_CONNECT_SECONDS,
            "prepare_threshold": 0,
        },
    )


def cannot_connect(name: str, failure: psycopg.OperationalError) -> StorageError:
    """Return the refusal of a first connection, in libpq's words: these name host, role and database."""
    words = [line.strip() for line in str(failure).splitlines() if line.strip()]
    why = "; ".join(words) or "no reason given"
    return _error("connect", name, why, "ECONNREFUSED", is_passing=True)


def refusal(doing: str, name: str, failure: Failure) -> StorageError:
    """Return a failure as the error of a store; `doing` completes "could not …"."""
    for rules, is_passing in ((_FOR_GOOD, False), (_PASSING, True)):
        for kind, errno, why in rules:
            if isinstance(failure, kind):
                return _error(doing, name, why, errno, is_passing=is_passing)
    if isinstance(failure, PoolTimeout):
        return _error(doing, name, "the database is away", "ETIMEDOUT", is_passing=True)
    state = getattr(failure, "sqlstate", None)
    if isinstance(failure, psycopg.OperationalError) and state is None:
        return _error(doing, name, "the connection ended", "ECONNRESET", is_passing=True)
    why = f"{type(failure).__name__}, SQLSTATE {state}"
    return _error(doing, name, why, "EIO", is_passing=True)


def _error(doing: str, name: str, why: str, errno: str, *, is_passing: bool) -> StorageError:
    text = f"could not {doing} at {name}: {why}"
    return StorageError(text, errno=errno, path=name, retryable=is_passing)
