"""sessiond, three of whose calls on files stand still: writes of a certain word, openings of drafts, looks at its lock.

    held_daemon.py FOLDER serve --socket …

While FOLDER has a pipe `hold`, such a call makes `reached` there, and waits until the pipe was open
for writing and is closed. Every opening of a draft, and every look, adds a line to `opened`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sessiond.cli import main
from sessiond.journal.disk.files import Files

WORD = b"stand still"


def hold(folder: Path) -> None:
    """Hold certain calls from now on; the rest of the program is unchanged."""
    write, open_update, open_read = Files.write, Files.open_update, Files.open_read

    def stand_still() -> None:
        if (folder / "hold").exists():
            (folder / "reached").touch()
            (folder / "hold").read_bytes()

    def held_write(self: Files, fd: int, data: bytes | memoryview) -> int:
        if WORD in bytes(data):
            stand_still()
        return write(self, fd, data)

    def held_opening(self: Files, path: Path) -> int:
        if path.parent.name == "pending":
            note(path)
        return open_update(self, path)

    def held_look(self: Files, path: Path) -> int:
        if path.name == "daemon.lock":
            note(path)
        return open_read(self, path)

    def note(path: Path) -> None:
        with (folder / "opened").open("a") as opened:
            opened.write(f"{path.name}\n")
        stand_still()

    Files.write = held_write  # type: ignore[method-assign]
    Files.open_update = held_opening  # type: ignore[method-assign]
    Files.open_read = held_look  # type: ignore[method-assign]


if __name__ == "__main__":
    hold(Path(sys.argv.pop(1)))
    main()
