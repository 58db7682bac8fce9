"""`sessiond` with a measure on each step of its event loop.

    python -m tests.kit.steps OUT time|lines WORDS...

runs `sessiond WORDS...` and leaves the longest step in the file OUT. A step is one call of the loop.
`time` takes a step's time on the loop's thread, which says what the step costs, and its time by the
clock, which also has waits for other threads and processes. `lines` counts the lines of Python that a
step executes: a number that no busy machine changes. The signal FORGET begins anew.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from sessiond.cli import main

__all__ = ["FORGET", "Longest", "longest"]

FORGET: Final = signal.SIGUSR1


class Longest(Struct):
    """The longest step by each measure; times in milliseconds."""

    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    lines: int = 0
    steps: int = 0


def longest(path: Path) -> Longest:
    """Return what a run left in a file."""
    return msgspec.json.decode(path.read_bytes(), type=Longest)


def timed(found: Longest, run: Callable[[], None]) -> None:
    """Run a step, and measure its times."""
    cpu, wall = time.thread_time(), time.perf_counter()
    try:
        run()
    finally:
        found.cpu_ms = max(found.cpu_ms, 1000 * (time.thread_time() - cpu))
        found.wall_ms = max(found.wall_ms, 1000 * (time.perf_counter() - wall))


def counted(found: Longest, run: Callable[[], None]) -> None:
    """Run a step, and count its lines; each turn of a comprehension is one."""
    lines = 0

    def trace(_: object, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
        found.lines = max(found.lines, lines)


MEASURES: Final = {"time": timed, "lines": counted}


def watch(path: Path, measure: Callable[[Longest, Callable[[], None]], None]) -> None:
    """Measure each step from now on, and write the longest one down at the end."""
    found = Longest()
    run: Any = asyncio.Handle._run

    def step(handle: asyncio.Handle) -> None:
        found.steps += 1
        measure(found, lambda: run(handle))

    def forget(*_: object) -> None:
        nonlocal found
        found = Longest()

    vars(asyncio)["Handle"]._run = step
    signal.signal(FORGET, forget)
    atexit.register(lambda: path.write_bytes(msgspec.json.encode(found)))


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)), MEASURES[sys.argv.pop(1)])
    main()
