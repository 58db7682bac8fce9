"""Progress of long work on standard error, for a person at a terminal.

Law: no line appears before one second has passed, nor in a file; the line is wiped at the end.
"""

from __future__ import annotations

import sys
import time

from sessiond.cli.ui.text import one_line

_QUIET_SECONDS = 1.0
_WIPE = "\r\x1b[K"
_WIDTH = 70


class Steps:
    """Progress display of one piece of work: a `Progress` without a token."""

    token = None
    latest = None

    def __init__(self, work: str) -> None:
        self._work = work
        self._since = time.monotonic()
        self._is_shown = False

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Show how much is done, of how many, in which unit."""
        if time.monotonic() - self._since < _QUIET_SECONDS or not sys.stderr.isatty():
            return
        of = "" if total is None else f"/{total}"
        line = one_line(f"{self._work}: {done}{of} {unit}", _WIDTH)
        sys.stderr.write(f"{_WIPE}{line}")
        sys.stderr.flush()
        self._is_shown = True

    def end(self) -> None:
        """Wipe the line."""
        if self._is_shown:
            sys.stderr.write(_WIPE)
            sys.stderr.flush()
            self._is_shown = False
