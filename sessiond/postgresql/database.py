"""Rows and lines of sessions on PostgreSQL: each method is one transaction, an append one statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from threading import BoundedSemaphore
from time import monotonic, sleep
from typing import Any, Final, LiteralString

from psycopg import Rollback
from psycopg.errors import UniqueViolation

from sessiond.errors import StorageError
from sessiond.journal.splitter import whole_lines
from sessiond.limits import (
    DATABASE_HOLDS_MAX,
    DATABASE_RING_SESSIONS_MAX,
    DATABASE_START_SECONDS,
    OPEN_NOTE_COUNTS_SECONDS,
)
from sessiond.postgresql.asking import Kind
from sessiond.postgresql.bell import Bell
from sessiond.postgresql.company import PostgresqlCompany
from sessiond.postgresql.connecting import (
    FAILURES,
    connection_settings,
    named,
    open_pool,
    refusal,
    unusable,
)
from sessiond.postgresql.daemons import DaemonTables
from sessiond.postgresql.documents import DocumentTable
from sessiond.postgresql.patience import PatientConnection
from sessiond.postgresql.starting import prepared
from sessiond.postgresql.statements.appending import (
    AppendCall,
    Appended,
    flush,
    heads_of,
    hold_row,
    keeps_commits,
    ring_on,
)
from sessiond.postgresql.statements.holding import HeldSession
from sessiond.postgresql.statements.making import NewSession, make, make_instead
from sessiond.postgresql.statements.reading import Piece, piece_of, pieces_ahead
from sessiond.postgresql.statements.rows import (
    AT,
    CHANGED,
    DELETED,
    HEAD,
    SEEN,
    head_of,
    id_of,
    position,
)
from sessiond.postgresql.statements.sending import SentCall
from sessiond.service.database.database import (
    NO_LINES,
    ChangedHeads,
    Head,
    Place,
    Totals,
    Trashed,
)

__all__ = ["PostgresqlDatabase"]

_TRY_AGAIN_SECONDS: Final = 0.2
_READING: Final = "read lines"
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


class PostgresqlDatabase(DocumentTable, DaemonTables):
    """The sessions of one schema: the port `SessionDatabase`. Safe in any thread."""

    def __init__(self, dsn: str, schema: str, password: Callable[[], str] | None = None) -> None:
        """Connect, and make the tables that are missing. Raises StorageError.

        `password` is asked for the password of each connection; libpq finds the password otherwise.
        """
        self.name = named(dsn)
        settings = partial(connection_settings, dsn, password)
        until = monotonic() + DATABASE_START_SECONDS
        while (failure := prepared(dsn, self.name, settings(), schema)) is not None:
            if not failure.is_passing or monotonic() > until:
                raise failure.refusal
            # A database that begins as the daemon does needs a moment.
            sleep(_TRY_AGAIN_SECONDS)
        self._holds = BoundedSemaphore(DATABASE_HOLDS_MAX)
        super().__init__(self.name, open_pool(dsn, schema, settings))
        # Signals and presence are read by looks, and written while no row of a session is locked.
        self.company = PostgresqlCompany(partial(self._asked, kind="look"))
        self._bell = Bell(dsn, schema, settings, self._notify)

    def close(self) -> None:
        """Close all connections."""
        self._bell.close()
        self._at_hand.close()
        self._pool.close()

    # -- how it is asked -----------------------------------------------------------------

    def _row(
        self, doing: str, statement: LiteralString, values: Any, kind: Kind = "look"
    ) -> Head | None:
        """Return the row that a question finds."""
        row = self._asked(doing, lambda each: each.execute(statement, values).fetchone(), kind)
        return None if row is None else head_of(row)

    def _changed(self, doing: str, statement: LiteralString, values: Any) -> Head | None:
        """Return the row that a change leaves."""
        with self._changing(doing) as connection:
            row = connection.execute(statement, values).fetchone()
        return None if row is None else head_of(row)

    # -- rows ----------------------------------------------------------------------------

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

    # -- lines ---------------------------------------------------------------------------

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Store lines behind a position, in the place of `at`; None if the session is elsewhere by now."""
        with self._appending() as connection:
            call = AppendCall(connection, at, lines, digest, commits=False)
            call.send(sync=sync)
            appended = call.answer()
        return self._kept(appended)

    def send(
        self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool
    ) -> SentCall | None:
        """Begin an append on the connection at hand, and wait for nothing; None without such a connection."""
        connection = self._at_hand.take_ready()
        if connection is None:
            return None
        ends = ExitStack()
        ends.push(self._at_hand)
        call = AppendCall(connection, at, lines, digest, commits=False)
        return SentCall(call, ends, self._kept, sync=sync)

    def hold(self, at: Head) -> HeldSession | None:
        """Wait in turn for the row of a session, and hold the row; None if that is not possible now."""
        with ExitStack() as stack:
            # Each hold may keep a thread waiting, which the appends of held rows need, too.
            if not self._holds.acquire(blocking=False):
                return None
            stack.callback(self._holds.release)
            connection = stack.enter_context(self._appending())
            held = hold_row(connection, at)
            if held is None:
                return None
            head, piece = held
            lines = () if piece is None else whole_lines(piece.data)
            return HeldSession(head, lines, connection, stack.pop_all(), self._kept)

    def _kept(self, stored: Appended) -> Head | None:
        """Return the row behind an append; None if the session was elsewhere. Raises StorageError."""
        if not stored.keeps:
            raise self._forgetful()
        return stored.head

    def _require_kept(self, connection: PatientConnection) -> None:
        """Raise StorageError if the server does not keep the commits of a connection through a crash."""
        if not keeps_commits(connection):
            raise self._forgetful()

    def _forgetful(self) -> StorageError:
        why = (
            "fsync, full_page_writes or synchronous_commit is off, so that a crash may lose what was"
            " acknowledged"
        )
        return unusable(self.name, why, 'switch them on, or append with durability "os"')

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
            f" WHERE number = %(number)s AND version = %(version)s AND NOT is_deleted RETURNING {HEAD}",
            {"number": at.number, "version": at.version, "leases": leases},
        )

    def sync(self) -> None:
        """Make all lines durable that were stored without `sync`."""
        with self._changing("sync", "bulk") as connection:
            is_kept = flush(connection)
        if not is_kept:
            raise self._forgetful()

    def pieces(
        self, number: int, first: int, last: int, *, ahead: bool = False
    ) -> Generator[bytes]:
        """Yield the lines `first` to `last` of a session, both included, as a file has them."""
        if ahead and first <= last:
            # What a failure leaves is asked for below.
            with suppress(StorageError), self._changing(_READING, "bulk") as connection:
                for piece in pieces_ahead(connection, number, first, last):
                    first = piece.last + 1
                    yield piece.data
                return
        while first <= last:
            found = self._asked(_READING, _piece(number, first, last))
            if found is None:
                return
            first = found.last + 1
            yield found.data

    # -- places --------------------------------------------------------------------------

    def move(self, at: Head, place: Place, start: Place | None = None) -> Head | None:
        """Bring a session to a place; None if the session is deleted, or has another epoch or start."""
        where: LiteralString = "" if start is None else " AND place = %(start)s"
        return self._changed(
            "move a session",
            f"UPDATE sessions SET {CHANGED}, place = %(place)s, written_at ="
            " CASE WHEN place = 'archived' AND %(place)s <> 'archived' THEN clock_timestamp()"
            " ELSE written_at END WHERE number = %(number)s AND epoch = %(epoch)s"
            f" AND NOT is_deleted{where} RETURNING {HEAD}",
            {"number": at.number, "epoch": at.epoch, "place": place, "start": start},
        )

    def delete(self, number: int, at: Head | None = None) -> Head | None:
        """Delete a session, which stays until `purge`; None if the session is deleted, or elsewhere."""
        where = "number = %(number)s AND NOT is_deleted" if at is None else AT
        return self._changed(
            "delete a session",
            f"UPDATE sessions SET {DELETED} WHERE {where} RETURNING {HEAD}",
            {"number": number} if at is None else position(at),
        )

    def delete_unused(self, number: int | None, before_ns: int, daemon: str) -> list[int]:
        """Delete a session, or all drafts, if unused since a time; return what was deleted."""
        which: LiteralString = "place = 'draft'" if number is None else "number = %(number)s"
        values = {
            "number": number,
            "before_us": before_ns // 1000,
            "daemon": daemon,
            "counts": OPEN_NOTE_COUNTS_SECONDS,
        }
        with self._changing("delete what is unused") as connection:
            rows = connection.execute(
                f"UPDATE sessions SET {DELETED} WHERE {which} AND NOT is_deleted"
                " AND written_at < to_timestamp(%(before_us)s / 1e6)"
                " AND NOT EXISTS (SELECT 1 FROM daemons WHERE daemon <> %(daemon)s"
                " AND sessions.number = ANY(open)"
                " AND noted_at > clock_timestamp() - make_interval(secs => %(counts)s))"
                " RETURNING number",
                values,
            ).fetchall()
        return [number for (number,) in rows]

    def restore(self, number: int) -> Head | None:
        """Bring a deleted session back to its place; None if it is not in the trash, or its id is taken."""
        with self._changing("restore a session") as connection:
            try:
                row = connection.execute(
                    f"UPDATE sessions SET {CHANGED}, is_deleted = false"
                    f" WHERE number = %s AND is_deleted AND NOT is_purged RETURNING {HEAD}",
                    [number],
                ).fetchone()
            except UniqueViolation:
                return None
        return None if row is None else head_of(row)

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

    # -- the trash -----------------------------------------------------------------------

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

    # -- all of them ---------------------------------------------------------------------

    def changes(self, after: int) -> ChangedHeads:
        """Return the rows with changes behind a number; all rows behind 0."""
        rows = self._asked(
            "look for changes",
            lambda each: each.execute(_CHANGES, {"after": str(after)}).fetchall(),
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

    # -- rings ---------------------------------------------------------------------------

    def ring(self, numbers: Collection[int]) -> None:
        """Tell other daemons that these sessions have changed."""
        self._bell.ring(numbers if len(numbers) <= DATABASE_RING_SESSIONS_MAX else ())

    def _notify(self, channel: str, text: str) -> None:
        with self._changing("ring", "look") as connection:
            ring_on(connection, channel, text)

    @property
    def notifications(self) -> bool:
        """False if rings do not come through to this daemon."""
        return not self._bell.is_deaf

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Wait until another daemon rings, or so many seconds."""
        try:
            return self._bell.wait(seconds)
        except FAILURES as failure:
            # The database is not away for the connections that answer calls.
            raise refusal("listen", self.name, failure) from None

    def stop_listening(self) -> None:
        """Hear no rings until the next `wait`."""
        self._bell.rest()


def _piece(number: int, first: int, last: int) -> Callable[[PatientConnection], Piece | None]:
    """Return the question for a piece of a session."""
    return lambda each: piece_of(each, number, first, last)
