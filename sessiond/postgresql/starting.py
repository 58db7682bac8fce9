"""The first connection of a daemon, beside the pool, which would tell no more than that it waited."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.limits import DATABASE_ANSWER_SECONDS, DATABASE_STATEMENT_SECONDS
from sessiond.postgresql.connecting import (
    FAILURES,
    is_unreachable,
    refusal,
    see_schema,
    unusable,
)
from sessiond.postgresql.patience import PatientConnection
from sessiond.postgresql.pooling import POOL_IS_FULL, RAISE_POOL, trouble_of
from sessiond.postgresql.schema import prepare

_LOGIN: Final = "give the password by PGPASSWORD, a password file or store_password_command"
_PRIMARY: Final = "name the primary in store, too, or let the role and the database write"
_ADDRESS: Final = "correct store"
_SILENT: Final = f"start the server, or correct the address; or {POOL_IS_FULL}: {RAISE_POOL}"
_CERTIFICATES: Final = "correct the certificates, or sslmode and sslrootcert in store"
# Words of libpq, and what to do. They stay as they are until a person has done that, unless they pass.
_WORDS: Final[tuple[tuple[str, str, bool], ...]] = (
    ("no password supplied", _LOGIN, False),
    ("password authentication failed", _LOGIN, False),
    # A standby may be about to become the primary.
    ("is read-only", _PRIMARY, True),
    ("in hot standby mode", _PRIMARY, True),
    ("connection is bad: invalid", _ADDRESS, False),
    ("could not match", _ADDRESS, False),
    ("definition of service", _ADDRESS, False),
    ("service file", _ADDRESS, False),
    ("server does not support SSL", "let the server have TLS, or correct sslmode in store", False),
    ("certificate verify failed", _CERTIFICATES, False),
    ("certificate file", _CERTIFICATES, False),
    # A server that begins or ends answers, too.
    ("the database system is", "wait for the server", True),
    ("query_wait_timeout", RAISE_POOL, True),
    ("no more connections allowed", "raise max_client_conn of the pooler", True),
    ("timeout expired", _SILENT, True),
    ("too many c", "raise the server's max_connections", False),
    ("FATAL", "correct the address and the role", False),
)


class NotConnected(Struct, frozen=True):
    """A connection that was refused."""

    why: str
    """Words of libpq, which name the host, the role and the database."""
    advice: str
    is_passing: bool


class StartFailure(Struct, frozen=True):
    """A failure of a first connection, which may pass."""

    refusal: StorageError
    is_passing: bool


def not_connected(name: str, failure: psycopg.OperationalError) -> NotConnected:
    """Return what a failed connection says: such a failure has no SQLSTATE."""
    words = [line.strip() for line in str(failure).splitlines() if line.strip()]
    why = f"could not connect at {name}: {'; '.join(words) or 'no reason given'}"
    for word, advice, is_passing in _WORDS:
        if word in why:
            return NotConnected(why, advice, is_passing)
    advice = "start the server, or correct the address and the role"
    return NotConnected(why, advice, is_passing=True)


def prepared(dsn: str, name: str, settings: dict[str, Any], schema: str) -> StartFailure | None:
    """Connect once, and make the tables that are missing; return None if all is well.

    Raises StorageError for what does not pass.
    """
    try:
        connection = PatientConnection.connect(dsn, **settings)
    except psycopg.OperationalError as failure:
        said = not_connected(name, failure)
        text = f"{said.why}; {said.advice}"
        refused = StorageError(text, errno="ECONNREFUSED", path=name, retryable=True)
        return StartFailure(refused, is_passing=said.is_passing)
    try:
        with connection:
            trouble = trouble_of(connection, lambda: PatientConnection.connect(dsn, **settings))
            if trouble is not None:
                return StartFailure(unusable(name, *trouble), is_passing=False)
            connection.patience = DATABASE_STATEMENT_SECONDS + DATABASE_ANSWER_SECONDS
            prepare(connection, schema)
            # In the pool, a statement that fails here would be told as a database that is away.
            see_schema(connection, schema)
    except FAILURES as failure:
        refused = refusal("prepare the tables", name, failure)
        return StartFailure(refused, is_passing=is_unreachable(failure))
    return None
