"""The statements of the way of an append: rows of open sessions, and lines behind a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiond.limits import DATABASE_HOLD_SECONDS, DATABASE_PIECE_LINES
from sessiond.postgresql.statements.prepared import (
    BYTEA,
    BYTEAS,
    INT8,
    INT8S,
    TEXT,
    Call,
    Prepared,
    answered,
    answered_together,
    byteas,
    int8,
    int8s,
    nanoseconds,
    number,
    run_together,
    send_together,
)
from sessiond.postgresql.statements.reading import Piece, in_one, lines_from, prepare_reads
from sessiond.postgresql.statements.ringing import prepare_ring
from sessiond.postgresql.statements.rows import SEEN, heads_in
from sessiond.service.database.database import Head, size_of

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

    from sessiond.postgresql.patience import PatientConnection

# One statement, so one round trip. Rivals wait for the row, and then find another position.
_MOVED: Final = """
WITH moved AS (
    UPDATE sessions SET seq = seq + $1, digest = $2, size = size + $3,
        written_at = clock_timestamp(), changed = pg_current_xact_id(),
        place = $10, version = version + (place <> $10)::int
    WHERE {keeps} AND number = $4 AND epoch = $5 AND seq = $6 AND digest = $7
        AND version = $8 AND NOT is_deleted
    RETURNING number, written_at, version
)"""
# An array of one line, and a join for an answer, cost the server a twentieth of the whole statement each.
_ONE_LINE: Final = """
INSERT INTO lines (number, seq, line) SELECT number, $6 + 1, $9 FROM moved
RETURNING (SELECT written_at FROM moved), (SELECT version FROM moved)
"""
_LINES: Final = """,
stored AS (
    INSERT INTO lines (number, seq, line) SELECT moved.number, $6 + given.at, given.line
        FROM moved, unnest($9) WITH ORDINALITY AS given (line, at)
)
SELECT written_at, version FROM moved
"""
# A pooler may have given the connection another process of the server, so nothing that was set is believed.
_KEEPS: Final = (
    "current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'"
    " AND current_setting('synchronous_commit') IN ('on', 'remote_apply')"
)
_KEPT: Final = Prepared(b"sessiond_kept", f"SELECT {_KEEPS}", ())
# A commit that writes to the log, and waits, brings everything before it to the disk.
_FLUSH: Final = Prepared(
    b"sessiond_flush", f"SELECT pg_logical_emit_message(true, 'sessiond', '') WHERE {_KEEPS}", ()
)
_LATER: Final = "set_config('synchronous_commit', 'off', true) IS NOT NULL"
_TYPES: Final = (INT8, BYTEA, INT8, INT8, TEXT, INT8, BYTEA, INT8)


class _Append(NamedTuple):
    """The statements of appends of one durability."""

    one: Prepared
    """Takes a line."""
    several: Prepared
    """Takes an array of lines."""

    @classmethod
    def that(cls, name: bytes, keeps: str) -> _Append:
        """Return the statements that store lines only if a condition holds."""
        moved = _MOVED.format(keeps=keeps)
        return cls(
            Prepared(name + b"_one", moved + _ONE_LINE, (*_TYPES, BYTEA, TEXT)),
            Prepared(name, moved + _LINES, (*_TYPES, BYTEAS, TEXT)),
        )


_SYNC: Final = _Append.that(b"sessiond_append", _KEEPS)
_NO_SYNC: Final = _Append.that(b"sessiond_append_later", _LATER)
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
    """Let a new connection know the statements of calls. Raises psycopg.Error."""
    for one in (*_SYNC, *_NO_SYNC, _BEGIN, _COMMIT, _LOCK, _HEAD, _HEADS, _KEPT, _FLUSH):
        one.prepare(connection)
    prepare_reads(connection)
    prepare_ring(connection)


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


class AppendCall(NamedTuple):
    """An append of lines behind a position, in the place of `at`, on one connection."""

    connection: PatientConnection
    at: Head
    lines: Sequence[bytes]
    digest: bytes
    sync: bool
    commits: bool = False
    """True if the append ends the transaction that holds the row."""

    def send(self) -> None:
        """Let libpq send the append. Waits for nothing; raises psycopg.Error."""
        one, values = self._call()
        if self.commits:
            send_together(self.connection, (one, values), (_COMMIT, ()))
        else:
            one.send(self.connection, values)

    def answer(self) -> Appended:
        """Wait for the outcome of what was sent. Raises psycopg.Error."""
        if self.commits:
            result, _ = answered_together(self.connection, 2)
        else:
            result = answered(self.connection)
        if result.ntuples:
            return Appended(keeps=True, head=self._head(result))
        return Appended(not self.sync or keeps_commits(self.connection), None)

    def _call(self) -> Call:
        at, lines = self.at, self.lines
        statements = _SYNC if self.sync else _NO_SYNC
        is_one = len(lines) == 1
        return (statements.one if is_one else statements.several), [
            int8(len(lines)),
            self.digest,
            int8(size_of(lines)),
            int8(at.number),
            at.epoch.encode(),
            int8(at.seq),
            at.digest,
            int8(at.version),
            lines[0] if is_one else byteas(lines),
            at.place.encode(),
        ]

    def _head(self, result: PGresult) -> Head:
        at, lines = self.at, self.lines
        written_at = result.get_value(0, 0)
        assert written_at is not None, "the column is not null"
        written_ns = nanoseconds(written_at)
        # Under an unchanged version an append changes nothing else of the row.
        return Head(
            at.number,
            at.session_id,
            at.epoch,
            at.seq + len(lines),
            self.digest,
            at.size + size_of(lines),
            at.place,
            is_deleted=False,
            written_ns=written_ns,
            version=number(result.get_value(0, 1)),
            leases=at.leases,
            now_ns=written_ns,
        )


def flush(connection: PatientConnection) -> bool:
    """Bring all commits to the disk; return False if the server does not keep them. Raises psycopg.Error."""
    return bool(_FLUSH.run(connection, ()).ntuples)


def keeps_commits(connection: PatientConnection) -> bool:
    """Return whether a commit of this connection is kept through a crash. Raises psycopg.Error."""
    return _KEPT.run(connection, ()).get_value(0, 0) == b"\x01"
