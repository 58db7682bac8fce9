"""The lines of a session that is never written: `persist: "never"`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.journal.store import Found, JournalStatistics

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """A `SessionLog` in a list. Nothing in it waits, so it may be called on the loop."""

    blocking: ClassVar[bool] = False

    def __init__(self, header: bytes) -> None:
        self._lines: list[bytes] = header.split(b"\n")
        self._size = len(header) + 1

    @property
    def path(self) -> None:
        """There is no file."""

    @property
    def inode(self) -> int:
        """Nor anything that would tell one from another."""
        return 0

    @property
    def line_count(self) -> int:
        """Lines so far, the header among them."""
        return len(self._lines)

    @property
    def size_bytes(self) -> int:
        """What the lines would have in a file, newlines included."""
        return self._size

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Keep the lines; `sync` promises nothing here, and the answer says so."""
        del sync, late
        for line in lines:
            assert b"\n" not in line, "an entry is exactly one line"
            self._size += len(line) + 1
        self._lines.extend(lines)

    def sync(self) -> None:
        """Nothing can be made durable."""

    def take_found(self) -> list[Found]:
        """Nobody else writes here, and no append fails."""
        return []

    @property
    def behind_bytes(self) -> int:
        """Nobody else writes here."""
        return 0

    @property
    def half_bytes(self) -> int:
        """There is no half a line."""
        return 0

    def has_grown(self) -> bool:
        """Nobody else writes here."""
        return False

    def look(self) -> None:
        """There is nothing to find."""

    def half(self) -> bytes:
        """There is none."""
        return b""

    def close_half(self) -> None:
        """There is none."""

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines `first` to `last`, both included."""
        return self._lines[first : last + 1]

    def chunks(self, first: int, last: int) -> Iterator[bytes]:
        """The lines `first` to `last`, each with a newline."""
        for line in self._lines[first : last + 1]:
            yield line + b"\n"

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """The lines at these ordinals, in this order."""
        lines = self._lines
        return [lines[seq] for seq in seqs]

    def line_bytes(self, seq: int) -> int:
        """The size of one line, without a newline."""
        return len(self._lines[seq])

    def span_bytes(self, first: int, last: int) -> int:
        """The size the lines would have in a file, newlines included."""
        return sum(map(len, self._lines[first : last + 1])) + last + 1 - first

    def move(self, path: Path) -> None:
        """A session that is never written has no name to change."""
        raise AssertionError(f"a session in memory cannot become {path.name}")

    def statistics(self) -> JournalStatistics:
        """How much there is."""
        return JournalStatistics(len(self._lines), self._size, 0)

    def close(self) -> None:
        """Forget the lines."""
        self._lines = []
