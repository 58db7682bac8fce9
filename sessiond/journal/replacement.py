"""Whether a path still has the file that is open, and what to do when it has another.

Law: a file that took the place of another is gone over to only if it begins with every
byte that is known of the old one; then nobody needs to notice. Else it is another log. So
is one that was written anew in place: known by its last line, or by the checksum of all its
lines where a read found other lines, and where it was written to but is as long as before.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.profile.lock import FileLock, own_session
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import same_beginning
from sessiond.journal.store import Replaced
from sessiond.journal.writer import Writer

__all__ = ["Following"]


class Following:
    """The place of one open file, and the lock that says whose it is."""

    def __init__(
        self, files: Files, reader: LineReader, writer: Writer, lock: FileLock, locks: Path
    ) -> None:
        self._files = files
        self._reader = reader
        self._writer = writer
        self._out = writer.out
        self._lock = lock
        self._locks = locks

    def require_note(self) -> None:
        """Require that a later owner can tell what a failure has left in doubt. Raises OSError."""
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
        """How long the file at the path is now. Raises OSError, SessionLocked, Replaced."""
        end = self._reader.file_end
        found = self._files.stat(self._reader.path)
        if (found.st_dev, found.st_ino) != self._out.identity:
            self._go_over(end)
            found = self._files.fstat(self._reader.fd)
        if found.st_size < end:
            raise Replaced("truncated")
        if found.st_mtime_ns != self._out.changed_at or self._reader.is_doubted:
            # Not by us. Who writes a file anew in place may leave it as long, or longer.
            if self._is_rewritten(found.st_size):
                raise Replaced("epoch")
            self._out.changed_at = found.st_mtime_ns
            self._out.was_changed = True
        return found.st_size

    def _is_rewritten(self, size: int) -> bool:
        reader = self._reader
        if not reader.has_last():
            return True
        # To read all of a file with every line that another program appends would be too much.
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
        """Take the record of the lock away, unless the file is not `settled`.

        The lock itself goes with the descriptor.
        """
        self._lock.release(settled=settled)
