"""The appends to a session file, and the repair of file and offsets after a failure.

Law: offsets move only after the disk has confirmed a write, and in the order of the file.
Foreign bytes come first and are never cut. Before every write, foreign bytes behind the
offsets are indexed. After every write, foreign bytes that landed before ours are indexed
first. After any failed write or sync, the descriptor is replaced and the file is brought
back to its last committed line before another byte is written. Until the repair succeeds,
every append tries the repair first and is refused if the repair fails. Only bytes that are
provably ours are cut, and only in files that sessiond alone should write. In other files a
half line gets a newline, and whole lines count as stored.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import Enum
from typing import Final, NoReturn

from sessiond.errors import StorageError
from sessiond.journal.disk.descriptor import Descriptor
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.sidecar import SidecarLock
from sessiond.journal.doubt import Doubt
from sessiond.journal.failed_batch import FailedBatch
from sessiond.journal.interleaved import InterleavedWrite, blank_out, lines_between
from sessiond.journal.reader import LineReader
from sessiond.journal.repair import cut_back, keep_all, read_some, write_again
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import ends_of, joined, without_cr
from sessiond.journal.store import Found, Overtaken, Replaced

# Ends a half line. The blank marks for good that sessiond ended the line and nothing is damaged.
CLOSING: Final = b" \n"

_FREE: Final = nullcontext()


class _State(Enum):
    READY = "file and offsets agree"
    DAMAGED = "file and offsets may disagree; repaired before the next write"
    CLOSED = "not begun, or ended: the file may have another owner"


class JournalWriter:
    """The writing half of a journal; `LineReader` is the reading half."""

    def __init__(self, files: Files, reader: LineReader, *, truncates: bool) -> None:
        self.truncates = truncates
        self.durable_bytes = 0
        self.failures = 0
        self.found: list[Found] = []
        self.half_bytes = 0
        """Number of bytes of the half line at the end, which its writer may still finish."""
        self.behind_bytes = 0
        """Number of foreign bytes left to later looks."""
        self.doubt: Doubt | None = None
        """The bytes that an earlier owner may not have made durable; None once they are durable."""
        self.is_settled = True
        """True if a later owner may trust a sync: no write failed, or the repair succeeded."""
        self.torn_bytes = 0
        """Number of bytes that a crash left behind the last line; the first write cuts them."""
        self.sidecar: SidecarLock | None = None
        """Lock to hold for each write; None for a file whose other writers take no such lock."""
        self.out = Descriptor(files, lambda: files.fstat(reader.fd))
        self._files = files
        self._reader = reader
        self._state = _State.CLOSED
        self._refused = FailedBatch()
        self._searched = 0
        """The offset up to which the bytes behind the last known line have no newline."""

    def start(self) -> None:
        """Get ready to write behind the lines that the reader knows. Raises OSError."""
        self._reader.expect_what_is_there()
        self.out.reopen(self._reader.path, is_writable=self._reader.is_writable)
        if not self._files.is_local(self._reader.path):
            self.out.forget_inode()
        self.out.note_change()
        self.durable_bytes = self._reader.file_end
        self._state = _State.READY

    def secure(self) -> None:
        """Make the lines that an opening found durable before any client sees them. Raises OSError.

        Bytes that an earlier owner left in doubt are written again. If the file has no whole line
        yet, it may be no session, so `begin_behind_tail` does this later.
        """
        doubt, self.is_settled = self.doubt, False
        if self._reader.line_count and doubt is not None:
            doubt.write_again(self._files, self._reader)
            self.out.note_change()
            self.doubt = None
        self.out.sync()
        self.is_settled = self.doubt is None

    def go_over(self, identity: tuple[int, int], doubt: int | None) -> None:
        """Switch to the file that has taken the place of this one. Raises OSError.

        After a failure no byte of the file is known to be durable, and the next call repairs first.
        """
        state, self._state = self._state, _State.DAMAGED
        self.durable_bytes = 0
        self.out.belong_to(identity, self._reader.path)
        end = self._reader.file_end
        if doubt is not None:
            write_again(self._files, self._reader, doubt, end)
        # The program that copied the file may not have synced it.
        self.out.sync()
        self.durable_bytes = end
        self._state = state

    def begin_behind_tail(self) -> None:
        """Accept the known lines and the tail as the state of the file. Raises OSError."""
        self._reader.expect_what_is_there()
        self.durable_bytes = self._reader.file_end
        if self.doubt is not None:
            self.secure()

    def close(self) -> None:
        """Close the descriptor; later writes and repairs are refused."""
        self._state = _State.CLOSED
        self.out.close()

    @property
    def known_bytes(self) -> int:
        """Size of the file at the last look."""
        return self._reader.file_end + self.half_bytes + self.torn_bytes

    # -- foreign writers ---------------------------------------------------------------

    def look(self, size: int) -> None:
        """Index foreign lines behind the last line, some per call. Raises StorageError.

        `size` is the current size of the file.
        """
        if self._state is not _State.READY:
            self._repair()
        elif size != self.known_bytes:
            try:
                self._take_in()
            except OSError as error:
                # A failed sync is never tried again on this descriptor.
                raise self._refuse(error, "read") from error

    def close_half(self) -> None:
        """End a half line that its writer has abandoned. Raises StorageError."""
        if self._state is not _State.READY:
            self._repair()
        try:
            with self._alone():
                # If the half line was finished just now, these bytes are a blank line.
                self.out.write(CLOSING)
            self._take_in()
        except OSError as error:
            raise self._refuse(error, "close half a line of") from error

    def _take_in(self) -> None:
        """Index whole foreign lines, some per call; sync them before any client sees them."""
        reader = self._reader
        # A foreign writer went on behind the torn bytes, so no crash left them as the end.
        self.torn_bytes = 0
        if reader.lacks_newline and self.out.size() >= reader.ends[-1]:
            reader.lacks_newline = False
        end = reader.ends[-1]
        piece = read_some(self._files, reader, end, self._searched)
        if piece.lines:
            self.out.sync()
            self._add(piece.lines, piece.ends)
            self.durable_bytes = reader.ends[-1]
        self._searched = piece.upto
        # Bytes without a newline are a half line only at the end of the file.
        self.half_bytes = piece.upto - reader.ends[-1] if piece.is_all else 0
        self.behind_bytes = 0 if piece.is_all else self.out.size() - reader.ends[-1]
        if piece.is_all:
            # All lines that the failed batch left are found now.
            self._refused = FailedBatch()

    def _add(self, lines: Sequence[bytes], ends: Sequence[int]) -> None:
        """Add found lines to the index.

        `ends` has the start of the first line, then each line's end.
        """
        refused = self._refused.lines
        self._reader.ends.extend(ends[1:])
        self._sum_up(lines, ends[0], ends[-1])
        self._reader.expect_last(lines[-1])
        self.found += [Found(without_cr(line), line not in refused) for line in lines]

    def _sum_up(self, lines: Sequence[bytes], start: int, end: int) -> None:
        data = joined(lines)
        if len(data) == end - start:
            self._reader.checksums.add(data)
            return
        # Only the beginning of a long line is in `lines`, so the bytes are read from the file. If
        # that fails, the only harm is that a later opening doubts the epoch.
        with suppress(OSError):
            for chunk in chunks_of(self._files, self._reader.fd, start, end):
                self._reader.checksums.add(chunk)

    # -- own lines ---------------------------------------------------------------------

    def append(self, lines: Sequence[bytes], size: int, *, sync: bool, late: bool) -> None:
        """Store all lines, durably if `sync`, or none. `size` is the current size of the file.

        Raises StorageError. Raises Overtaken if a foreign writer was first; then none of the lines
        stays. With `late` the foreign lines come before these lines, unless they are too many.
        """
        data = joined(lines)
        assert lines, "a batch has a line"
        assert not any(b"\n" in line for line in lines), "an entry is exactly one line"
        try:
            with self._alone():
                self._append(lines, data, size, sync=sync, late=late)
        except OSError as error:
            # Nothing was written: the lock of the other writers was not to be had.
            raise storage_error(error, "append to", self._reader.path) from error

    def _alone(self) -> AbstractContextManager[None]:
        """Return the context in which no other writer that takes the lock writes. Raises OSError."""
        return _FREE if self.sidecar is None else self.sidecar.held(self._reader.path)

    def _append(
        self, lines: Sequence[bytes], data: bytes, size: int, *, sync: bool, late: bool
    ) -> None:
        self.look(size)
        if self.half_bytes and late:
            self.close_half()
        if self.behind_bytes and late:
            error = OSError(errno.EBUSY, "another program writes to it faster than it can be read")
            raise storage_error(error, "append to", self._reader.path)
        if (self.found or self.half_bytes) and not late:
            raise Overtaken
        self._end_last_line()
        end = self._reader.ends[-1]
        between: list[bytes] = []
        try:
            self.out.write(data)
            pieces = self.out.pieces
            if len(pieces) > 1 or pieces[0].start != end:
                between = lines_between(self._reader, data, pieces)
            if sync or between:
                self.out.sync()
        except InterleavedWrite:
            self._write_again_later(data)
        except OSError as error:
            raise self._refuse(error, "append to", data) from error
        if between:
            self._add(between, [end, *ends_of(between, end)])
        self._commit(lines, data)
        self.out.note_change()
        if sync or between:
            self.durable_bytes = self._reader.ends[-1]

    def sync(self) -> None:
        """Make lines durable that were appended without `sync`. Raises StorageError."""
        if self._state is not _State.READY:
            self._repair()
        if self.durable_bytes == self._reader.file_end:
            return
        try:
            self.out.sync()
        except OSError as error:
            raise self._refuse(error, "sync") from error
        self.durable_bytes = self._reader.file_end

    def _end_last_line(self) -> None:
        """Write the newline that the last line lacks. Raises StorageError, Replaced."""
        reader = self._reader
        if not reader.lacks_newline:
            return
        try:
            self.out.write(b"\n")
        except OSError as error:
            raise self._refuse(error, "append to", b"\n") from error
        if self.out.pieces[0].start != reader.file_end:
            # A foreign writer wrote behind that line first, so the line has changed.
            raise Replaced("epoch")
        reader.lacks_newline = False
        self.out.note_change()

    def cut(self, line_count: int) -> None:
        """Cut the file behind its first `line_count` lines. Raises StorageError."""
        reader = self._reader
        size = reader.ends[line_count]
        self.is_settled = False
        with telling("cut the torn end of", reader.path):
            self.out.truncate(size)
        del reader.ends[line_count + 1 :]
        self.torn_bytes = self._searched = 0
        try:
            reader.checksums.cut(size, reader.bytes_at)
            reader.expect_what_is_there()
            self.out.sync()
        except OSError as error:
            raise self._refuse(error, "cut the torn end of") from error
        self.is_settled = True
        self.out.note_change()
        self.durable_bytes = size

    def _write_again_later(self, data: bytes) -> NoReturn:
        """Blank our bytes among foreign bytes and index the foreign lines.

        Raises Overtaken, StorageError.
        """
        pieces = self.out.pieces
        try:
            blank_out(self._files, self._reader, data, pieces)
            self._take_in()
        except OSError as error:
            raise self._refuse(error, "append to", data, again=True) from error
        raise Overtaken

    def _commit(self, lines: Sequence[bytes], data: bytes) -> None:
        ends = self._reader.ends
        end = ends[-1]
        for line in lines:
            end += len(line) + 1
            ends.append(end)
        if lines:
            self._reader.checksums.add(data)
            self._reader.expect_last(lines[-1])

    # -- after a failure -----------------------------------------------------------------

    def _refuse(
        self, error: OSError, doing: str, data: bytes = b"", *, again: bool = False
    ) -> StorageError:
        self.failures += 1
        self._state, self.is_settled = _State.DAMAGED, False
        written = tuple(self.out.pieces) if data else ()
        self._refused = FailedBatch(data, self._written_to(), written, again)
        # If the repair fails too, the file stays damaged, and the next call tries again.
        with suppress(StorageError):
            self._repair()
        return storage_error(error, doing, self._reader.path)

    def _written_to(self) -> int | None:
        """Return the offset where the last write ended; None if unknown."""
        try:
            return self.out.position()
        except OSError:
            return None

    def _repair(self) -> None:
        reader, refused = self._reader, self._refused
        with telling("repair", reader.path):
            if self._state is _State.CLOSED:
                raise OSError(errno.EBADF, "it is not open for writing")
            with self._alone():
                self._restore(reader, refused)
        self._state, self.is_settled = _State.READY, True

    def _restore(self, reader: LineReader, refused: FailedBatch) -> None:
        """Bring file and offsets to agree after a failure. Raises OSError, StorageError."""
        self.out.reopen(reader.path)
        self._searched = 0
        is_all_behind = refused.is_all_behind(reader, self.out.size())
        if self.truncates and is_all_behind:
            cut_back(self._files, reader, self.out, self.durable_bytes)
        else:
            among_others = not is_all_behind and (self.truncates or refused.is_torn)
            if among_others or refused.again:
                blank_out(self._files, reader, refused.data, refused.pieces)
            # If no write of ours failed, a half line stays open for its foreign writer.
            closing = CLOSING if refused.data else b""
            keep_all(self._files, reader, self.out, self.durable_bytes, closing)
        self.durable_bytes = reader.file_end
        self._take_in()
