"""The part of a database's log that looks at the row of its session.

Law: what is noticed while a row is read counts as newer than the row. A row that is not this log's, at its
position or grown, gets an epoch of its own: clients have read lines that are missing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import structs

from sessiond.journal.spool import Spool
from sessiond.journal.store import Replaced
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.following.catching_up import CatchingUp
from sessiond.service.database.following.positions import Positions
from sessiond.service.database.refusals import could_not

LATE_TRIES: Final = 100
"""Number of lost races behind which a change is refused: in each of them another writer has stored its lines."""


class Looking(CatchingUp):
    """A log that looks at its row. One thread looks; any thread may notice a row."""

    def __init__(
        self,
        database: SessionDatabase,
        positions: Positions,
        head: Head,
        spool: Spool,
        new_epoch: Callable[[], str],
    ) -> None:
        """Begin at a position."""
        super().__init__(database, spool, head)
        self.ring: Callable[[int], None] = _unheard
        """Called in the log's thread with the session's number after each change by this log."""
        self._positions = positions
        self._new_epoch = new_epoch
        self._is_disproved = False
        """True if a client knows other lines under this epoch."""

    def notice(self, there: Head) -> bool:
        """Take note of the row as it was seen; return whether there may be something to take in.

        A row that was seen before the last append of this log costs one look.
        """
        has_news = self.company is not None and self.company.notice(there)
        self._is_behind = has_news or not self.is_at(there)
        return self._is_behind

    def is_at(self, there: Head) -> bool:
        """Return whether this log is at the position of a row, and under the row's version.

        A session that was brought back may have as many lines again, which the digest shows.
        """
        mine = self.head
        return (mine.number, mine.epoch, mine.seq, mine.digest, mine.version) == (
            there.number,
            there.epoch,
            there.seq,
            there.digest,
            there.version,
        )

    def disprove(self) -> None:
        """Take note that a client knows other lines under this epoch: the next look ends the epoch."""
        self._is_disproved = True

    def look(self) -> None:
        """Take in what other writers have stored. Raises StorageError, Replaced."""
        self._follow()

    def _follow(self) -> None:
        """Bring this log to the position of the row, or nearer to it. Raises StorageError, Replaced."""
        if self.behind_bytes:
            self._take_waiting()
            return
        with self._reading_row():
            there = self.there()
            fits = self._fits(there) and self._take(there)
        if not fits:
            is_shorter = there.seq < self.head.seq and not self._is_disproved
            self.doubt_copy()
            self._part_from(there)
            raise Replaced("truncated" if is_shorter else "epoch")

    def _fits(self, there: Head) -> bool:
        """Return whether a row may be this log's, as it is or grown."""
        mine = self.head
        is_known = there.epoch == mine.epoch and not there.is_deleted
        return is_known and there.seq >= mine.seq and not self._is_disproved

    def _part_from(self, there: Head) -> None:
        """Give the lines of the database an epoch of their own: they are not those of this log.

        The database was brought back to an earlier state, and clients have read what is missing there.
        """
        tries = 0
        while self._database.renew(there, self._new_epoch(), there.digest) is None:
            there, tries = self.there(), tries + 1
            if tries > LATE_TRIES:
                raise could_not(
                    "look at", self.name, "other writers were faster each time", "EBUSY"
                )
        self.ring(there.number)

    def there(self) -> Head:
        """Return the row as it is now. Raises StorageError, Replaced."""
        there = self._positions.head(self.head.number)
        if there is None or there.is_deleted or there.epoch != self.head.epoch:
            raise self._replaced()
        return there

    def _replaced(self) -> Replaced:
        """Return the notice that the row has another epoch, or is gone."""
        # The opening that follows finds the other session, or none.
        self.doubt_copy()
        return Replaced("epoch")

    def stay(self, there: Head) -> None:
        """Take note of a row, which may be behind the position of this log, and tell of its place."""
        place = self.head.place
        self._stay(there)
        if there.place != place:
            self.on_place(there.place)

    def _stay(self, there: Head) -> None:
        """Take note of a row, of whose place the caller knows."""
        mine = self.head
        self._see(structs.replace(there, seq=mine.seq, digest=mine.digest, size=mine.size))
        self._is_behind = self._is_behind or (there.seq, there.digest) != (mine.seq, mine.digest)

    def doubt_copy(self) -> None:
        """Leave no copy of the lines to the next opening."""
        self._spool.doubt()


def _unheard(_number: int) -> None:
    """Do nothing: no other daemon hears it."""
