"""The session log without a file, for sessions with `persist: "never"`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.errors import Overloaded, TooLarge
from sessiond.journal.store import JournalStatistics
from sessiond.journal.undisturbed import Alone, Undisturbed
from sessiond.limits import (
    MEMORY_BYTES_MAX,
    MEMORY_LINE_BYTES,
    MEMORY_SESSION_BYTES_MAX,
    RETRY_AFTER_MS,
)


class MemoryBudget:
    """The byte budget that all sessions in memory share. Safe in any thread."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._guard = threading.Lock()

    def take(self, count: int) -> None:
        """Reserve bytes of the budget. Raises Overloaded and then reserves none."""
        with self._guard:
            if self.held_bytes + count > MEMORY_BYTES_MAX:
                raise Overloaded(
                    "the sessions in memory are as large together as they may be: delete one, or give"
                    " one a file (session/update with persist)",
                    limit=MEMORY_BYTES_MAX,
                    retry_after_ms=RETRY_AFTER_MS,
                )
            self.held_bytes += count

    def give_back(self, count: int) -> None:
        """Return reserved bytes to the budget."""
        with self._guard:
            self.held_bytes -= count


class MemoryJournal(Alone, Undisturbed):
    """A `SessionLog` in a list. No method waits, so the event loop may call all of them."""

    blocking: ClassVar[bool] = False

    def __init__(self, header: bytes, budget: MemoryBudget | None = None) -> None:
        """Store the header, one line or more. Raises TooLarge, Overloaded."""
        self._lines: list[bytes] = []
        self._size = 0
        self._cost = 0
        self._budget = budget or MemoryBudget()
        self.append(header.split(b"\n"), sync=False)

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return len(self._lines)

    @property
    def size_bytes(self) -> int:
        """Size that the lines would have in a file, newlines included."""
        return self._size

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Store the lines; `sync` has no effect in memory, and the answer says so.

        Raises TooLarge, Overloaded and then stores no line.
        """
        del sync, late
        size = sum(map(len, lines)) + len(lines)
        cost = size + len(lines) * MEMORY_LINE_BYTES
        if self._cost + cost > MEMORY_SESSION_BYTES_MAX:
            raise TooLarge(
                "the session is as large as one in memory may be: give it a file (session/update with"
                " persist), or go on in another session",
                limit=MEMORY_SESSION_BYTES_MAX,
                size=self._cost + cost,
            )
        self._budget.take(cost)
        self._cost += cost
        for line in lines:
            assert b"\n" not in line, "an entry is exactly one line"
        self._size += size
        self._lines.extend(lines)

    def release(self) -> None:
        """Return the bytes of the lines to the shared budget, because a file has the lines now."""
        cost, self._cost = self._cost, 0
        self._budget.give_back(cost)

    def sync(self) -> None:
        """Do nothing: memory cannot be made durable."""

    def read(self, first: int, last: int) -> list[bytes]:
        """Return the lines `first` to `last`, both included."""
        return self._lines[first : last + 1]

    def chunks(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the lines `first` to `last`, each with a newline."""
        for line in self._lines[first : last + 1]:
            yield line + b"\n"

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """Return the lines at these ordinals, in this order."""
        lines = self._lines
        return [lines[seq] for seq in seqs]

    def line_bytes(self, seq: int) -> int:
        """Return the size of one line, without a newline."""
        return len(self._lines[seq])

    def span_bytes(self, first: int, last: int) -> int:
        """Return the size that the lines would have in a file, newlines included."""
        return sum(map(len, self._lines[first : last + 1])) + last + 1 - first

    def move(self, path: Path) -> None:
        """Raise AssertionError: a session in memory has no file to move."""
        raise AssertionError(f"a session in memory cannot become {path.name}")

    def statistics(self) -> JournalStatistics:
        """Return the number of lines and their size."""
        return JournalStatistics(len(self._lines), self._size, 0)

    def close(self) -> None:
        """Drop the lines and return their bytes to the shared budget."""
        self.release()
        self._lines = []
