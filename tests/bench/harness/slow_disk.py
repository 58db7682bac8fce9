"""sessiond on a disk whose every fdatasync takes longer: the daemon of row 15, run as a process.

    python -m tests.bench.harness.slow_disk DELAY_MS BATCH_ENTRIES_MAX serve --socket …

Law: two things differ from `sessiond`: the delay, and the entries that one batch may carry. With
batches of one entry every request has a sync of its own. A name that has moved in sessiond ends
the process at once, so no figure is measured without the delay.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from unittest.mock import patch

from sessiond.cli import main as sessiond
from sessiond.journal.disk.files import Files
from sessiond.service.actor import inbox
from tests.bench.peers.disk_loop import slowed

__all__ = ["command", "main", "slow_sync"]


def command(delay_ms: float, batch_entries_max: int) -> list[str]:
    """Return the words that run sessiond so."""
    words = [sys.executable, "-m", "tests.bench.harness.slow_disk"]
    return [*words, str(delay_ms), str(batch_entries_max)]


def slow_sync(delay_ms: float) -> Callable[[Files, int], None]:
    """Return a method that syncs as `Files` does, after a delay."""
    sync = Files.fdatasync

    def fdatasync(files: Files, fd: int) -> None:
        slowed(lambda fd: sync(files, fd), delay_ms)(fd)

    return fdatasync


def main() -> None:
    """Run sessiond with the words behind the two numbers."""
    delay_ms, batch_entries_max = float(sys.argv[1]), int(sys.argv[2])
    del sys.argv[1:3]
    with (
        patch.object(Files, "fdatasync", slow_sync(delay_ms)),
        patch.object(inbox, "BATCH_ENTRIES_MAX", batch_entries_max),
    ):
        sessiond()


if __name__ == "__main__":
    main()
