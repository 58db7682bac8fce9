"""Parts of `SessionLog` about foreign writers, for logs that no other program writes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sessiond.journal.store import Found


class Alone:
    """A log to which no other daemon appends."""

    is_shared: ClassVar[bool] = False
    position: object = None
    # Attributes, since each append asks for them.
    is_contended: bool = False
    is_held: bool = False
    is_synced: bool = True

    def disprove(self) -> None:
        """Do nothing: this log is not shared."""

    def send(self, lines: Sequence[bytes], *, sync: bool) -> None:
        """Do nothing: a disk is waited for from the first step on."""

    def hold(self) -> bool:
        """Return False: this log is not shared."""
        return False

    def release(self) -> None:
        """Do nothing: this log is not shared."""


class WholeLines:
    """A log without half lines: a line is there as a whole, or its writer has it."""

    @property
    def half_bytes(self) -> int:
        """Number of bytes of a half line that an append would have to end: 0."""
        return 0

    @property
    def half_age(self) -> float:
        """Seconds for which a half line has not grown: 0."""
        return 0.0

    def half(self) -> bytes:
        """Return no bytes: there is no half line."""
        return b""

    def close_half(self) -> None:
        """Do nothing: there is no half line."""


class Undisturbed(WholeLines):
    """A log without a file, which no other program could change."""

    @property
    def path(self) -> None:
        """Path of the file: None."""

    @property
    def inode(self) -> int:
        """Inode of the file: 0."""
        return 0

    @property
    def slack_bytes(self) -> int:
        """Number of bytes behind the last line: 0."""
        return 0

    @property
    def behind_bytes(self) -> int:
        """Number of bytes that a look left to the next look: 0."""
        return 0

    def take_found(self) -> list[Found]:
        """Return no lines: there is no foreign writer, and no append leaves part of a batch."""
        return []

    def has_grown(self) -> bool:
        """Return False: there is no foreign writer."""
        return False

    def look(self) -> None:
        """Do nothing: there are no foreign lines to find."""

    def follow(self, path: Path) -> bool:
        """Return False: there is no file that could be at another path."""
        del path
        return False

    def expect_move(self, path: Path) -> None:
        """Do nothing: an append and a move are two steps."""

    @property
    def is_doubted(self) -> bool:
        """False: lines stay as they were stored."""
        return False

    @property
    def was_changed(self) -> bool:
        """False: lines stay as they were stored."""
        return False

    def is_rewritten(self) -> bool:
        """Return False: lines stay as they were stored."""
        return False

    def checksum(self, seq: int) -> int:
        """Return 0: lines stay as they were stored."""
        assert seq >= 0, "ordinals count from the header"
        return 0
