"""Journals whose disk fails at each call in turn, until a run has no failure.

After each: memory as it was, the error of the right kind, a retry works, and what a reboot finds
holds every acknowledged line, in order, and no invented one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

from sessiond.errors import StorageError
from sessiond.journal.journal import Journal
from sessiond.testing.disk import FaultDisk
from tests.kit.journals import FILE, FOLDER, LOCKS, lines_of, opened, text

OTHER = Path("/pending")
MOVED = OTHER / "s.jsonl"
STORED = [b'{"header":1}', b'{"first":1}']
UNSYNCED = [b'{"os":1}', b'{"os":2}']
BATCH = [b'{"batch":1}', b'{"batch":"long enough to be torn"}', b'{"batch":3}']
# Bytes of a failed write or sync that get through: none, part of a line, lines and a part.
PARTIAL = [0, 7, len(BATCH[0]) + 1, len(BATCH[0]) + 9, 10_000]
CALLS_MAX = 200


def new_disk(content: bytes = b"") -> FaultDisk:
    disk = FaultDisk(FOLDER, OTHER, LOCKS)
    if content:
        disk.put(FILE, content)
    return disk


def found_after(disk: FaultDisk, *, keep: int, names: int = 0) -> tuple[list[bytes], bytes]:
    """Return the lines and the tail that a reboot finds."""
    journal = opened(disk.crash(keep=keep, names=names))
    return lines_of(journal), journal.tail


def every_fault(
    prepare: Callable[[], tuple[FaultDisk, Journal]],
    act: Callable[[Journal], None],
    *,
    partial: int = 0,
) -> Iterator[tuple[FaultDisk, Journal, bool]]:
    """Disk, journal and whether `act` was refused, for a failure at each of its calls."""
    for nth in range(1, CALLS_MAX):
        disk, journal = prepare()
        fault = disk.fail(None, nth=nth, errno=errno.ENOSPC, partial=partial)
        refusal: StorageError | None = None
        try:
            act(journal)
        except StorageError as error:
            refusal = error
        disk.heal()
        if refusal is not None:
            assert fault.hit
            assert refusal.data()["errno"] == "ENOSPC"
            assert refusal.data()["retryable"] is True
        yield disk, journal, refusal is not None
        if not fault.hit:
            assert nth > 1, "nothing was called"
            return
    raise AssertionError("calls without end")


def with_unsynced_lines(*, truncates: bool = True) -> tuple[FaultDisk, Journal]:
    disk = new_disk(text(STORED))
    journal = opened(disk, truncates=truncates)
    journal.append(UNSYNCED, sync=False)
    return disk, journal


def without_unsynced_lines(*, truncates: bool = True) -> tuple[FaultDisk, Journal]:
    disk = new_disk(text(STORED))
    return disk, opened(disk, truncates=truncates)


def found_in(journal: Journal) -> list[bytes]:
    return [one.line for one in journal.take_found()]
