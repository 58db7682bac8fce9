"""What a session's lines are to the service, whatever keeps them.

Ordinals count from the header, which is 0. `check_session_log` in
`sessiond.testing.journals` is the contract in executable form: every
implementation passes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from msgspec import Struct

__all__ = ["Found", "JournalStatistics", "Overtaken", "Replaced", "SessionLog"]


ReplacedReason = Literal["epoch", "truncated"]


class Overtaken(Exception):
    """Others wrote first, and nothing of the batch was written.

    What they wrote is taken with `take_found`; the batch is to be made again behind it.
    """


class Replaced(Exception):
    """The path has another file, or this one lost lines that were known of it."""

    def __init__(self, reason: ReplacedReason) -> None:
        super().__init__(reason)
        self.reason: ReplacedReason = reason


class Found(Struct, frozen=True):
    """A line that was not appended through the log, but has its ordinal in it.

    `external` unless it is left of an append that failed.
    """

    line: bytes
    external: bool


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

    @property
    def size_bytes(self) -> int:
        """Where the next line will begin."""
        ...

    @property
    def slack_bytes(self) -> int:
        """How much the file has behind its last line; -1 where only the newline is missing."""
        ...

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Store all of them, durably if `sync`, or none.

        Raises StorageError, Replaced, and Overtaken: others wrote first. With `late` what they
        wrote comes before these lines instead, and is found.
        """
        ...

    def sync(self) -> None:
        """Make durable what was appended without. Raises StorageError."""
        ...

    def take_found(self) -> list[Found]:
        """Lines that others wrote, or that an append which failed has left. Given once.

        They have their ordinals: right behind what was there, before what was appended since.
        """
        ...

    @property
    def is_doubted(self) -> bool:
        """Whether a read found other lines than were stored; the next look makes sure."""
        ...

    def is_rewritten(self) -> bool:
        """Whether the stored lines are others now. Reads them all. Raises OSError."""
        ...

    def has_grown(self) -> bool:
        """Whether others have written since the last look. Waits for no disk."""
        ...

    def look(self) -> None:
        """Find whole lines of others, some at a time. Raises StorageError, Replaced."""
        ...

    @property
    def behind_bytes(self) -> int:
        """What others wrote and the last look has left to the next."""
        ...

    @property
    def half_bytes(self) -> int:
        """How much lies behind the last line that no newline has ended yet."""
        ...

    @property
    def half_age(self) -> float:
        """How many seconds the half line had not grown that was there when the file was opened."""
        ...

    def half(self) -> bytes:
        """Those bytes. Raises StorageError."""
        ...

    def close_half(self) -> None:
        """Make a line of them, marked by a blank at its end. Raises StorageError."""
        ...

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines `first` to `last`, both included. Raises StorageError."""
        ...

    def chunks(self, first: int, last: int) -> Iterator[bytes]:
        """The stored bytes of the lines `first` to `last`, newlines included, in pieces.

        Raises StorageError.
        """
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

    def checksum(self, seq: int) -> int:
        """The checksum of everything up to the end of a line, as it was taken in; 0 in memory.

        Raises StorageError.
        """
        ...

    @property
    def was_changed(self) -> bool:
        """Whether another program has changed the file since it was opened, perhaps in place."""
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
