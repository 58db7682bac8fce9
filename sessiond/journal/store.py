"""The port through which the service uses a session's lines.

Ordinals count from the header, which is 0. `check_session_log` in
`sessiond.testing.journals` is the contract in executable form: every
implementation passes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from msgspec import Struct

ReplacedReason = Literal["epoch", "truncated"]


class Overtaken(Exception):
    """Refusal of a batch because foreign writers wrote first.

    Nothing of the batch stays in the log. The caller gets the foreign lines from `take_found`, then
    stages the batch again behind them.
    """


class Replaced(Exception):
    """Notice that the path has another file now, or that the file lost known lines."""

    def __init__(self, reason: ReplacedReason) -> None:
        super().__init__(reason)
        self.reason: ReplacedReason = reason


class Found(Struct, frozen=True):
    """A line that got its ordinal without an append through the log.

    `external` is True for a foreign line and False for a line that a failed append left.
    """

    line: bytes
    external: bool


class JournalStatistics(Struct, frozen=True):
    """Sizes, and the costs so far, of a session log."""

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
    """True if calls wait for a disk and so need a worker thread."""

    is_shared: ClassVar[bool]
    """True if other daemons append too: what was answered anywhere is seen by a look that begins later."""

    is_synced: bool
    """False if lines that other daemons have appended may not be durable yet."""

    @property
    def position(self) -> object:
        """Row of a shared store at the lines that were handed over; None for a log that is not shared."""
        ...

    @property
    def path(self) -> Path | None:
        """Path of the file; None in memory."""
        ...

    @property
    def inode(self) -> int:
        """Inode of the file, which a rename keeps; 0 in memory."""
        ...

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        ...

    @property
    def size_bytes(self) -> int:
        """Offset where the next line will begin."""
        ...

    @property
    def slack_bytes(self) -> int:
        """Number of bytes behind the last line; -1 where only its newline is missing."""
        ...

    def send(self, lines: Sequence[bytes], *, sync: bool) -> None:
        """Begin the `append` of these lines, which follows in a thread, as far as that waits for nothing.

        Raises nothing.
        """
        ...

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Store all lines, durably if `sync`, or none.

        Raises StorageError, Replaced, and Overtaken if a foreign writer wrote first. With `late`
        the foreign lines come before these lines instead, and `take_found` returns them.
        """
        ...

    def sync(self) -> None:
        """Make lines durable that were appended without `sync`. Raises StorageError."""
        ...

    def take_found(self) -> list[Found]:
        """Return newly found lines, foreign or left by a failed append; each line is returned once.

        The lines have their ordinals already: behind all earlier lines, before lines appended
        since.
        """
        ...

    def disprove(self) -> None:
        """Take note that a client knows other lines under this epoch: the next look ends the epoch.

        Only for logs that are shared.
        """
        ...

    @property
    def is_contended(self) -> bool:
        """True if other daemons append to the session just now: `hold` before the next append."""
        ...

    @property
    def is_held(self) -> bool:
        """True if no other daemon can append to the session."""
        ...

    def hold(self) -> bool:
        """Keep other daemons from the session until the next append or `release`.

        Finds their lines. Returns False if the session cannot be held now. Raises StorageError, Replaced.
        """
        ...

    def release(self) -> None:
        """Let other daemons append again, if the session is held. Raises nothing."""
        ...

    @property
    def is_doubted(self) -> bool:
        """True if a read found lines unlike those stored; the next look checks the file."""
        ...

    def is_rewritten(self) -> bool:
        """Return whether the bytes of the known lines have changed. Reads them all.

        Raises OSError.
        """
        ...

    def follow(self, path: Path) -> bool:
        """Go on at another path if that path has this file by now; return False if the path has to be opened.

        Raises StorageError.
        """
        ...

    def has_grown(self) -> bool:
        """Return whether a foreign writer wrote since the last look. Waits for no disk."""
        ...

    def look(self) -> None:
        """Find whole foreign lines, some per call. Raises StorageError, Replaced."""
        ...

    @property
    def behind_bytes(self) -> int:
        """Number of foreign bytes that the last look left to the next look."""
        ...

    @property
    def half_bytes(self) -> int:
        """Number of bytes of the half line behind the last line."""
        ...

    @property
    def half_age(self) -> float:
        """Seconds for which a half line had not grown when the file was opened."""
        ...

    def half(self) -> bytes:
        """Return the bytes of the half line. Raises StorageError."""
        ...

    def close_half(self) -> None:
        """End the half line with a blank, as a mark, and a newline. Raises StorageError."""
        ...

    def read(self, first: int, last: int) -> list[bytes]:
        """Return the lines `first` to `last`, both included. Raises StorageError."""
        ...

    def chunks(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the stored bytes of the lines `first` to `last`, newlines included, in pieces.

        Raises StorageError.
        """
        ...

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """Return the lines at these ordinals, in this order. Raises StorageError."""
        ...

    def line_bytes(self, seq: int) -> int:
        """Return the stored size of one line, without its newline."""
        ...

    def span_bytes(self, first: int, last: int) -> int:
        """Return the stored size of the lines `first` to `last`, newlines included."""
        ...

    def checksum(self, seq: int) -> int:
        """Return the checksum of all bytes up to the end of a line; 0 without a file of its own.

        The checksum is that of the bytes as they were indexed or appended. Raises StorageError.
        """
        ...

    @property
    def was_changed(self) -> bool:
        """True if a foreign writer changed the file since it was opened, perhaps in place."""
        ...

    def expect_move(self, path: Path) -> None:
        """Take note that a `move` to this path follows the next append, which may do both in one step."""
        ...

    def move(self, path: Path) -> None:
        """Move the file to another path, durably. Safe to repeat. Raises StorageError."""
        ...

    def statistics(self) -> JournalStatistics:
        """Return sizes and costs so far."""
        ...

    def close(self) -> None:
        """Release all resources after waiting for running reads; later calls are refused."""
        ...
