"""What an opening finds behind the last byte that is known to be on disk.

Law: no sync of a new descriptor proves that these bytes are on disk. An earlier owner of the file
may have seen a sync fail; the kernel then counts the pages as clean, and shows them to every reader
until it drops them. So the bytes that were indexed are written again at the same place, which makes
the pages dirty again, and only then synced.
"""

from __future__ import annotations

import errno
from zlib import crc32

from sessiond.journal.disk.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.repair import write_again

__all__ = ["Doubt"]


class Doubt:
    """The bytes of a file from `start` on, as the pass that indexed them saw them."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._end = 0
        self._checksum = 0

    def see(self, chunk: bytes) -> None:
        """Take note of the next bytes of the file, from its beginning on."""
        skipped = max(0, self._start - self._end)
        self._checksum = crc32(chunk[skipped:], self._checksum)
        self._end += len(chunk)

    def write_again(self, files: Files, reader: LineReader) -> None:
        """Make the pages dirty again; a sync must follow. Raises OSError.

        Refuses bytes that are not what was indexed any more: the kernel has dropped pages since, or
        another program has written.
        """
        if write_again(files, reader, self._start, self._end) != self._checksum:
            raise OSError(errno.ESTALE, "it changed while it was opened")
