"""Bringing lines to the file, and file and offsets together again when that fails.

Law: offsets move only when the disk has said yes, and in the order of the file. What
other programs wrote comes first and is never cut: before every write the file is as long
as the offsets say, or what is more is taken in; after it our bytes end where they should,
or what came between is taken in before them. After any failed write or sync the
descriptor is replaced and the file brought back to its last committed line before
another byte is written; until that works every append is refused, and tries it again
first. Only bytes that are provably ours are cut, and only where sessiond alone should
write; elsewhere half a line gets a newline, and whole lines count as stored.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, NoReturn

from sessiond.errors import StorageError
from sessiond.journal.disk.descriptor import Descriptor
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.doubt import Doubt
from sessiond.journal.failed_batch import Refused
from sessiond.journal.interleaved import Glued, lines_between, make_blank
from sessiond.journal.reader import LineReader
from sessiond.journal.recovery import ends_of, without_cr
from sessiond.journal.repair import cut_back, keep_all, read_some, write_again
from sessiond.journal.scanning import chunks_of
from sessiond.journal.store import Found, Overtaken, Replaced

__all__ = ["CLOSING", "Writer"]

# Closes half a line. The blank says for good who did, and that nothing was damaged.
CLOSING: Final = b" \n"


class _State(Enum):
    READY = "file and offsets agree"
    DAMAGED = "they may not; repaired before the next write"
    CLOSED = "not begun, or ended: the file may be somebody else's"


class Writer:
    """The writing half of a journal; `LineReader` is the other."""

    def __init__(self, files: Files, reader: LineReader, *, truncates: bool) -> None:
        self.truncates = truncates
        self.durable_bytes = 0
        self.failures = 0
        self.found: list[Found] = []
        self.half_bytes = 0
        """Behind the last line: somebody is not done with it yet."""
        self.behind_bytes = 0
        """What others wrote and the next looks take in."""
        self.doubt: Doubt | None = None
        """What an earlier owner left that is not known to be durable, until it is."""
        self.is_settled = True
        """Whether a later owner may trust a sync: nothing failed, or was made good since."""
        self.torn_bytes = 0
        """What a crash left behind the last line: it is cut before the first write."""
        self.out = Descriptor(files, files.fstat(reader.fd))
        self._files = files
        self._reader = reader
        self._state = _State.CLOSED
        self._refused = Refused()
        self._searched = 0
        """There is no newline between the last known line and this offset."""

    def start(self) -> None:
        """Begin to write, behind the lines that the reader knows. Raises OSError."""
        self._reader.expect_what_is_there()
        self.out.reopen(self._reader.path)
        self.out.note_change()
        self.durable_bytes = self._reader.file_end
        self._state = _State.READY

    def secure(self) -> None:
        """Make durable what an opening has found, before anybody is told of it. Raises OSError.

        What an earlier owner left in doubt is written again, unless no line tells yet that the
        file is a session: then `begin_behind_tail` does it.
        """
        doubt, self.is_settled = self.doubt, False
        if self._reader.line_count and doubt is not None:
            doubt.write_again(self._files, self._reader)
            self.out.note_change()
            self.doubt = None
        self.out.sync()
        self.is_settled = self.doubt is None

    def go_over(self, identity: tuple[int, int], doubt: int | None) -> None:
        """Go on in the file that has taken the place of this one. Raises OSError.

        If that fails, nothing of the file is known to be durable, and a repair comes first.
        """
        state, self._state = self._state, _State.DAMAGED
        self.durable_bytes = 0
        self.out.belong_to(identity, self._reader.path)
        end = self._reader.file_end
        if doubt is not None:
            write_again(self._files, self._reader, doubt, end)
        # Nobody knows whether the program that copied it waited for the disk.
        self.out.sync()
        self.durable_bytes = end
        self._state = state

    def begin_behind_tail(self) -> None:
        """Take the lines and what follows them for what is there. Raises OSError."""
        self._reader.expect_what_is_there()
        self.durable_bytes = self._reader.file_end
        if self.doubt is not None:
            self.secure()

    def close(self) -> None:
        """Nothing is written or repaired from here on."""
        self._state = _State.CLOSED
        self.out.close()

    @property
    def known_bytes(self) -> int:
        """How long the file was when it was looked at last."""
        return self._reader.file_end + self.half_bytes + self.torn_bytes

    # -- what others write -----------------------------------------------------------

    def look(self, size: int) -> None:
        """Take in some of what lies behind the last line of a file of this size. Raises StorageError."""
        if self._state is not _State.READY:
            self._repair()
        elif size != self.known_bytes:
            try:
                self._take_in()
            except OSError as error:
                # A sync that failed is not tried again on this descriptor.
                raise self._refuse(error, "read") from error

    def close_half(self) -> None:
        """Make a line of half a one that nobody goes on with. Raises StorageError."""
        if self._state is not _State.READY:
            self._repair()
        try:
            # It may have become whole just now; then this is a blank line.
            self.out.write(CLOSING)
            self._take_in()
        except OSError as error:
            raise self._refuse(error, "close half a line of") from error

    def _take_in(self) -> None:
        """Whole lines of others, some at a time, durable before anybody sees them."""
        reader = self._reader
        # Another program went on behind it, so it is no end that a crash left, nor the end.
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
        # Only at the end of the file a piece of a line is half a one.
        self.half_bytes = piece.upto - reader.ends[-1] if piece.is_all else 0
        self.behind_bytes = 0 if piece.is_all else self.out.size() - reader.ends[-1]
        if piece.is_all:
            # What was left of it was found.
            self._refused = Refused()

    def _add(self, lines: Sequence[bytes], ends: Sequence[int]) -> None:
        """Lines that were found, with the offset where the first begins and those where each ends."""
        refused = self._refused.lines
        self._reader.ends.extend(ends[1:])
        self._sum_up(lines, ends[0], ends[-1])
        self._reader.expect_last(lines[-1])
        self.found += [Found(without_cr(line), line not in refused) for line in lines]

    def _sum_up(self, lines: Sequence[bytes], start: int, end: int) -> None:
        data = b"\n".join([*lines, b""])
        if len(data) == end - start:
            self._reader.checksums.add(data)
            return
        # Of a long line only its beginning is here. What cannot be read makes a later opening
        # doubt the epoch, no more.
        with suppress(OSError):
            for chunk in chunks_of(self._files, self._reader.fd, start, end):
                self._reader.checksums.add(chunk)

    # -- ours --------------------------------------------------------------------------

    def append(self, lines: Sequence[bytes], size: int, *, sync: bool, late: bool) -> None:
        """Store all of them, durably if `sync`, or none; the file has this size.

        Raises StorageError, and Overtaken when others were first: then nothing was written.
        `late` says that they may be: what they wrote comes before these lines, if it is not too much.
        """
        data = b"\n".join([*lines, b""])
        assert lines, "a batch has a line"
        assert data.count(b"\n") == len(lines), "an entry is exactly one line"
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
        except Glued:
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
        """Make durable what was appended without. Raises StorageError."""
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
            # Another program wrote behind that line first, so the line is not what it was.
            raise Replaced("epoch")
        reader.lacks_newline = False
        self.out.note_change()

    def cut(self, line_count: int) -> None:
        """Keep so many lines and nothing behind them. Raises StorageError."""
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
        """Take our bytes back from among those of others. Raises Overtaken, StorageError."""
        pieces = self.out.pieces
        try:
            make_blank(self._files, self._reader, data, pieces)
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
        self._refused = Refused(data, self._written_to(), written, again)
        # If the repair fails as well the file stays damaged, and the next call tries again.
        with suppress(StorageError):
            self._repair()
        return storage_error(error, doing, self._reader.path)

    def _written_to(self) -> int | None:
        """Return where the last write ended; None if the system does not say."""
        try:
            return self.out.position()
        except OSError:
            return None

    def _repair(self) -> None:
        reader, refused = self._reader, self._refused
        with telling("repair", reader.path):
            if self._state is _State.CLOSED:
                raise OSError(errno.EBADF, "it is not open for writing")
            self.out.reopen(reader.path)
            self._searched = 0
            is_all_behind = refused.is_all_behind(reader, self.out.size())
            if self.truncates and is_all_behind:
                cut_back(self._files, reader, self.out, self.durable_bytes)
            else:
                among_others = not is_all_behind and (self.truncates or refused.is_torn)
                if among_others or refused.again:
                    make_blank(self._files, reader, refused.data, refused.pieces)
                # Where no write of ours failed, half a line is left to the program that writes it.
                closing = CLOSING if refused.data else b""
                keep_all(self._files, reader, self.out, self.durable_bytes, closing)
            self.durable_bytes = reader.file_end
            self._take_in()
        self._state, self.is_settled = _State.READY, True
