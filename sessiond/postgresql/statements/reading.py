"""Lines of a session: a range in pieces, each of which is some whole lines as a file has them.

A line that was removed by hand is missing in its piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiond.limits import (
    DATABASE_AHEAD_LINES,
    DATABASE_PIECE_BYTES,
    DATABASE_PIECE_LINES,
    LINE_BYTES_MAX,
)
from sessiond.postgresql.statements.prepared import (
    INT8,
    Call,
    Prepared,
    int8,
    number,
    rows_of,
    send_for_rows,
)

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

    from sessiond.postgresql.patience import PatientConnection

# A row for each line costs more than the line. A longer row costs more than its bytes: its memory
# grows in steps at both ends, and is fetched anew from the system each time.
_ROW_BYTES: Final = 128 << 10
_LINES: Final = Prepared(
    b"sessiond_lines",
    """
    SELECT string_agg(line || '\\x0a'::bytea, ''::bytea ORDER BY seq), max(seq) FROM (
        SELECT seq, line, sum(octet_length(line)) OVER (ORDER BY seq) - octet_length(line) AS before
        FROM lines WHERE number = $1 AND seq BETWEEN $2 AND $3
    ) AS piece WHERE before < $4 GROUP BY before / $5 ORDER BY before / $5
    """,
    (INT8, INT8, INT8, INT8, INT8),
)


# Rows of about as many lines, one at a time: no row waits for a sort of all. The number of lines follows from the
# average line, so a row is seldom too long; such a row has no lines, as has one whose lines were all removed.
_ROWS: Final = Prepared(
    b"sessiond_rows_of_lines",
    """
    SELECT CASE WHEN (
        SELECT sum(octet_length(line)) FROM lines WHERE number = $1 AND seq BETWEEN start AND stop
    ) <= $4 THEN (
        SELECT string_agg(line || '\\x0a'::bytea, ''::bytea ORDER BY seq) FROM lines
            WHERE number = $1 AND seq BETWEEN start AND stop
    ) END, stop FROM (
        SELECT start, least(start + step - 1, $3) AS stop FROM (
            SELECT greatest(1, least($6, $5 * (seq + 1) / greatest(size, 1))) AS step
                FROM sessions WHERE number = $1
        ) AS average, generate_series($2, $3, step) AS start
    ) AS rows
    """,
    (INT8, INT8, INT8, INT8, INT8, INT8),
)
_ROW_LINES: Final = 256


class Piece(NamedTuple):
    """Whole lines that were read together."""

    data: bytes
    last: int
    """Number of the last line."""


def prepare_reads(connection: Connection[Any]) -> None:
    """Let a new connection know the statements of this module. Raises psycopg.Error."""
    _LINES.prepare(connection)
    _ROWS.prepare(connection)


def lines_from(session: int, first: int, last: int) -> Call:
    """Return the call that reads the first lines of a range, at least one if there is any."""
    # A plan for a table without statistics sorts what is in range.
    last = min(last, first + DATABASE_PIECE_LINES - 1)
    return _LINES, [*map(int8, (session, first, last, DATABASE_PIECE_BYTES, _ROW_BYTES))]


def in_one(found: PGresult) -> Piece | None:
    """Return the lines that the call has found; None if there are none."""
    pieces = [*_pieces(found)]
    return Piece(b"".join(piece.data for piece in pieces), pieces[-1].last) if pieces else None


def piece_of(connection: PatientConnection, session: int, first: int, last: int) -> Piece | None:
    """Return the first lines of a range; None if there are none. Raises psycopg.Error."""
    one, values = lines_from(session, first, last)
    return in_one(one.run(connection, values))


def pieces_ahead(
    connection: PatientConnection, session: int, first: int, last: int
) -> Iterator[Piece]:
    """Yield the lines of a range; the server reads and sends while the caller works on a piece.

    Ends early at a row of lines that is too long. The pool closes the connection of a caller that takes fewer
    than all pieces, and that of an early end. Raises psycopg.Error.
    """
    for start in range(first, last + 1, DATABASE_AHEAD_LINES):
        stop = min(last, start + DATABASE_AHEAD_LINES - 1)
        for piece in _as_they_come(connection, _rows(session, start, stop)):
            if not piece.data:
                return
            yield piece


def _as_they_come(connection: PatientConnection, call: Call) -> Iterator[Piece]:
    """Yield the rows of a statement. Raises psycopg.Error."""
    send_for_rows(connection, call)
    rows: deque[PGresult] = deque()
    have_all = False
    while rows or not have_all:
        if not have_all:
            # Without a look behind each row the server would wait for room in the socket.
            came, have_all = rows_of(connection, waits=not rows)
            rows.extend(came)
        if rows:
            yield from _pieces(rows.popleft())


def _rows(session: int, first: int, last: int) -> Call:
    values = (session, first, last, LINE_BYTES_MAX, _ROW_BYTES, _ROW_LINES)
    return _ROWS, [*map(int8, values)]


def _pieces(found: PGresult) -> Iterator[Piece]:
    for row in range(found.ntuples):
        yield Piece(found.get_value(row, 0) or b"", number(found.get_value(row, 1)))
