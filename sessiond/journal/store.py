"""What a session's lines are to the service, whatever keeps them.

Ordinals count from the header, which is 0. `check_session_log` in
`sessiond.testing.journals` is the contract in executable form: every
implementation passes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from msgspec import Struct

__all__ = ["JournalStatistics", "SessionLog"]


class JournalStatistics(Struct, frozen=True):
    """What the lines have cost so far."""

    lines: int
    size_bytes: int
    durable_bytes: int
    writes: int = 0
    written_bytes: int = 0
    syncs: int = 0
    sync_ms_max: float = 0.0
    failures: int = 0


class SessionLog(Protocol):
    """The lines of one session. One thread appends; any thread reads what was appended."""

    blocking: ClassVar[bool]
    """Whether calls wait for a disk, and so belong into a worker thread."""

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        ...

    @property
    def inode(self) -> int:
        """Which file it is, whatever its name; 0 in memory."""
        ...

    @property
    def line_count(self) -> int:
        """Lines so far, the header among them."""
        ...

    def append(self, lines: Sequence[bytes], *, sync: bool) -> None:
        """Store all of them, durably if `sync`, or none. Raises StorageError."""
        ...

    def sync(self) -> None:
        """Make durable what was appended without. Raises StorageError."""
        ...

    def take_stored_tail(self) -> list[bytes]:
        """Lines that a failed append found or left in a file that may not be cut back.

        They have their ordinals, right behind what was there. Given once.
        """
        ...

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines `first` to `last`, both included. Raises StorageError."""
        ...

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """The lines at these ordinals, in this order. Raises StorageError."""
        ...

    def line_bytes(self, seq: int) -> int:
        """The stored size of one line, without its newline."""
        ...

    def span_bytes(self, first: int, last: int) -> int:
        """The stored size of the lines `first` to `last`, newlines included."""
        ...

    def move(self, path: Path) -> None:
        """Give the file another name, durably. Safe to repeat. Raises StorageError."""
        ...

    def statistics(self) -> JournalStatistics:
        """What it has cost so far."""
        ...

    def close(self) -> None:
        """Let go. Reads that run are waited for; later calls are refused."""
        ...
