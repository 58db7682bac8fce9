"""sessiond, whose next write of lines with a certain word stands still between look and write.

    held_daemon.py FOLDER serve --socket …

While FOLDER has a file `hold`, such a write makes `reached` there and waits until `hold` is gone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sessiond.cli import main
from sessiond.journal.disk.files import Files

WORD = b"stand still"


def hold_writes(folder: Path) -> None:
    """Hold certain writes from now on; the rest of the program is unchanged."""
    write = Files.write

    def held(self: Files, fd: int, data: bytes | memoryview) -> int:
        if WORD in bytes(data) and (folder / "hold").exists():
            (folder / "reached").touch()
            while (folder / "hold").exists():
                time.sleep(0.005)
        return write(self, fd, data)

    Files.write = held  # type: ignore[method-assign]


if __name__ == "__main__":
    hold_writes(Path(sys.argv.pop(1)))
    main()
