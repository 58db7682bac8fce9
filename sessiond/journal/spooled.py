"""The lines of a session in the making: more than memory should hold, and no file's yet.

The lines are in a spool, which goes with its descriptor. The maker of the log closes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.spool import Spool
from sessiond.journal.store import JournalStatistics
from sessiond.journal.undisturbed import Alone, Undisturbed


class SpooledLog(Alone, Undisturbed):
    """A `SessionLog` of a session in the making. One thread writes; any thread reads."""

    blocking: ClassVar[bool] = True

    def __init__(self, files: Files, folder: Path | None) -> None:
        """Make an empty log in a folder; without one, in memory. Raises StorageError."""
        self._name = Path("copy") if folder is None else folder
        with telling("create", self._name):
            self._spool = Spool.nameless(files, folder, self._name)
        reader = self._spool.reader
        self.read, self.read_many, self.chunks = reader.read, reader.read_many, reader.chunks
        self.line_bytes, self.span_bytes = reader.line_bytes, reader.span_bytes

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return self._spool.reader.line_count

    @property
    def size_bytes(self) -> int:
        """Size of the lines, newlines included."""
        return self._spool.reader.ends[-1]

    def append(self, lines: Sequence[bytes], *, sync: bool = False, late: bool = False) -> None:
        """Add lines; none is durable. Raises StorageError."""
        del sync, late
        with telling("write", self._name):
            self._spool.add(lines)

    def sync(self) -> None:
        """Do nothing: the lines go with the log."""

    def move(self, path: Path) -> None:
        """Raise AssertionError: a session in the making has no file to move."""
        raise AssertionError(f"a session in the making cannot become {path.name}")

    def statistics(self) -> JournalStatistics:
        """Return the number of lines and their size."""
        return JournalStatistics(self.line_count, self.size_bytes, 0)

    def close(self) -> None:
        """Drop the lines, once no read runs."""
        self._spool.close()
