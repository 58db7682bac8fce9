"""Files of users beside session files, which no request and no failure may touch."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sessiond.journal.profile.layout import Layout
from sessiond.testing.disk import FaultDisk

__all__ = ["ENDINGS", "Bystanders"]

# What users and other programs put behind the name of a file; sessiond makes none of these.
ENDINGS: Final = (".new", ".bak", ".torn-notes", ".notes.md", ".d", "-wal")


class Bystanders:
    """The files that were left on a disk, each with its bytes."""

    def __init__(self) -> None:
        self.contents: dict[Path, bytes] = {}

    def leave(self, disk: FaultDisk, path: Path, ending: str) -> None:
        """Put a durable file of a user beside a session's file."""
        beside = path.with_name(path.name + ending)
        if disk.leave(beside, b"of a user: " + ending.encode()):
            self.contents[beside] = disk.content(beside)

    def surround(self, disk: FaultDisk, layout: Layout, session_id: str) -> None:
        """Put files beside everything that a session has, and where a draft of its id would lie."""
        paths = [
            *layout.find_all(disk, session_id),
            *layout.trashed(disk, session_id),
            layout.pending_path(session_id),
        ]
        for path in paths:
            for ending in ENDINGS:
                self.leave(disk, path, ending)

    def check(self, disk: FaultDisk) -> None:
        """Assert that every file is where it was left, byte for byte."""
        there = set(disk.paths)
        gone = [path for path in self.contents if path not in there]
        assert gone == [], "files of a user were removed"
        changed = [path for path, text in self.contents.items() if disk.content(path) != text]
        assert changed == [], "files of a user were changed"

    def remove(self, disk: FaultDisk) -> None:
        """Take every file away, as their user does."""
        for path in self.contents:
            disk.unlink(path)
        self.contents.clear()
