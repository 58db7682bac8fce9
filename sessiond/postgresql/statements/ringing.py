"""Statements about rings: a ring, and the connection of a daemon that hears rings.

Law: a connection that listens holds a shared advisory lock. So the server itself knows whether another daemon
listens, and forgets a daemon together with its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from sessiond.postgresql.statements.prepared import TEXT, Prepared

if TYPE_CHECKING:
    from psycopg import Connection

    from sessiond.postgresql.patience import PatientConnection

# A ring waits for no disk.
_RING: Final = Prepared(
    b"sessiond_ring",
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)",
    (TEXT, TEXT),
)
# The lock under which tables are made has another key.
_LISTENER: Final = "SELECT pg_advisory_lock_shared(hashtextextended(%s, 1))"
# A connection that shares the lock gets the lock for itself only if no other connection shares the lock.
# Prepared, so that psycopg does not take in rings while it waits for the answer.
_ALONE: Final = Prepared(
    b"sessiond_alone",
    "SELECT CASE WHEN pg_try_advisory_lock(hashtextextended($1, 1))"
    " THEN pg_advisory_unlock(hashtextextended($1, 1)) ELSE false END",
    (TEXT,),
)


def prepare_ring(connection: Connection[Any]) -> None:
    """Let a new connection know the statement of a ring. Raises psycopg.Error."""
    _RING.prepare(connection)


def ring_on(connection: PatientConnection, channel: str, text: str) -> None:
    """Tell a text to all that listen on a channel. Raises psycopg.Error."""
    _RING.run(connection, [channel.encode(), text.encode()])


def listen_on(connection: PatientConnection, channel: str) -> None:
    """Let a connection hear what is told on a channel. Raises psycopg.Error."""
    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    connection.execute(_LISTENER, [channel])
    _ALONE.prepare(connection)


def is_alone_on(connection: PatientConnection, channel: str) -> bool:
    """Return whether no connection but this one hears a channel. Loses no ring; raises psycopg.Error."""
    return _ALONE.run(connection, [channel.encode()]).get_value(0, 0) == b"\x01"
