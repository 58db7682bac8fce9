"""Bringing lines to the file, and file and offsets together again when that fails.

Law: offsets move only when the disk has said yes. After any failed write or
sync the descriptor is replaced and the file brought back to its last committed
line before another byte is written; until that works every append is refused,
and tries it again first.

A file that only sessiond writes is cut back. A file that others may write is
never shortened: half a line gets a newline, and whole lines count as stored.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

from sessiond.errors import StorageError
from sessiond.journal.descriptor import Descriptor
from sessiond.journal.failures import storage_error, telling
from sessiond.journal.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.recovery import without_cr
from sessiond.journal.repair import adopt_lines, cut_back

__all__ = ["Writer"]


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
        self.stored_tail: list[bytes] = []
        self.out = Descriptor(files, files.fstat(reader.fd))
        self._files = files
        self._reader = reader
        self._state = _State.CLOSED

    def start(self) -> None:
        """Begin to write, behind the lines that the reader knows. Raises OSError."""
        self.out.reopen(self._reader.path)
        self.durable_bytes = self._reader.ends[-1]
        self._state = _State.READY

    def close(self) -> None:
        """End; nothing is written or repaired from here on."""
        self._state = _State.CLOSED
        self.out.close()

    def append(self, lines: Sequence[bytes], *, sync: bool) -> None:
        """Store all of them, durably if `sync`, or none. Raises StorageError."""
        data = b"\n".join([*lines, b""])
        assert lines, "a batch has a line"
        assert data.count(b"\n") == len(lines), "an entry is exactly one line"
        if self._state is not _State.READY:
            self._repair()
            self._check_nothing_adopted()
        try:
            self._write(data)
            if sync:
                self.out.sync()
        except OSError as error:
            raise self._refuse(error, "append to") from error
        self._commit(lines)
        if sync:
            self.durable_bytes = self._reader.ends[-1]

    def sync(self) -> None:
        """Make durable what was appended without. Raises StorageError."""
        if self._state is not _State.READY:
            self._repair()
        if self.durable_bytes == self._reader.ends[-1]:
            return
        try:
            self.out.sync()
        except OSError as error:
            raise self._refuse(error, "sync") from error
        self.durable_bytes = self._reader.ends[-1]

    def complete(self, tail: bytes) -> None:
        """Make a line of what lies behind the last one. Raises StorageError."""
        with telling("complete the last line of", self._reader.path):
            self.out.write(b"\n")
            self.out.sync()
        self._commit([tail])
        self.durable_bytes = self._reader.ends[-1]

    def cut(self, line_count: int) -> None:
        """Keep so many lines and nothing behind them. Raises OSError."""
        size = self._reader.ends[line_count]
        self.out.truncate(size)
        self.out.sync()
        del self._reader.ends[line_count + 1 :]
        self.durable_bytes = size

    def _write(self, data: bytes) -> None:
        if self.truncates:
            self.out.write(data)
            return
        # Another program may append too. Where the offsets are no longer the file's, the
        # lines that came between are taken in first and the batch is refused: its sender
        # tries again behind them.
        end = self._reader.ends[-1]
        self._check_size(end)
        self.out.write(data)
        self._check_size(end + len(data))

    def _check_nothing_adopted(self) -> None:
        # What the repair found stands before these lines, and their writer did not know of it.
        if self.stored_tail:
            found = OSError(errno.EBUSY, "lines of an earlier append were found in it")
            raise storage_error(found, "append to", self._reader.path)

    def _check_size(self, expected: int) -> None:
        if self.out.size() != expected:
            raise OSError(errno.EBUSY, "another program wrote to it")

    def _commit(self, lines: Sequence[bytes]) -> None:
        ends = self._reader.ends
        end = ends[-1]
        for line in lines:
            end += len(line) + 1
            ends.append(end)

    def _refuse(self, error: OSError, doing: str) -> StorageError:
        self.failures += 1
        self._state = _State.DAMAGED
        # If the repair fails as well the file stays damaged, and the next call tries again.
        with suppress(StorageError):
            self._repair()
        return storage_error(error, doing, self._reader.path)

    def _repair(self) -> None:
        reader = self._reader
        with telling("repair", reader.path):
            if self._state is _State.CLOSED:
                raise OSError(errno.EBADF, "it is not open for writing")
            self.out.reopen(reader.path)
            if self.truncates:
                cut_back(self._files, reader, self.out, self.durable_bytes)
            else:
                lines = adopt_lines(self._files, reader, self.out, self.durable_bytes)
                self._commit(lines)
                self.stored_tail += map(without_cr, lines)
        self.durable_bytes = reader.ends[-1]
        self._state = _State.READY
