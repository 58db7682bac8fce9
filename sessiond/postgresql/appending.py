"""The statements of the way of an append: rows of open sessions, and lines behind a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiond.limits import DATABASE_HOLD_SECONDS, DATABASE_PIECE_LINES
from sessiond.postgresql.prepared import (
    BYTEA,
    BYTEAS,
    INT8,
    INT8S,
    TEXT,
    Call,
    Prepared,
    byteas,
    int8,
    int8s,
    number,
    run_together,
)
from sessiond.postgresql.reading import Piece, in_one, lines_from, prepare_reads
from sessiond.postgresql.rows import SEEN, heads_in
from sessiond.service.database.database import Head, size_of

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

    from sessiond.postgresql.patience import PatientConnection

__all__ = [
    "Appended",
    "append_and_commit",
    "append_at",
    "heads_of",
    "hold_row",
    "prepare_statements",
]

# One statement, so one round trip. Rivals wait for the row, and then find another position.
_APPEND: Final = """
WITH server AS (
    SELECT {settings} AS keeps
),
moved AS (
    UPDATE sessions SET seq = seq + $1, digest = $2, size = size + $3,
        written_at = clock_timestamp(), changed = pg_current_xact_id(),
        place = $10, version = version + (place <> $10)::int
    FROM server WHERE server.keeps AND number = $4 AND epoch = $5 AND seq = $6 AND digest = $7
        AND version = $8 AND NOT is_deleted
    RETURNING number, (extract(epoch FROM written_at) * 1000000)::bigint AS written_us, version
),
stored AS (
    INSERT INTO lines (number, seq, line) SELECT moved.number, $6 + given.at, given.line
    FROM moved, unnest($9) WITH ORDINALITY AS given (line, at)
)
SELECT server.keeps, moved.written_us, moved.version FROM server LEFT JOIN moved ON true
"""
# A pooler may have given the connection another process of the server, so nothing that was set is believed.
_KEEPS: Final = (
    "current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'"
    " AND current_setting('synchronous_commit') IN ('on', 'remote_apply')"
)
_LATER: Final = "set_config('synchronous_commit', 'off', true) IS NOT NULL"
_TYPES: Final = (INT8, BYTEA, INT8, INT8, TEXT, INT8, BYTEA, INT8, BYTEAS, TEXT)
_SYNC: Final = Prepared(b"sessiond_append", _APPEND.format(settings=_KEEPS), _TYPES)
_NO_SYNC: Final = Prepared(b"sessiond_append_later", _APPEND.format(settings=_LATER), _TYPES)
_BEGIN: Final = Prepared(b"sessiond_begin", "BEGIN", ())
_COMMIT: Final = Prepared(b"sessiond_commit", "COMMIT", ())
# What comes behind this statement sees what other writers stored during its wait.
_LOCK: Final = Prepared(
    b"sessiond_lock",
    "SELECT set_config('idle_in_transaction_session_timeout',"
    f" '{DATABASE_HOLD_SECONDS * 1000}', true)"
    " FROM sessions WHERE number = $1 FOR NO KEY UPDATE",
    (INT8,),
)
# The server keeps the plan for one number. It plans anew each time for a list, whose length differs.
_HEAD: Final = Prepared(b"sessiond_head", f"SELECT {SEEN} FROM sessions WHERE number = $1", (INT8,))
_HEADS: Final = Prepared(
    b"sessiond_heads", f"SELECT {SEEN} FROM sessions WHERE number = ANY($1)", (INT8S,)
)


class Appended(NamedTuple):
    """The outcome of an append."""

    keeps: bool
    """False, and nothing is stored, if the server keeps no commit through a crash."""
    head: Head | None
    """The row behind the lines; None if the session was elsewhere."""


def prepare_statements(connection: Connection[Any]) -> None:
    """Let a new connection know the statements of this module and of reads. Raises psycopg.Error."""
    for one in (_SYNC, _NO_SYNC, _BEGIN, _COMMIT, _LOCK, _HEAD, _HEADS):
        one.prepare(connection)
    prepare_reads(connection)


def heads_of(connection: PatientConnection, numbers: Sequence[int]) -> list[Head]:
    """Return the rows of sessions, deleted or not, with their senders. Raises psycopg.Error."""
    if len(numbers) == 1:
        return heads_in(_HEAD.run(connection, [int8(numbers[0])]))
    return heads_in(_HEADS.run(connection, [int8s(numbers)]))


def hold_row(connection: PatientConnection, at: Head) -> tuple[Head, Piece | None] | None:
    """Wait for the row of a session, and return the row and the first lines behind a position.

    The row is locked up to the end of the transaction that this begins. None for an unknown number.
    Raises psycopg.Error.
    """
    number = int8(at.number)
    _, _, found, rows = run_together(
        connection,
        (_BEGIN, ()),
        (_LOCK, [number]),
        lines_from(at.number, at.seq + 1, at.seq + DATABASE_PIECE_LINES),
        # Last: no line may be known before the signals that came before the line.
        (_HEAD, [number]),
    )
    heads = heads_in(rows)
    return (heads[0], in_one(found)) if heads else None


def append_at(
    connection: PatientConnection, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool
) -> Appended:
    """Store lines behind a position, in the place of `at`. Raises psycopg.Error."""
    one, values = _append(at, lines, digest, sync=sync)
    return _appended(one.run(connection, values), at, lines, digest)


def append_and_commit(
    connection: PatientConnection, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool
) -> Appended:
    """Store lines as `append_at` does, and end the transaction. Raises psycopg.Error."""
    stored, _ = run_together(connection, _append(at, lines, digest, sync=sync), (_COMMIT, ()))
    return _appended(stored, at, lines, digest)


def _append(at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Call:
    return (_SYNC if sync else _NO_SYNC), [
        int8(len(lines)),
        digest,
        int8(size_of(lines)),
        int8(at.number),
        at.epoch.encode(),
        int8(at.seq),
        at.digest,
        int8(at.version),
        byteas(lines),
        at.place.encode(),
    ]


def _appended(result: PGresult, at: Head, lines: Sequence[bytes], digest: bytes) -> Appended:
    written_us = result.get_value(0, 1)
    if written_us is None:
        return Appended(result.get_value(0, 0) == b"\x01", None)
    written_ns = number(written_us) * 1000
    # Under an unchanged version an append changes nothing else of the row.
    head = Head(
        at.number,
        at.session_id,
        at.epoch,
        at.seq + len(lines),
        digest,
        at.size + size_of(lines),
        at.place,
        is_deleted=False,
        written_ns=written_ns,
        version=number(result.get_value(0, 2)),
        leases=at.leases,
        now_ns=written_ns,
    )
    return Appended(keeps=True, head=head)
