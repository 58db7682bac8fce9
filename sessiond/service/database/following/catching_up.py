"""The part of a database's log that takes in the lines of other daemons: many lines piece by piece.

Law 1: the lines wait in the spool, behind the last line of the log, until the digest over all of them has
shown that they are lines of the log. Before that none is taken; an error in between leaves none.
Law 2: a few pieces are in memory at a time, however many lines there are.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import chain
from time import monotonic

from msgspec import Struct, structs

from sessiond.journal.disk.failures import telling
from sessiond.journal.splitter import whole_lines
from sessiond.journal.spool import Spool
from sessiond.journal.store import Found
from sessiond.journal.undisturbed import Undisturbed
from sessiond.service.database.company.companies import DatabaseCompany
from sessiond.service.database.database import Head, Place, SessionDatabase, chained


class _Piece(Struct, frozen=True):
    """Lines that wait together."""

    seq: int
    """The last line."""
    digest: bytes
    """The digest of all lines up to the last one."""
    end: int
    """The offset behind the last line."""


class _WaitingLines:
    """The lines that wait in one spool. One thread fetches and takes; any thread asks how many there are."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._pieces: deque[_Piece] = deque()
        self._end = 0
        """The offset behind the last line that waits."""
        self._row: tuple[Head, float] | None = None
        """The row that the lines lead to, and the time when the row was read."""
        self._version = 0
        """The version of the log's own row then."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the lines that wait, newlines included."""
        return max(self._end - self._spool.reader.ends[-1], 0)

    def fetch(self, mine: Head, there: Head, pieces: Iterable[bytes]) -> bool:
        """Let lines wait that lead from one position to a row; return False, without any, if they do not.

        Raises StorageError, OSError.
        """
        read_at = monotonic()
        seq, digest, end = mine.seq, mine.digest, self._spool.reader.ends[-1]
        found = deque[_Piece]()
        for piece in pieces:
            end = self._spool.put_at(piece, end)
            lines = whole_lines(piece)
            seq, digest = seq + len(lines), chained(digest, lines)
            found.append(_Piece(seq, digest, end))
        if (seq, digest) != (there.seq, there.digest):
            return False
        self._pieces, self._row, self._version = found, (there, read_at), mine.version
        self._end = end
        return True

    def take(self, mine: Head) -> tuple[list[bytes], Head]:
        """Make the next piece the last lines of the spool; return them, and the position behind them.

        `mine` is the position before them. Raises OSError, and then takes none.
        """
        piece = self._pieces[0]
        lines = self._spool.lines_up_to(piece.end)
        if chained(mine.digest, lines) != piece.digest:
            # The next look fetches them again.
            self._pieces.clear()
            self._end = 0
            raise OSError(errno.EIO, "the disk does not have what was written")
        self._spool.take(lines)
        self._pieces.popleft()
        return lines, structs.replace(mine, seq=piece.seq, digest=piece.digest, size=piece.end)

    def row(self, mine: Head) -> tuple[Head, float] | None:
        """Return the row that the lines have led to, and the monotonic time when the row was read.

        Returns None while lines wait, or if this daemon has changed its row since.
        """
        return None if self._pieces or mine.version != self._version else self._row


class CatchingUp(Undisturbed):
    """A log that takes in lines up to a row, in the log's thread."""

    def __init__(self, database: SessionDatabase, spool: Spool, head: Head) -> None:
        """Begin at a position."""
        self.head = head
        """The row of the session at the position of this log."""
        self.position: object = head
        """The row at the position of the lines that were handed over, as the loop knows it."""
        self.read_at = monotonic()
        """Time on the monotonic clock when the row was read, in seconds."""
        self.on_place: Callable[[Place], None] = _nothing
        """Called in the log's thread when another daemon has moved the session."""
        self.company: DatabaseCompany | None = None
        """Signals and presence of other daemons; None for a log that is read once."""
        self.name = spool.reader.path
        self.is_synced = False
        """False if lines that other daemons have appended may not be durable yet."""
        self._database = database
        self._spool = spool
        self._waiting = _WaitingLines(spool)
        self._found: list[Found] = []
        self._is_behind = False
        """True if another writer is known to have changed the session. Any thread may notice."""
        self._is_unsure = False
        """True after an append whose outcome is unknown: the database may have stored it."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all lines, newlines included."""
        return self._spool.reader.ends[-1]

    @property
    def behind_bytes(self) -> int:
        """Number of bytes that a look left to the next look."""
        return self._waiting.size_bytes

    def take_found(self) -> list[Found]:
        """Return newly found lines; each line is returned once. Called on the loop while no thread uses the log."""
        found, self._found, self.position = self._found, [], self.head
        return found

    @contextmanager
    def _reading_row(self) -> Generator[None]:
        """Take what is noticed from here on for newer than the row that the block reads.

        If the block fails, what was noticed before is news still.
        """
        was_behind, self._is_behind = self._is_behind, False
        try:
            yield
        except BaseException:
            self._is_behind = self._is_behind or was_behind
            raise

    def _take(self, there: Head, lines: Sequence[bytes] | None = None) -> bool:
        """Take in the lines up to a row; return False, and take none, if they are not this log's.

        `lines` are those that were read together with the row. Of many lines all are fetched, and only the
        first ones are taken. Raises StorageError.
        """
        mine = self.head
        if lines is None:
            pieces = self._database.pieces(mine.number, mine.seq + 1, there.seq)
            first = next(pieces, b"")
            lines = whole_lines(first)
            if len(lines) < there.seq - mine.seq:
                return self._take_first(there, chain([first], pieces))
        if len(lines) != there.seq - mine.seq or chained(mine.digest, lines) != there.digest:
            return False
        if lines:
            self.is_synced = False
        # Both or none: no line may be told before a signal that came before the line.
        found = None if self.company is None else self.company.read(there)
        if lines:
            self._copy(lines)
        if self.company is not None and found is not None:
            self.company.hear(found)
        self._reach(there, monotonic())
        self._is_unsure = False
        self._found += [Found(line, external=False) for line in lines]
        return True

    def _take_first(self, there: Head, pieces: Iterable[bytes]) -> bool:
        """Fetch many lines, and take the first ones in; return False as `_take` does."""
        found = None if self.company is None else self.company.read(there)
        with telling("copy the lines of", self.name):
            if not self._waiting.fetch(self.head, there, pieces):
                return False
        # The row may change until the last line is taken in: a later look finds out.
        self._is_behind = True
        if self.company is not None and found is not None:
            self.company.hear(found, self.head.seq)
        self._take_waiting()
        return True

    def _take_waiting(self) -> None:
        """Take in some of the lines that wait. Raises StorageError."""
        with telling("read the copied lines of", self.name):
            lines, self.head = self._waiting.take(self.head)
        self.is_synced = False
        self._found += [Found(line, external=False) for line in lines]
        if self.company is not None:
            self.company.upto = self.head.seq if self.behind_bytes else None
        row = self._waiting.row(self.head)
        if row is not None:
            self._reach(*row)

    def _reach(self, there: Head, read_at: float) -> None:
        """Take note of a row up to which all lines are taken in."""
        # The time first: another thread that sees the new row with the old time takes a lease for over.
        mine, self.read_at, self.head = self.head, read_at, there
        if there.place != mine.place:
            self.on_place(there.place)

    def _see(self, there: Head) -> None:
        """Take note of a row, at the position of this log."""
        self.read_at, self.head = monotonic(), there

    def _copy(self, lines: Sequence[bytes]) -> None:
        """Copy lines of the database into the spool. Raises StorageError."""
        with telling("copy the lines of", self.name):
            self._spool.add(lines)


def _nothing(_place: Place) -> None:
    """Do nothing: the session is not open yet."""
