"""Lines of a session: a range in pieces, each of which is some whole lines as a file has them.

A line that was removed by hand is missing in its piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiond.limits import DATABASE_PIECE_BYTES, DATABASE_PIECE_LINES
from sessiond.postgresql.statements.prepared import INT8, Call, Prepared, answered, int8, number

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

    from sessiond.postgresql.patience import PatientConnection

__all__ = ["Piece", "in_one", "lines_from", "piece_of", "pieces_ahead", "prepare_reads"]

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


class Piece(NamedTuple):
    """Whole lines that were read together."""

    data: bytes
    last: int
    """Number of the last line."""


def prepare_reads(connection: Connection[Any]) -> None:
    """Let a new connection know the statement of this module. Raises psycopg.Error."""
    _LINES.prepare(connection)


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
    """Yield the lines of a range that has some; the server reads and sends while the caller works on a piece.

    The pool closes the connection of a caller that takes fewer than all pieces. Raises psycopg.Error.
    """
    _send(connection, session, first, last)
    while first <= last:
        found = answered(connection)
        if not found.ntuples:
            return
        first = number(found.get_value(found.ntuples - 1, 1)) + 1
        if first <= last:
            _send(connection, session, first, last)
        for piece in _pieces(found):
            yield piece
            # Else the server would wait for room in the socket.
            connection.take_in()


def _send(connection: PatientConnection, session: int, first: int, last: int) -> None:
    one, values = lines_from(session, first, last)
    one.send(connection, values)


def _pieces(found: PGresult) -> Iterator[Piece]:
    for row in range(found.ntuples):
        yield Piece(found.get_value(row, 0) or b"", number(found.get_value(row, 1)))
