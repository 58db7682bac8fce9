"""The bare peer of rows 4 and 15: write a line, fdatasync, next line; run as a process.

Law: nothing but the two system calls stands between the lines, and for row 15 the delay that its
disk adds to each sync. The lines are read into memory before the clock starts.

    > {"lines":"…/lines.jsonl","to":"…/copy.jsonl","delay_ms":0}
    < {"seconds":0.125,"count":1500}
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

__all__ = ["Done", "Task", "main"]


class Task(Struct):
    """Copy every line of one file to the end of another, each made durable by itself."""

    lines: str
    to: str
    delay_ms: float = 0


class Done(Struct):
    """The time that a task took."""

    seconds: float
    count: int


def slowed(sync: Callable[[int], None], delay_ms: float) -> Callable[[int], None]:
    """Return the sync of a disk that takes so much longer."""
    if not delay_ms:
        return sync
    seconds, sleep = delay_ms / 1000, time.sleep

    def slow(fd: int) -> None:
        sleep(seconds)
        sync(fd)

    return slow


def copy(task: Task) -> Done:
    """Do it."""
    with Path(task.lines).open("rb") as source:
        lines = source.readlines()
    fd = os.open(task.to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    write, sync = os.write, slowed(os.fdatasync, task.delay_ms)
    start = time.perf_counter()
    for line in lines:
        write(fd, line)
        sync(fd)
    seconds = time.perf_counter() - start
    os.close(fd)
    return Done(seconds, len(lines))


def main() -> None:
    """Do one task per line of standard input."""
    for line in sys.stdin.buffer:
        done = copy(msgspec.json.decode(line, type=Task))
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
