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
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ClassVar, Final

from msgspec import structs

from sessiond.errors import StorageError
from sessiond.journal.checksums import Checksums
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import FileStat
from sessiond.journal.reader import LineReader
from sessiond.journal.splitter import VisitLines, joined
from sessiond.journal.spool import Spool
from sessiond.journal.store import JournalStatistics, Overtaken, Replaced
from sessiond.limits import CONTENDED_SECONDS
from sessiond.service.database.database import (
    NO_LINES,
    Head,
    HeldRow,
    Place,
    SentAppend,
    SessionDatabase,
    Unsent,
    chained,
    size_of,
)
from sessiond.service.database.following.catching_up import CatchingUp
from sessiond.service.database.following.positions import Positions
from sessiond.service.database.leases import DatabaseLeases
from sessiond.service.database.refusals import could_not

__all__ = ["DatabaseLog"]

# Each lost race means that another writer has stored its lines.
_LATE_TRIES: Final = 100


class DatabaseLog(CatchingUp):
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
        super().__init__(database, spool, structs.replace(head, seq=-1, digest=NO_LINES, size=0))
        self.ring: Callable[[int], None] = _unheard
        """Called in the log's thread with the session's number after each change by this log."""
        self.leases: DatabaseLeases | None = None
        """The leases of the session; None for a log that is read once."""
        self._positions = positions
        self._new_epoch = new_epoch
        self._upto = head
        self._held: HeldRow | None = None
        """The row, while other writers wait for the next append of this log."""
        self._contended_until = 0.0
        """Time on the monotonic clock up to which other daemons are taken to append, too."""
        self._sent: SentAppend | None = None
        """The append that was sent ahead of the call of `append`."""
        self._next_place: Place | None = None
        """Place to which the next append brings the session."""
        self._is_disproved = False
        """True if a client knows other lines under this epoch."""
        self.has_kept_lines = False
        """True if lines come from a kept copy, which is not believed before `index` ends."""
        self._writes = self._written_bytes = self._failures = 0
        reader = self._spool.reader
        self.read = reader.read
        self.read_many = reader.read_many
        self.line_bytes = reader.line_bytes
        self.span_bytes = reader.span_bytes
        self.chunks = reader.chunks
        self.checksum = reader.checksum

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
                self._spool.take(lines)
                self._learn(lines, visit)
        reading = self._database.pieces(upto.number, self.line_count, upto.seq, ahead=True)
        with closing(reading) as pieces:
            for piece in pieces:
                with telling("copy the lines of", self.name):
                    lines = self._spool.add_piece(piece)
                self._learn(lines, visit)
        return (self.head.seq, self.head.digest) == (upto.seq, upto.digest)

    def _learn(self, lines: list[bytes], visit: VisitLines) -> None:
        """Index lines that were taken by the spool."""
        first = self.line_count - len(lines)
        self.head = structs.replace(
            self.head,
            seq=self.line_count - 1,
            digest=chained(self.head.digest, lines),
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
        self.is_synced = True

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return self._spool.reader.line_count

    def has_grown(self) -> bool:
        """Return whether there is something to take in. Waits for no database."""
        is_stale = self.company is not None and self.company.is_stale
        return self._is_behind or self._is_unsure or is_stale or self.behind_bytes > 0

    def disprove(self) -> None:
        """Take note that a client knows other lines under this epoch: the next look ends the epoch."""
        self._is_disproved = True

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

    # -- growth ----------------------------------------------------------------------------

    def send(self, lines: Sequence[bytes], *, sync: bool) -> None:
        """Send the append of these lines, which follows, if nothing has to come before and nothing is waited for.

        Not for lines for which the spool has no room.
        """
        if self._is_unsure or self.behind_bytes or not self._spool.has_room(size_of(lines)):
            return
        if self.company is not None and self.company.waits:
            return
        send = self._database.send if self._held is None else self._held.send
        self._sent = send(self.head, lines, chained(self.head.digest, lines), sync=sync)
        if self._sent is not None:
            self._held = None

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Store all lines, or none. Raises StorageError, Replaced, Overtaken.

        With `late` the lines of other writers come before these lines instead, unless they are too many.
        """
        assert not any(b"\n" in line for line in lines), "an entry is exactly one line"
        place, self._next_place = self._next_place, None
        if self._sent is None and (self._is_unsure or self.behind_bytes):
            self._follow()
            if (self._found or self.behind_bytes) and not late:
                raise Overtaken
        for _ in range(_LATE_TRIES):
            if self.behind_bytes:
                raise could_not(
                    "append to", self.name, "other writers store more than a look reads", "EBUSY"
                )
            if self._stored(lines, place or self.head.place, sync=sync):
                return
            self._contended_until = monotonic() + CONTENDED_SECONDS
            self._follow()
            if not late:
                raise Overtaken
        raise could_not("append to", self.name, "other writers were faster each time", "EBUSY")

    @property
    def is_contended(self) -> bool:
        """True if an append of this log has just lost a race, or found lines as it came in turn."""
        return monotonic() < self._contended_until

    @property
    def is_held(self) -> bool:
        """True if other writers wait for the next append of this log."""
        return self._held is not None

    def hold(self) -> bool:
        """Keep other writers from the session until the next append or `release`, and find their lines.

        Returns False if the session cannot be held now, or if there are more lines than a look takes in.
        Raises StorageError, Replaced.
        """
        assert self._held is None, "the row is held for one append"
        if self.behind_bytes:
            return False
        if self.company is not None:
            # Those that come while other writers wait are few.
            self.company.write_before_lines()
        was_behind = self._is_behind
        with self._reading_row():
            held = self._database.hold(self.head)
            if held is None:
                self._is_behind = self._is_behind or was_behind
                return False
            try:
                seq = self.head.seq
                # Other writers do not wait for the fetch of many lines.
                is_near = held.head.seq <= seq + len(held.lines)
                fits = is_near and self._fits(held.head) and self._take(held.head, held.lines)
            except BaseException:
                held.release()
                raise
        if not fits:
            # The look may give the lines another epoch, which is a change of the row.
            held.release()
            self._follow()
            return False
        if self.head.seq > seq:
            self._contended_until = monotonic() + CONTENDED_SECONDS
        self._held = held
        return True

    def release(self) -> None:
        """Let other writers append again, if the session is held."""
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _stored(self, lines: Sequence[bytes], place: Place, *, sync: bool) -> bool:
        """Return whether the database has taken the lines, and the place, at the position of this log."""
        sent, self._sent = self._sent, None
        if sent is None and self.company is not None:
            self.company.write_before_lines()
        data, failure = b"", None
        try:
            with telling("copy the lines of", self.name):
                data = self._spool.put(lines)
                self._spool.keep_room(len(data))
        except StorageError as error:
            # What is sent behind the copy fails no more: the database has no line that is not copied.
            if sent is None:
                raise
            failure = error
        digest = chained(self.head.digest, lines)
        if sent is None:
            at = self.head if place == self.head.place else structs.replace(self.head, place=place)
            head = self._landed(lines, digest, partial(self._send, at, lines, digest, sync=sync))
        else:
            head = self._landed(lines, digest, sent.stored)
        if head is None:
            return False
        self.ring(head.number)
        if failure is not None:
            # The disk fails although the file has room. The lines count, and the next look copies them.
            self._is_unsure = True
            self._failures += 1
            raise failure
        self._spool.take(lines, data)
        self._see(head)
        # A commit that waits for the disk brings everything before it there.
        self.is_synced = sync
        self._writes += 1
        self._written_bytes += len(data)
        return True

    def _send(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Append in turn, if the row is held, or else where the session is."""
        held, self._held = self._held, None
        if held is None:
            return self._database.append(at, lines, digest, sync=sync)
        return held.send(at, lines, digest, sync=sync).stored()

    def _landed(
        self, lines: Sequence[bytes], digest: bytes, append: Callable[[], Head | None]
    ) -> Head | None:
        """Return what an append returns; find out about one whose outcome is unknown. Raises StorageError."""
        try:
            return append()
        except Unsent:
            self._failures += 1
            raise
        except BaseException as error:
            self._failures += 1
            self._is_unsure = True
            head = self._outcome(lines, digest) if isinstance(error, StorageError) else None
            if head is None:
                raise
            return head

    def _outcome(self, lines: Sequence[bytes], digest: bytes) -> Head | None:
        """Return the position behind lines whose append failed; None unless the lines are stored.

        This log stays unsure only if the database does not answer now.
        """
        mine = self.head
        with suppress(StorageError):
            there = self._database.fence(mine.number)
            if there is None or there.is_deleted or there.epoch != mine.epoch:
                return None
            seq = mine.seq + len(lines)
            stored = b"".join(self._database.pieces(mine.number, mine.seq + 1, seq))
            self._is_unsure = False
            if stored == joined(lines):
                self._is_behind = (there.seq, there.digest) != (seq, digest)
                size = self.size_bytes + size_of(lines)
                return structs.replace(there, seq=seq, digest=digest, size=size)
            self._is_behind = True
        return None

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
            if tries > _LATE_TRIES:
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

    def sync(self) -> None:
        """Make lines durable that were appended without `sync`. Raises StorageError."""
        self._database.sync()
        self.is_synced = True

    def expect_move(self, path: Path) -> None:
        """Let the next append bring a draft to its place, which is no path."""
        del path
        self._next_place = "placed"

    def move(self, path: Path) -> None:
        """Bring a draft to its place, which is no path. Safe to repeat. Raises StorageError, Replaced."""
        del path
        if self.head.place == "draft":
            self.bring("placed")

    def bring(self, place: Place) -> None:
        """Bring the session to a place. Safe to repeat. Raises StorageError, Replaced."""
        there = self._database.move(self.head, place)
        if there is None:
            raise self._replaced()
        self._stay(there)
        self.ring(there.number)

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
        """Return the ends of all lines and the checksums of the copy up to them."""
        return self._spool.reader.ends, self._spool.reader.checksums

    def believe(self, digest: bytes) -> None:
        """Take the lines that the reader was told, with their digest, before `index`."""
        self.has_kept_lines = True
        self.head = structs.replace(
            self.head, seq=self.line_count - 1, digest=digest, size=self.size_bytes
        )

    def settle_copy(self) -> None:
        """Make the copy of the lines durable for the next opening. Raises OSError."""
        self._spool.settle()

    def doubt_copy(self) -> None:
        """Leave no copy of the lines to the next opening."""
        self._spool.doubt()

    def close(self) -> None:
        """Leave the copy of the lines, once no read runs."""
        self.release()
        self._spool.close()


def _unheard(_number: int) -> None:
    """Do nothing: no other daemon hears it."""
