"""The log of a session whose file another program writes, and which sessiond only reads.

The lines of that program become entries one by one, and the entries are kept in a spool: a file of
the profile without a name, which the system removes with the last descriptor. So a line has the
bytes that its readers got, also after the program has written its file anew. The log then says so
(Replaced), and the next opening reads the new file.

Law: `translate` makes the equal lines of equal sources in every run, however the source's lines come.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.errors import StorageError
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.source import LineSource
from sessiond.journal.splitter import VisitLines, joined
from sessiond.journal.spool import Spool
from sessiond.journal.store import Found, JournalStatistics
from sessiond.journal.undisturbed import Alone, WholeLines

__all__ = ["Mirror", "Translate"]

Translate = Callable[[Sequence[bytes], bool], list[bytes]]
"""Makes the next lines of the log from the next lines of the source; the flag tells the source's end."""


class Mirror(Alone, WholeLines):
    """A `SessionLog` of a file that sessiond never writes to. One thread looks; any thread reads."""

    blocking: ClassVar[bool] = True

    def __init__(
        self,
        files: Files,
        source: LineSource,
        *,
        header: bytes,
        translate: Translate,
        folder: Path | None,
    ) -> None:
        """Make the log of a source, with its header only. Raises OSError.

        `folder` is where the spool is made; a start removes what an earlier daemon left there. Without a
        folder the spool is in memory, for a log that is read once. The log owns and closes the source.
        """
        self.files = files
        """Disk of the other program's file."""
        self._source = source
        self._translate = translate
        self._spool = Spool.nameless(files, folder, source.path)
        self._reader = self._spool.reader
        # Translated lines that the spool has not taken yet, for example because the disk was full.
        self._waiting: list[bytes] = [header]
        self._found: list[Found] = []
        self.read = self._reader.read
        self.read_many = self._reader.read_many
        self.line_bytes = self._reader.line_bytes
        self.span_bytes = self._reader.span_bytes
        self.chunks = self._reader.chunks
        self.checksum = self._reader.checksum
        try:
            self._spool_waiting()
        except BaseException:
            self._spool.close()
            raise

    # -- what is there -------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Path of the other program's file."""
        return self._source.path

    @property
    def inode(self) -> int:
        """Inode of the other program's file."""
        return self._source.inode

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return self._reader.line_count

    @property
    def size_bytes(self) -> int:
        """Number of bytes that the lines have as entries."""
        return self._reader.ends[-1]

    @property
    def slack_bytes(self) -> int:
        """Number of bytes of the file beyond those of the entries; often negative."""
        return self._source.read_bytes - self.size_bytes

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the half line that the other program is writing."""
        return self._source.held_bytes

    @property
    def is_doubted(self) -> bool:
        """True if the spool was damaged."""
        return self._reader.is_doubted

    def is_rewritten(self) -> bool:
        """Return whether the known bytes of the file have changed. Reads them. Raises OSError."""
        return self._source.is_rewritten()

    def follow(self, path: Path) -> bool:
        """Read on at another path if that path has this file by now. Raises StorageError."""
        with telling("look at", path):
            return self._source.follow(path)

    def has_grown(self) -> bool:
        """Return whether there may be lines that no look has taken in. Waits for no disk."""
        return bool(self._waiting) or self._source.has_changed()

    @property
    def was_changed(self) -> bool:
        """True if the other program wrote what this log has not read."""
        return self._source.has_changed()

    # -- growth ----------------------------------------------------------------------------

    def look(self) -> None:
        """Take in lines that the other program wrote, some per call. Raises StorageError, Replaced."""
        self._found += [Found(line, external=True) for line in self._more()]

    def take_found(self) -> list[Found]:
        """Return newly found lines; each line is returned once."""
        found, self._found = self._found, []
        return found

    def index(self, visit: VisitLines) -> None:
        """Read the source to its end, and visit each line. Raises StorageError, Replaced."""
        while lines := self._more():
            visit(self.line_count - len(lines), lines)
            lines.clear()

    def _more(self) -> list[bytes]:
        """Return the next lines, which the spool has then; none at the end of the source."""
        with telling("read", self.path):
            while True:
                lines = self._source.more()
                is_end = not (lines and self._source.behind_bytes)
                self._waiting += self._translate(lines, is_end)
                # A long line goes before its entry is put into the spool.
                lines.clear()
                if self._waiting or is_end:
                    break
        with telling("keep the lines of", self.path):
            return self._spool_waiting()

    @property
    def behind_bytes(self) -> int:
        """Number of bytes that the last look left to the next look."""
        return self._source.behind_bytes

    def _spool_waiting(self) -> list[bytes]:
        """Write the waiting lines into the spool, behind the last line. Raises OSError."""
        lines = self._waiting
        if lines:
            data = joined(lines)
            self._spool.put_at(data, self.size_bytes)
            self._spool.take(lines)
            self._reader.checksums.add(data)
        self._waiting = []
        return lines

    # -- nothing is written ------------------------------------------------------------------

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Raise StorageError: the file belongs to another program."""
        del lines, sync, late
        raise self._refusal("append to")

    def expect_move(self, path: Path) -> None:
        """Do nothing: an append and a move are two steps."""

    def move(self, path: Path) -> None:
        """Raise StorageError: the file belongs to another program."""
        del path
        raise self._refusal("move")

    def _refusal(self, doing: str) -> StorageError:
        return storage_error(OSError(errno.EROFS, "it is only read"), doing, self.path)

    def sync(self) -> None:
        """Do nothing: what is in the file is its program's to sync."""

    def statistics(self) -> JournalStatistics:
        """Return the number of lines and their size as entries."""
        return JournalStatistics(self.line_count, self.size_bytes, self.size_bytes)

    def close(self) -> None:
        """Close the file and the spool, once no read runs."""
        self._source.close()
        self._spool.close()
