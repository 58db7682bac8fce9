"""sessiond, whose new threads lack the memory to begin.

    short_daemon.py FILE serve --socket …

While FILE exists, a thread that was started ends before it begins.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from sessiond.cli import main


def run_short(sign: Path) -> None:
    """Let new threads end from now on, as long as there is a sign; the rest of the program is unchanged."""
    bootstrap = threading.Thread._bootstrap  # type: ignore[attr-defined]

    def begin(thread: threading.Thread) -> None:
        if sign.exists():
            raise MemoryError
        bootstrap(thread)

    threading.Thread._bootstrap = begin  # type: ignore[attr-defined]


if __name__ == "__main__":
    run_short(Path(sys.argv.pop(1)))
    main()
