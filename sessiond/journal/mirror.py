"""The log of a session whose file another program writes, and which sessiond only reads.

The lines of that program become entries one by one, and the entries are kept in a spool: a file of
the profile without a name, which the system removes with the last descriptor. So a line has the
bytes that its readers got, also after the program has written its file anew. The log then says so
(Replaced), and the next opening reads the new file.

The spool of a large file is a kept copy. It stays behind the close if an index tells what its lines
are and how far the source was read, and the next log goes on there.

Law: `translate` makes the equal lines of equal sources in every run, however the source's lines come.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.errors import StorageError
from sessiond.journal.checksums import Checksums
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.kept_copies import KeptCopy
from sessiond.journal.source import LineSource
from sessiond.journal.splitter import VisitLines, joined
from sessiond.journal.spool import Spool
from sessiond.journal.store import Found, JournalStatistics
from sessiond.journal.undisturbed import Alone, WholeLines

Translate = Callable[[Sequence[bytes], bool], list[bytes]]
"""Makes the next lines of the log from the next lines of the source; the flag tells the source's end."""


class Mirror(Alone, WholeLines):
    """A `SessionLog` of a file that sessiond never writes to. One thread looks; any thread reads."""

    blocking: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - a source, what is made of it, and where that lies
        self,
        files: Files,
        source: LineSource,
        *,
        header: bytes,
        translate: Translate,
        folder: Path,
        copy: KeptCopy | None = None,
    ) -> None:
        """Make the log of a source, with its header only. Raises OSError.

        `folder` is where the spool is made; a start removes what an earlier daemon left there. With a kept
        copy the log has no line until its reader was told the lines of the copy, or `begin` was called. The
        log owns and closes the source and the copy.
        """
        self.files = files
        """Disk of the other program's file."""
        self.is_kept = False
        """True if the kept copy stays behind the close, since there is an index of its lines."""
        self.header = header
        """The first line."""
        self.source = source
        self.translate = translate
        self._spool = copy or Spool.nameless(files, folder, source.path)
        self.reader = self._spool.reader
        """Reader of the lines."""
        # Translated lines that the spool has not taken yet, for example because the disk was full.
        self._waiting: list[bytes] = []
        self._found: list[Found] = []
        self.read = self.reader.read
        self.read_many = self.reader.read_many
        self.line_bytes = self.reader.line_bytes
        self.span_bytes = self.reader.span_bytes
        self.chunks = self.reader.chunks
        self.checksum = self.reader.checksum
        if copy is None:
            try:
                self.begin()
            except BaseException:
                self._spool.close()
                raise

    def begin(self) -> None:
        """Begin with the header, and no line of a kept copy. Raises OSError."""
        self.reader.forget()
        self._spool.settle()
        self._waiting = [self.header]
        self._spool_waiting()

    # -- what is there -------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Path of the other program's file."""
        return self.source.path

    @property
    def inode(self) -> int:
        """Inode of the other program's file."""
        return self.source.inode

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return self.reader.line_count

    @property
    def size_bytes(self) -> int:
        """Number of bytes that the lines have as entries."""
        return self.reader.ends[-1]

    @property
    def slack_bytes(self) -> int:
        """Number of bytes of the file beyond those of the entries; often negative."""
        return self.source.read_bytes - self.size_bytes

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the half line that the other program is writing."""
        return self.source.held_bytes

    @property
    def is_doubted(self) -> bool:
        """True if the spool was damaged."""
        return self.reader.is_doubted

    def is_rewritten(self) -> bool:
        """Return whether the known bytes of the file have changed. Reads them. Raises OSError."""
        return self.source.is_rewritten()

    def follow(self, path: Path) -> bool:
        """Read on at another path if that path has this file by now. Raises StorageError."""
        with telling("look at", path):
            return self.source.follow(path)

    def has_grown(self) -> bool:
        """Return whether there may be lines that no look has taken in. Waits for no disk."""
        return bool(self._waiting) or self.source.has_changed()

    @property
    def was_changed(self) -> bool:
        """True if the other program wrote what this log has not read."""
        return self.source.has_changed()

    # -- what is kept ------------------------------------------------------------------------

    @property
    def may_stay(self) -> bool:
        """True if the spool is a kept copy that no one has forgotten meanwhile."""
        return self._spool.stays and not self.is_doubted

    def settle_copy(self) -> None:
        """Make the kept copy durable for the next opening. Raises OSError."""
        self._spool.settle()

    @property
    def is_at_rest(self) -> bool:
        """True if the spool has all lines that were read, and all were handed over."""
        return not (self._waiting or self._found)

    def stat(self) -> FileStat:
        """Return the state of the spool. Raises OSError."""
        return self._spool.files.fstat(self.reader.fd)

    def known_lines(self) -> tuple[array[int], Checksums]:
        """Return the ends of all lines and the checksums of the spool up to them."""
        return self.reader.ends, self.reader.checksums

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
                lines = self.source.more()
                is_end = not (lines and self.source.behind_bytes)
                self._waiting += self.translate(lines, is_end)
                # A long line goes before its entry is put into the spool.
                lines.clear()
                if self._waiting or is_end:
                    break
        with telling("keep the lines of", self.path):
            return self._spool_waiting()

    @property
    def behind_bytes(self) -> int:
        """Number of bytes that the last look left to the next look."""
        return self.source.behind_bytes

    def _spool_waiting(self) -> list[bytes]:
        """Write the waiting lines into the spool, behind the last line. Raises OSError."""
        lines = self._waiting
        if lines:
            data = joined(lines)
            self._spool.put_at(data, self.size_bytes)
            self._spool.take(lines)
            self.reader.checksums.add(data)
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
        """Close the file and the spool, once no read runs. A copy goes unless it is kept."""
        self.source.close()
        if not self.is_kept:
            self._spool.doubt()
        self._spool.close()
