"""The log of a session that a database keeps.

Appends go to the database, and reads come from a spool: a copy of the lines in a file of this machine.
So a read costs no round trip, and goes on while the database is away.

Law: a line is in the spool only if the database has the line, at its position. Another writer's lines
are no foreign lines: they come from a daemon that keeps the promises of this one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar

from msgspec import structs

from sessiond.journal.checksums import Checksums
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import FileStat
from sessiond.journal.reader import LineReader
from sessiond.journal.splitter import VisitLines, split_whole
from sessiond.journal.spool import Spool
from sessiond.journal.store import JournalStatistics
from sessiond.service.database.appending import Appending
from sessiond.service.database.database import (
    NO_LINES,
    Head,
    Place,
    SessionDatabase,
    chained,
)
from sessiond.service.database.following.looking import LATE_TRIES
from sessiond.service.database.following.positions import Positions
from sessiond.service.database.leases import DatabaseLeases
from sessiond.service.database.refusals import outpaced


class DatabaseLog(Appending):
    """A `SessionLog` in a database. One thread appends and looks; any thread reads."""

    blocking: ClassVar[bool] = True
    is_shared: ClassVar[bool] = True

    def __init__(
        self,
        database: SessionDatabase,
        positions: Positions,
        head: Head,
        spool: Spool,
        new_epoch: Callable[[], str],
    ) -> None:
        """Make the log of a session, without its lines: `index` brings them into the spool."""
        nowhere = structs.replace(head, seq=-1, digest=NO_LINES, size=0)
        super().__init__(database, positions, nowhere, spool, new_epoch)
        self.leases: DatabaseLeases | None = None
        """The leases of the session; None for a log that is read once."""
        self._upto = head
        self.has_kept_lines = False
        """True if lines come from a kept copy, which is not believed before `index` ends."""
        reader = self._spool.reader
        self.read = reader.read
        self.read_many = reader.read_many
        self.line_bytes = reader.line_bytes
        self.span_bytes = reader.span_bytes
        self.chunks = reader.chunks

    # -- what is there -------------------------------------------------------------------

    def index(self, visit: VisitLines) -> bool:
        """Bring the lines up to the row into the spool; return whether the row counts just these.

        The lines come from a kept copy as far as the spool is one, and from the database behind that.
        Raises StorageError, and what `visit` raises.
        """
        upto = self._upto
        # What cannot be read of the copy is fetched.
        with suppress(OSError):
            for lines in () if self.has_kept_lines else self._spool.found():
                self.has_kept_lines = True
                self._spool.take_stored(lines)
                self._learn(lines, visit)
        reading = self._database.pieces(upto.number, self.line_count, upto.seq, ahead=True)
        with closing(reading) as pieces:
            for piece in pieces:
                with telling("copy the lines of", self.name):
                    lines = self._spool.add_piece(piece)
                self._learn(lines, visit)
        return (self.head.seq, self.head.digest) == (upto.seq, upto.digest)

    def _learn(self, lines: list[bytes], visit: VisitLines) -> None:
        """Index lines that were taken by the spool, each of which has its newline."""
        first = self.line_count - len(lines)
        self.head = structs.replace(
            self.head,
            seq=self.line_count - 1,
            digest=chained(self.head.digest, [line[:-1] for line in lines]),
            size=self.size_bytes,
        )
        visit(first, lines)

    def fill(self, lines: Sequence[bytes]) -> None:
        """Copy lines that the database does not have yet, in place of `index`. Raises StorageError."""
        self._copy(lines)

    def begin(self, head: Head) -> None:
        """Take the row that the database has now for the lines of `fill`."""
        assert head.size == self.size_bytes, "the database has the lines that were copied"
        self._see(head)
        self.position = head
        self.is_synced = True

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return self._spool.reader.line_count

    def has_grown(self) -> bool:
        """Return whether there is something to take in. Waits for no database."""
        is_stale = self.company is not None and self.company.is_stale
        return self._is_behind or self._is_unsure or is_stale or self.behind_bytes > 0

    # -- changes ---------------------------------------------------------------------------

    def sync(self) -> None:
        """Make lines durable that were appended without `sync`. Raises StorageError."""
        self._database.sync()
        self.is_synced = True

    def move(self, path: Path) -> None:
        """Bring a draft to its place, which is no path. Safe to repeat. Raises StorageError, Replaced."""
        del path
        if self.head.place != "draft":
            return
        # Another daemon may have archived the draft since the last look.
        there = self._moved("placed", "draft")
        self.stay(there)
        self.ring(there.number)

    def bring(self, place: Place) -> None:
        """Bring the session to a place. Safe to repeat. Raises StorageError, Replaced."""
        there = self._moved(place)
        self._stay(there)
        self.ring(there.number)

    def _moved(self, place: Place, start: Place | None = None) -> Head:
        """Return the row of the session, which is brought to a place; with `start` only from there.

        Raises StorageError, Replaced.
        """
        at = self.head
        for _ in range(LATE_TRIES):
            if start not in {None, at.place}:
                return at
            there = self._database.move(at, place)
            if there is not None:
                return there
            at = self.there()
        raise outpaced("move", self.name)

    def lease(self, at: Head, leases: bytes) -> bool:
        """Replace the leases of the session; return False if the row has changed. Raises StorageError."""
        there = self._database.lease(at, leases)
        if there is not None:
            self.stay(there)
            self.ring(there.number)
        return there is not None

    # -- the end -----------------------------------------------------------------------------

    def statistics(self) -> JournalStatistics:
        """Return sizes and costs so far."""
        return JournalStatistics(
            self.line_count,
            self.size_bytes,
            self.size_bytes,
            writes=self._writes,
            written_bytes=self._written_bytes,
            syncs=self._writes,
            failures=self._failures,
        )

    # -- what is kept of the lines ------------------------------------------------------------

    @property
    def reader(self) -> LineReader:
        """Reader of the copy of the lines."""
        return self._spool.reader

    @property
    def is_kept(self) -> bool:
        """True if the copy of the lines stays for the next opening."""
        return self._spool.stays

    @property
    def is_at_rest(self) -> bool:
        """True if the copy has the lines up to the position of this log, and all were handed over."""
        return not (self._is_unsure or self._found) and self.head.seq + 1 == self.line_count

    def stat(self) -> FileStat:
        """Return the state of the copy. Raises OSError."""
        return self._spool.files.fstat(self._spool.reader.fd)

    def known_lines(self) -> tuple[array[int], Checksums]:
        """Return the ends of all lines, and no checksums: the digest stands for them."""
        return self._spool.reader.ends, self._spool.reader.checksums

    def believe(self, digest: bytes) -> None:
        """Take the lines that the reader was told, with their digest, before `index`."""
        self.has_kept_lines = True
        self.head = structs.replace(
            self.head, seq=self.line_count - 1, digest=digest, size=self.size_bytes
        )

    def goes_on_behind(self, row: Head) -> bool:
        """Return whether a kept copy has all lines of a row, and more: the database was brought back.

        A copy that a kill has left tells nothing, for it may have lines that the database never got. Such a copy
        has room behind its lines. Raises StorageError.
        """
        with telling("read the copied lines of", self.name):
            is_cut = self.stat().st_size == self.size_bytes
        if not is_cut or self.head.seq <= row.seq:
            return False
        digest, begun = NO_LINES, b""
        for chunk in self.chunks(0, row.seq):
            lines, begun = split_whole(begun + chunk)
            digest = chained(digest, lines)
        return digest == row.digest

    def settle_copy(self) -> None:
        """Make the copy of the lines durable for the next opening. Raises OSError."""
        self._spool.settle()

    def close(self) -> None:
        """Leave the copy of the lines, once no read runs."""
        self.release()
        self._spool.close()
