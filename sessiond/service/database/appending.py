"""The part of a database's log that appends: at the position of the log, or in turn with other writers.

Law: a line is in the database before the spool takes the line. The spool has the bytes before that, or has room
for them, so that nothing but a broken disk fails behind an append that was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic

from msgspec import structs

from sessiond.errors import StorageError
from sessiond.journal.disk.failures import telling
from sessiond.journal.splitter import joined
from sessiond.journal.store import Overtaken
from sessiond.limits import CONTENDED_SECONDS
from sessiond.service.database.database import (
    Head,
    HeldRow,
    Place,
    SentAppend,
    Unsent,
    chained,
    size_of,
)
from sessiond.service.database.following.looking import LATE_TRIES, Looking
from sessiond.service.database.refusals import could_not


class Appending(Looking):
    """A log that appends. `send` is for the event loop, and all other methods for the log's thread."""

    _held: HeldRow | None = None
    """The row, while other writers wait for the next append of this log."""
    _contended_until = 0.0
    """Time on the monotonic clock up to which other daemons are taken to append, too."""
    _sent: SentAppend | None = None
    """The append that was sent ahead of the call of `append`."""
    _next_place: Place | None = None
    """Place to which the next append brings the session."""
    _writes = 0
    _written_bytes = 0
    _failures = 0

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
            version = self.head.version
            self._follow()
            # The lines were staged before what another version says: leases, or the archive.
            is_news = self._found or self.behind_bytes or self.head.version != version
            if is_news and not late:
                raise Overtaken
        for _ in range(LATE_TRIES):
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

    def expect_move(self, path: Path) -> None:
        """Let the next append bring a draft to its place, which is no path."""
        del path
        self._next_place = "placed"

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
        size, failure = 0, None
        try:
            with telling("copy the lines of", self.name):
                size = self._spool.put(lines)
                self._spool.keep_room(size)
        except Exception as error:
            # What is sent behind the copy fails no more: the database has no line that is not copied.
            if sent is None:
                raise
            # What was sent before has an outcome, and its connection waits for this call to take it.
            failure = error
        append = sent.stored if sent else partial(self._append, lines, place, sync=sync)
        head = self._landed(lines, place, append)
        if head is None:
            return False
        self.ring(head.number)
        if failure is not None:
            # The disk fails although the file has room. The lines count, and the next look copies them.
            self._is_unsure = True
            self._failures += 1
            raise failure
        self._spool.take(lines)
        self._see(head)
        # A commit that waits for the disk brings everything before it there.
        self.is_synced = sync
        self._writes += 1
        self._written_bytes += size
        return True

    def _append(self, lines: Sequence[bytes], place: Place, *, sync: bool) -> Head | None:
        """Append in turn, if the row is held, or else where the session is."""
        at = self.head if place == self.head.place else structs.replace(self.head, place=place)
        digest = chained(at.digest, lines)
        held, self._held = self._held, None
        if held is None:
            return self._database.append(at, lines, digest, sync=sync)
        return held.send(at, lines, digest, sync=sync).stored()

    def _landed(
        self, lines: Sequence[bytes], place: Place, append: Callable[[], Head | None]
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
            head = self._outcome(lines, place) if isinstance(error, StorageError) else None
            if head is None:
                raise
            return head

    def _outcome(self, lines: Sequence[bytes], place: Place) -> Head | None:
        """Return the position behind lines whose append failed; None unless the lines are stored.

        `place` is that to which the append brings the session.
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
                digest = chained(mine.digest, lines)
                self._is_behind = (there.seq, there.digest) != (seq, digest)
                size = self.size_bytes + size_of(lines)
                head = structs.replace(there, seq=seq, digest=digest, size=size)
                if there.place == place:
                    return head
                # Another daemon has moved the session since. No append lands before a look has found that.
                self._is_behind = True
                return structs.replace(head, place=place, version=mine.version)
            self._is_behind = True
        return None
