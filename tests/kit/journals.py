"""Journals on a disk in memory: one file in one folder, with a folder for locks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sessiond.journal.journal import Journal
from sessiond.journal.store import SessionLog
from sessiond.testing.disk import FaultDisk

FOLDER: Final = Path("/sessions")
LOCKS: Final = Path("/locks")
FILE: Final = FOLDER / "s.jsonl"


def text(lines: Iterable[bytes]) -> bytes:
    """Return the bytes of a file with these lines."""
    return b"".join(line + b"\n" for line in lines)


def ignore(seq: int, lines: object) -> None:
    """Visit a line or several, and do nothing with them."""


def opened(disk: FaultDisk, path: Path = FILE, *, truncates: bool = True) -> Journal:
    """Open the file on the disk to append to."""
    journal = Journal.open(disk, path, ignore, locks=LOCKS)
    journal.truncates = truncates
    return journal


def opened_on(disk: FaultDisk, content: bytes, *, truncates: bool = True) -> Journal:
    """Put a file with this content on the disk, and open it to append to."""
    disk.put(FILE, content)
    return opened(disk, truncates=truncates)


def lines_of(journal: SessionLog) -> list[bytes]:
    """Return every line of a journal."""
    return journal.read(0, journal.line_count - 1) if journal.line_count else []
