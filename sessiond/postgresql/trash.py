"""Deleted sessions on PostgreSQL, which stay until they are purged."""

from __future__ import annotations

from typing import Any, Final, LiteralString

from psycopg.errors import UniqueViolation

from sessiond.limits import OPEN_NOTE_COUNTS_SECONDS
from sessiond.postgresql.asking import Asking
from sessiond.postgresql.statements.rows import (
    AT,
    CHANGED,
    DELETED,
    HEAD,
    OF_VERSION,
    head_of,
    id_of,
    position,
)
from sessiond.service.database.database import NO_LINES, Head, Trashed

_OPEN_ELSEWHERE: Final = (
    "number IN (SELECT unnest(open) FROM daemons WHERE daemon <> %(daemon)s"
    " AND noted_at > clock_timestamp() - make_interval(secs => %(counts)s))"
)


def _others(daemon: str) -> dict[str, Any]:
    """Return the values of `_OPEN_ELSEWHERE` for a daemon."""
    return {"daemon": daemon, "counts": OPEN_NOTE_COUNTS_SECONDS}


class TrashTable(Asking):
    """The deleted sessions of one schema. Safe in any thread; each method raises StorageError."""

    def delete(
        self, at: Head, *, unless_appended: bool = False, epoch: str | None = None
    ) -> Head | None:
        """Delete a session, which stays until `purge`; None for a deleted one, or another version or position."""
        where = AT if unless_appended else f"{OF_VERSION} AND NOT is_deleted"
        return self._changed(
            "delete a session",
            f"UPDATE sessions SET {DELETED}, epoch = coalesce(%(then)s::text, epoch)"
            f" WHERE {where} RETURNING {HEAD}",
            position(at) | {"then": epoch},
        )

    def open_elsewhere(self, daemon: str) -> list[str]:
        """Return the ids of the sessions that other daemons have noted as open."""
        rows = self._asked(
            "ask which sessions are open",
            lambda each: each.execute(
                f"SELECT session_id FROM sessions WHERE NOT is_deleted AND {_OPEN_ELSEWHERE}",
                _others(daemon),
            ).fetchall(),
            "look",
        )
        return [id_of(session_id) for (session_id,) in rows]

    def delete_unused(self, number: int | None, before_ns: int, daemon: str) -> list[int]:
        """Delete a session, or all drafts, if unused since a time; return what was deleted."""
        which: LiteralString = (
            "place = 'draft'" if number is None else "number = %(number)s AND place <> 'archived'"
        )
        values = {"number": number, "before_us": before_ns // 1000} | _others(daemon)
        with self._changing("delete what is unused") as connection:
            rows = connection.execute(
                f"UPDATE sessions SET {DELETED} WHERE {which} AND NOT is_deleted"
                " AND written_at < to_timestamp(%(before_us)s / 1e6)"
                f" AND NOT ({_OPEN_ELSEWHERE}) RETURNING number",
                values,
            ).fetchall()
        return [number for (number,) in rows]

    def restore(self, at: Head) -> Head | None:
        """Bring a deleted session back; None if no session of this version is in the trash, or the id is taken."""
        with self._changing("restore a session") as connection:
            try:
                row = connection.execute(
                    f"UPDATE sessions SET {CHANGED}, is_deleted = false"
                    f" WHERE {OF_VERSION} AND is_deleted AND NOT is_purged RETURNING {HEAD}",
                    position(at),
                ).fetchone()
            except UniqueViolation:
                return None
        return None if row is None else head_of(row)

    def purge(self, session_id: str) -> int:
        """Remove the deleted sessions of an id for good; return how many there were."""
        with self._changing("purge a session", "append") as connection:
            rows = connection.execute(
                f"WITH gone AS (UPDATE sessions SET {CHANGED}, is_purged = true, seq = -1, size = 0,"
                " digest = %s WHERE session_id = %s AND is_deleted AND NOT is_purged"
                " RETURNING number),"
                " emptied AS (DELETE FROM lines USING gone WHERE lines.number = gone.number),"
                " silenced AS (DELETE FROM senders USING gone WHERE senders.number = gone.number"
                " RETURNING 1),"
                # Senders come before signals, as in every statement that locks both.
                " unheard AS (DELETE FROM signals USING gone WHERE signals.number = gone.number"
                " AND (SELECT count(*) FROM silenced) >= 0)"
                " SELECT number FROM gone",
                [NO_LINES, session_id.encode()],
            ).fetchall()
        return len(rows)

    def trashed(self, limit: int, before: int | None) -> list[Trashed]:
        """Return deleted sessions, those made last first, with numbers below `before`."""
        rows = self._asked(
            "list the trash",
            lambda each: each.execute(
                f"SELECT {HEAD}, (SELECT line FROM lines"
                " WHERE lines.number = sessions.number AND lines.seq = 0)"
                " FROM sessions WHERE is_deleted AND NOT is_purged"
                " AND (%(before)s::bigint IS NULL OR number < %(before)s)"
                " ORDER BY number DESC LIMIT %(limit)s",
                {"before": before, "limit": limit},
            ).fetchall(),
        )
        return [Trashed(head_of(row[:-1]), row[-1] or b"") for row in rows]

    def newest_trashed(self, session_id: str) -> Head | None:
        """Return the session of an id that was deleted and made last; None without one."""
        return self._row(
            "look into the trash",
            f"SELECT {HEAD} FROM sessions WHERE session_id = %s AND is_deleted"
            " AND NOT is_purged ORDER BY number DESC LIMIT 1",
            [session_id.encode()],
            "bulk",
        )
