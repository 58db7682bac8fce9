"""Sessions that come with their lines: a new one, or one in the place of another.

Law: row and lines are inserted in a state that no daemon sees, and one last statement shows them. So while
the source of the lines is read, the transaction holds nothing that a daemon waits for. Between the last
statement and the commit it does, and the server ends the transaction of a daemon that is stopped there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

from sessiond.limits import DATABASE_COMMIT_SECONDS
from sessiond.postgresql.statements.rows import AT, DELETED, HEAD, head_of, position
from sessiond.service.database.database import NO_LINES, Head, Place, chained, size_of

if TYPE_CHECKING:
    from psycopg import Connection


class NewSession(NamedTuple):
    """The row of a new session, beside its position."""

    session_id: str
    epoch: str
    place: Place
    leases: bytes = b""


_INSERT_LINES: Final = (
    "INSERT INTO lines (number, seq, line) SELECT %(number)s, %(seq)s + given.at, given.line"
    " FROM unnest(%(lines)b::bytea[]) WITH ORDINALITY AS given (line, at)"
)
_SHOW: Final = f"""
{{also}}
UPDATE sessions SET seq = %(last)s, digest = %(upto)s, size = %(bytes)s, is_deleted = false,
    is_purged = false, written_at = clock_timestamp()
FROM set_config('idle_in_transaction_session_timeout', %(hold)s, true) AS held {{source}}
WHERE number = %(made)s RETURNING {HEAD}
"""
_SHOW_NEW: Final = _SHOW.format(also="", source="")
_SHOW_INSTEAD: Final = _SHOW.format(
    also=f"WITH gone AS (UPDATE sessions SET {DELETED} WHERE {AT} RETURNING number AS former)",
    source=", gone",
)


def make(
    connection: Connection[Any], session: NewSession, chunks: Iterable[Sequence[bytes]]
) -> Head:
    """Insert a session, in a transaction. Raises UniqueViolation if there is one of this id."""
    made = _hidden(connection, session, chunks)
    head = _shown(connection, _SHOW_NEW, made)
    assert head is not None, "the row was inserted above"
    return head


def make_instead(
    connection: Connection[Any], at: Head, epoch: str, chunks: Iterable[Sequence[bytes]]
) -> Head | None:
    """Insert a session and delete the one at a position, in a transaction.

    None if the session is elsewhere; then nothing may be committed.
    """
    made = _hidden(connection, NewSession(at.session_id, epoch, at.place), chunks)
    return _shown(connection, _SHOW_INSTEAD, made | position(at))


def _hidden(
    connection: Connection[Any], session: NewSession, chunks: Iterable[Sequence[bytes]]
) -> dict[str, Any]:
    """Insert a row in no state that a daemon sees, and its lines; return what the row lacks."""
    row = connection.execute(
        "INSERT INTO sessions (session_id, epoch, seq, digest, size, place, leases, is_deleted,"
        " is_purged) VALUES (%s, %s, -1, %s, 0, %s, %s, true, true) RETURNING number",
        [session.session_id.encode(), session.epoch, NO_LINES, session.place, session.leases],
    ).fetchone()
    assert row is not None, "an insert returns its row"
    number, seq, size, digest = row[0], -1, 0, NO_LINES
    for lines in chunks:
        connection.execute(_INSERT_LINES, {"number": number, "seq": seq, "lines": list(lines)})
        seq += len(lines)
        size += size_of(lines)
        digest = chained(digest, lines)
    return {"made": number, "last": seq, "upto": digest, "bytes": size}


def _shown(
    connection: Connection[Any], statement: LiteralString, values: dict[str, Any]
) -> Head | None:
    row = connection.execute(statement, values | {"hold": f"{DATABASE_COMMIT_SECONDS}s"}).fetchone()
    return None if row is None else head_of(row)
