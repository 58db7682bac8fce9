"""The bytes of a file that an earlier owner may not have made durable.

Law: no sync of a new descriptor proves that these bytes are on disk. An earlier owner of the file
may have seen a sync fail; the kernel then counts the pages as clean, and shows them to every reader
until it drops them. So the indexed bytes are written again at their offset, which makes the pages
dirty again, and only then synced.
"""

from __future__ import annotations

import errno
from zlib import crc32

from sessiond.journal.disk.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.repair import write_again


class Doubt:
    """The size and checksum of a file's bytes from `start` on, taken while they were indexed."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._end = 0
        self._checksum = 0

    def see(self, chunk: bytes) -> None:
        """Add the next bytes of the file; the first call gets the beginning of the file."""
        skipped = max(0, self._start - self._end)
        self._checksum = crc32(chunk[skipped:], self._checksum)
        self._end += len(chunk)

    def write_again(self, files: Files, reader: LineReader) -> None:
        """Make the pages dirty again; a sync must follow. Raises OSError.

        Refuses bytes that differ from those indexed: the kernel has dropped pages since, or a
        foreign writer has changed the file.
        """
        if write_again(files, reader, self._start, self._end) != self._checksum:
            raise OSError(errno.ESTALE, "it changed while it was being opened: try again")
