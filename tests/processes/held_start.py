"""sessiond, whose first opening of a draft at its start stands still.

    held_start.py FOLDER serve --socket …

The opening makes `reached` in FOLDER and waits until `hold` there is gone. Every opening of a
draft adds a line to `opened`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sessiond.cli import main
from sessiond.journal.disk.files import Files


def hold_openings(folder: Path) -> None:
    """Hold certain openings from now on; the rest of the program is unchanged."""
    open_update = Files.open_update

    def held(self: Files, path: Path) -> int:
        if path.parent.name == "pending":
            with (folder / "opened").open("a") as opened:
                opened.write(f"{path.name}\n")
            (folder / "reached").touch()
            while (folder / "hold").exists():
                time.sleep(0.005)
        return open_update(self, path)

    Files.open_update = held  # type: ignore[method-assign]


if __name__ == "__main__":
    hold_openings(Path(sys.argv.pop(1)))
    main()
