"""Lines of sessions on PostgreSQL: an append is one statement."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from threading import BoundedSemaphore
from typing import Final

from sessiond.errors import StorageError
from sessiond.journal.splitter import whole_lines
from sessiond.limits import DATABASE_HOLDS_MAX
from sessiond.postgresql.asking import Asking
from sessiond.postgresql.connecting import Pool, unusable
from sessiond.postgresql.patience import PatientConnection
from sessiond.postgresql.statements.appending import (
    AppendCall,
    Appended,
    flush,
    hold_row,
    keeps_commits,
)
from sessiond.postgresql.statements.holding import HeldSession
from sessiond.postgresql.statements.reading import Piece, piece_of, pieces_ahead
from sessiond.postgresql.statements.sending import SentCall
from sessiond.service.database.database import Head

_READING: Final = "read lines"


class LineTable(Asking):
    """The lines of one schema. Safe in any thread; each method raises StorageError."""

    def __init__(self, name: str, pool: Pool) -> None:
        super().__init__(name, pool)
        self._holds = BoundedSemaphore(DATABASE_HOLDS_MAX)

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Store lines behind a position, in the place of `at`; None if the session is elsewhere by now."""
        with self._appending() as connection:
            call = AppendCall(connection, at, lines, digest, sync)
            call.send()
            appended = call.answer()
        return self._kept(appended)

    def send(
        self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool
    ) -> SentCall | None:
        """Begin an append on the connection at hand, and wait for nothing; None without such a connection."""
        connection = self._at_hand.take_ready()
        if connection is None:
            return None
        call = AppendCall(connection, at, lines, digest, sync)
        return SentCall(call, self._at_hand.taken, self._kept)

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
            # What a failure or an early end leaves is asked for below.
            with suppress(StorageError), self._changing(_READING, "bulk") as connection:
                for piece in pieces_ahead(connection, number, first, last):
                    first = piece.last + 1
                    yield piece.data
        while first <= last:
            found = self._asked(_READING, _piece(number, first, last))
            if found is None:
                return
            first = found.last + 1
            yield found.data


def _piece(number: int, first: int, last: int) -> Callable[[PatientConnection], Piece | None]:
    """Return the question for a piece of a session."""
    return lambda each: piece_of(each, number, first, last)
