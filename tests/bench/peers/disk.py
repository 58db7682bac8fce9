"""The bare disk: a loop of write and fdatasync in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.harness.processes import Program, Worker, working
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.results import Contender
from tests.bench.harness.rounds import Sample
from tests.bench.harness.workload import messages, native_line
from tests.bench.peers.disk_loop import Done

__all__ = ["LOOP", "disk_loop", "lines_file", "looped"]

LOOP: Final = Contender("write + fdatasync loop", f"Python {sys.version.split()[0]}")
_copies = count(1)


@contextmanager
def disk_loop(folder: Path, core: int | None) -> Iterator[Worker]:
    """Run the loop."""
    program = Program(
        name=LOOP.name,
        command=[sys.executable, "-m", "tests.bench.peers.disk_loop"],
        log=folder / "loop.log",
        core=core,
        pipes=True,
    )
    with working(program) as worker:
        yield worker


def lines_file(folder: Path, mix: str, lines: int) -> Path:
    """Write the lines of a native session to a file, as the source of the loop."""
    source = folder / "lines.jsonl"
    source.write_bytes(b"".join(map(native_line, range(lines), messages(mix, lines))))
    return source


def looped(worker: Worker, source: Path, lines: int, *, delay_ms: float = 0) -> Sample:
    """Let the loop write the lines of a file to a new file beside it."""
    copy = source.with_name(f"loop-{next(_copies)}.jsonl")
    asked = {"lines": str(source), "to": str(copy), "delay_ms": delay_ms}
    done = worker.ask(asked, Done)
    require_in_file(copy, lines)
    copy.unlink()
    return {"rate": done.count / done.seconds}
