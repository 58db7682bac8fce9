"""Rows of sessions on PostgreSQL: each method is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from psycopg import Rollback
from psycopg.errors import UniqueViolation

from sessiond.limits import DATABASE_LOOK_SECONDS
from sessiond.postgresql.lines import LineTable
from sessiond.postgresql.statements.appending import heads_of
from sessiond.postgresql.statements.making import NewSession, make, make_instead
from sessiond.postgresql.statements.rows import (
    AT,
    CHANGED,
    HEAD,
    OF_VERSION,
    SEEN,
    head_of,
    id_of,
    position,
)
from sessiond.service.database.database import ChangedHeads, Head, Place, Totals

# A transaction that still runs may commit a change with a lower number. A row that came with a dump has the
# number of another server, which may be one that no transaction of this server has had.
_CHANGES: Final = f"""
SELECT pg_snapshot_xmin(pg_current_snapshot())::text, rows, versions::text, seqs::text, {HEAD}
FROM (
    SELECT count(*) AS rows, coalesce(sum(version), 0) AS versions, coalesce(sum(seq), 0) AS seqs
    FROM sessions
) AS totals LEFT JOIN sessions ON changed >= %(after)s::text::xid8
    AND (changed < pg_snapshot_xmax(pg_current_snapshot()) OR %(after)s::text = '0')
"""


class SessionTable(LineTable):
    """The rows of sessions of one schema. Safe in any thread; each method raises StorageError."""

    def create(
        self,
        session_id: str,
        epoch: str,
        chunks: Iterable[Sequence[bytes]],
        place: Place,
        leases: bytes = b"",
    ) -> Head | None:
        """Store a session, all lines or none; None if a session has the id."""
        with self._changing("create a session", "bulk") as connection:
            try:
                with connection.transaction():
                    made = make(connection, NewSession(session_id, epoch, place, leases), chunks)
                    if made.seq > 0:
                        # Entries of a session that was elsewhere before are durable once they are here.
                        self._require_kept(connection)
                    return made
            except UniqueViolation:
                return None

    def find(self, session_id: str) -> Head | None:
        """Return the row of the session of this id that is not deleted; None without one."""
        return self._row(
            "find a session",
            f"SELECT {SEEN} FROM sessions WHERE session_id = %s AND NOT is_deleted",
            [session_id.encode()],
        )

    def ids(self, limit: int) -> list[str]:
        """Return the ids of sessions that are no drafts, those made last first; archived ones last."""
        rows = self._asked(
            "list sessions",
            lambda each: each.execute(
                "SELECT session_id FROM sessions WHERE NOT is_deleted AND place <> 'draft'"
                " ORDER BY place = 'archived', number DESC LIMIT %s",
                [limit],
            ).fetchall(),
        )
        return [id_of(row[0]) for row in rows]

    def heads(self, numbers: Sequence[int]) -> list[Head]:
        """Return the rows of sessions, deleted or not; unknown numbers are left out."""
        return self._asked("look at sessions", lambda each: heads_of(each, numbers), "look")

    def changes(self, after: int) -> ChangedHeads:
        """Return the rows with changes behind a number; all rows behind 0."""
        rows = self._asked(
            "look for changes",
            lambda each: each.execute(_CHANGES, {"after": str(after)}).fetchall(),
            # All rows may be many.
            patience=DATABASE_LOOK_SECONDS if after else None,
        )
        upto, *totals = rows[0][:4]
        heads = [head_of(row[4:]) for row in rows if row[4] is not None]
        return ChangedHeads(heads, int(upto), Totals(*map(int, totals)))

    def holding(self, text: bytes) -> Iterator[str]:
        """Yield the ids of the sessions that have a line with these bytes, those made last first."""
        rows = self._asked(
            "look for an entry",
            lambda each: each.execute(
                "SELECT session_id FROM sessions WHERE NOT is_deleted AND EXISTS (SELECT 1 FROM lines"
                " WHERE lines.number = sessions.number AND position(%s::bytea IN line) > 0)"
                " ORDER BY number DESC",
                [text],
            ).fetchall(),
        )
        yield from (id_of(row[0]) for row in rows)

    # -- changes of a row -------------------------------------------------------------------

    def fence(self, number: int) -> Head | None:
        """Count the version of a session up, and return the row; None for an unknown number."""
        return self._row(
            "settle an append",
            f"UPDATE sessions SET {CHANGED} WHERE number = %s RETURNING {HEAD}",
            [number],
            # The row is that of an append.
            "append",
        )

    def lease(self, at: Head, leases: bytes) -> Head | None:
        """Replace the leases of a session; None if the session has another version, or is deleted."""
        return self._changed(
            "lease a head",
            f"UPDATE sessions SET {CHANGED}, leases = %(leases)s"
            f" WHERE {OF_VERSION} AND NOT is_deleted RETURNING {HEAD}",
            position(at) | {"leases": leases},
        )

    def move(self, at: Head, place: Place) -> Head | None:
        """Bring a session to a place; None if the session is deleted, or has another epoch or version."""
        return self._changed(
            "move a session",
            f"UPDATE sessions SET {CHANGED}, place = %(place)s, written_at ="
            " CASE WHEN place = 'archived' AND %(place)s <> 'archived' THEN clock_timestamp()"
            f" ELSE written_at END WHERE {OF_VERSION} AND epoch = %(epoch)s"
            f" AND NOT is_deleted RETURNING {HEAD}",
            position(at) | {"place": place},
        )

    def renew(self, at: Head, epoch: str, digest: bytes) -> Head | None:
        """Give a session another epoch at an unchanged position; None as for `append`."""
        return self._changed(
            "renew a session",
            f"UPDATE sessions SET {CHANGED}, epoch = %(new)s, digest = %(after)s, leases = ''"
            f" WHERE {AT} RETURNING {HEAD}",
            position(at) | {"new": epoch, "after": digest},
        )

    def replace(self, at: Head, epoch: str, chunks: Iterable[Sequence[bytes]]) -> Head | None:
        """Put a new session in the place of one at this position; None as for `append`."""
        with (
            self._changing("replace a session", "append") as connection,
            connection.transaction() as transaction,
        ):
            self._require_kept(connection)
            made = make_instead(connection, at, epoch, chunks)
            if made is None:
                raise Rollback(transaction)
            return made
        return None
