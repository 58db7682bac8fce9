"""Checks that a path still has the open file, and the change to a file that took its place.

Law: a journal goes over to a replacement only if the replacement begins with every known byte
of the old file; clients then notice nothing. Any other replacement is another log. A file that
was rewritten in place is another log too. The last line shows that. The checksum of all lines is
compared where a read found other lines, and where the file was written to but kept its size.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.journal.disk.files import Files
from sessiond.journal.disk.lookup import is_same
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.profile.lock import FileLock, own_session
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import same_beginning
from sessiond.journal.store import Replaced
from sessiond.journal.writer import JournalWriter

_LOOKS: Final = 3


class Following:
    """The path of one open file, and the lock that this process holds on the file."""

    def __init__(
        self, files: Files, reader: LineReader, writer: JournalWriter, lock: FileLock, locks: Path
    ) -> None:
        self._files = files
        self._reader = reader
        self._writer = writer
        self._out = writer.out
        self._lock = lock
        self._locks = locks

    def require_note(self) -> None:
        """Require a record that tells a later owner which bytes a failure left in doubt.

        Raises OSError.
        """
        if not self._lock.is_noted:
            self.note_durable(self._writer.durable_bytes)

    def note_durable(self, durable: int) -> None:
        """Record up to which byte the file is known to be on disk. Raises OSError."""
        try:
            self._lock.note_durable(durable)
        except FileNotFoundError:
            self._files.make_folder(self._locks)
            self._lock.note_durable(durable)

    def size(self) -> int:
        """Return the size of the file at the path.

        Goes over to a replacement that extends the old file. Raises OSError, SessionLocked,
        Replaced.
        """
        end = self._reader.file_end
        found = self._files.stat(self._reader.path)
        if (found.st_dev, found.st_ino) != self._out.identity and not self._is_ours():
            self._go_over(end)
            found = self._files.fstat(self._reader.fd)
        if found.st_size < end:
            raise Replaced("truncated")
        if found.st_mtime_ns != self._out.changed_at or self._reader.is_doubted:
            # A foreign writer changed the file. A rewrite in place may keep the size or grow it.
            if self._is_rewritten(found.st_size):
                raise Replaced("epoch")
            self._out.changed_at = found.st_mtime_ns
            self._out.was_changed = True
        return found.st_size

    def _is_ours(self) -> bool:
        """Return whether the path has this file, where its inode tells nothing. Raises OSError."""
        # A foreign writer may append between two looks.
        return not self._out.inode and any(
            is_same(self._files.stat(self._reader.path), self._files.fstat(self._reader.fd))
            for _ in range(_LOOKS)
        )

    def _is_rewritten(self, size: int) -> bool:
        reader = self._reader
        if not reader.has_last():
            return True
        # Reading the whole file after every foreign line would cost too much.
        return (reader.is_doubted or size == self._writer.known_bytes) and reader.is_rewritten()

    def _go_over(self, end: int) -> None:
        files, path = self._files, self._reader.path
        fd = open_regular(files, path, update=True)
        try:
            found = files.fstat(fd)
            self._check_beginning(fd, found.st_size, end)
            lock = own_session(files, fd, self._locks, durable=0)
        except BaseException:
            files.close(fd)
            raise
        self._lock.release(settled=self._writer.is_settled)
        self._lock = lock
        files.replace(self._reader.fd, fd)
        self._writer.go_over((found.st_dev, found.st_ino), lock.doubt)
        with suppress(OSError):
            lock.note_durable(end)

    def _check_beginning(self, fd: int, size: int, end: int) -> None:
        if size < end:
            raise Replaced("truncated")
        if not same_beginning(self._files, self._reader.fd, fd, end):
            raise Replaced("epoch")

    def release(self, *, settled: bool) -> None:
        """Remove the record of the lock, unless the file is not `settled`.

        Closing the descriptor releases the lock itself.
        """
        self._lock.release(settled=settled)
