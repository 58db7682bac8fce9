"""`sessiond` with a stopwatch on each step of its event loop.

    python -m tests.kit.steps OUT WORDS...

runs `sessiond WORDS...` and leaves the longest step in the file OUT. A step is one call of the loop;
its time on the loop's thread says what it costs, its time by the clock also has waits for other
threads and processes.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sessiond.cli import main

__all__ = ["Longest", "longest"]


class Longest(Struct):
    """The longest step by each clock, in milliseconds."""

    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    steps: int = 0


def longest(path: Path) -> Longest:
    """Return what a run left in a file."""
    return msgspec.json.decode(path.read_bytes(), type=Longest)


def watch(path: Path) -> None:
    """Measure each step from now on, and write the longest one down at the end."""
    found = Longest()
    run: Any = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        cpu, wall = time.thread_time(), time.perf_counter()
        try:
            run(handle)
        finally:
            found.cpu_ms = max(found.cpu_ms, 1000 * (time.thread_time() - cpu))
            found.wall_ms = max(found.wall_ms, 1000 * (time.perf_counter() - wall))
            found.steps += 1

    vars(asyncio)["Handle"]._run = timed
    atexit.register(lambda: path.write_bytes(msgspec.json.encode(found)))


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()
