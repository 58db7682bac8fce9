"""The lines of a session that is never written: `persist: "never"`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.errors import Overloaded, TooLarge
from sessiond.journal.store import Found, JournalStatistics
from sessiond.limits import (
    MEMORY_BYTES_MAX,
    MEMORY_LINE_BYTES,
    MEMORY_SESSION_BYTES_MAX,
    RETRY_AFTER_MS,
)

__all__ = ["MemoryBudget", "MemoryJournal"]


class MemoryBudget:
    """The bytes that all sessions in memory may have together. Safe in any thread."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._guard = threading.Lock()

    def take(self, count: int) -> None:
        """Count more bytes in. Raises Overloaded, and then nothing is counted."""
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
        """Count bytes out again."""
        with self._guard:
            self.held_bytes -= count


class MemoryJournal:
    """A `SessionLog` in a list. Nothing in it waits, so it may be called on the loop."""

    blocking: ClassVar[bool] = False

    def __init__(self, header: bytes, budget: MemoryBudget | None = None) -> None:
        """Keep the header, one line or more. Raises TooLarge, Overloaded."""
        self._lines: list[bytes] = []
        self._size = 0
        self._cost = 0
        self._budget = budget or MemoryBudget()
        self.append(header.split(b"\n"), sync=False)

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

    @property
    def slack_bytes(self) -> int:
        """Return 0: there is no file."""
        return 0

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Keep the lines; `sync` promises nothing here, and the answer says so.

        Raises TooLarge, Overloaded: none of the lines is kept.
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
        """Count the lines out of what the sessions in memory have; a file has them now."""
        cost, self._cost = self._cost, 0
        self._budget.give_back(cost)

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

    @property
    def is_doubted(self) -> bool:
        """Nobody else writes here."""
        return False

    def is_rewritten(self) -> bool:
        """Nobody else writes here."""
        return False

    def has_grown(self) -> bool:
        """Nobody else writes here."""
        return False

    def look(self) -> None:
        """There is nothing to find."""

    @property
    def half_age(self) -> float:
        """Return 0: there is no half a line."""
        return 0.0

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

    def checksum(self, seq: int) -> int:
        """There is no file that could change."""
        assert seq >= 0, "ordinals count from the header"
        return 0

    @property
    def was_changed(self) -> bool:
        """Nobody else can reach it."""
        return False

    def move(self, path: Path) -> None:
        """A session that is never written has no name to change."""
        raise AssertionError(f"a session in memory cannot become {path.name}")

    def statistics(self) -> JournalStatistics:
        """How much there is."""
        return JournalStatistics(len(self._lines), self._size, 0)

    def close(self) -> None:
        """Forget the lines."""
        self.release()
        self._lines = []
