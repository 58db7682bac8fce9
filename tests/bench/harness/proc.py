"""The figures of a process that the system counts: wake-ups, processor time, memory.

Law: read only, from /proc. Without a /proc the row fails and says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.bench.harness.errors import BenchError
from tests.bench.harness.link import Link

__all__ = [
    "TICKS",
    "cpu_ticks",
    "folder_of",
    "peak_kib",
    "process_of",
    "resident_kib",
    "switches_of",
]

TICKS: Final = os.sysconf("SC_CLK_TCK")
"""Ticks of `cpu_ticks` in a second."""


class _Info(Struct):
    pid: int


def process_of(link: Link) -> Path:
    """Return the folder in /proc of the daemon behind a connection. Raises BenchError."""
    return folder_of(link.ask("server/info", {}, _Info).pid)


def folder_of(pid: int) -> Path:
    """Return the folder in /proc of a process. Raises BenchError."""
    process = Path("/proc") / str(pid)
    if not process.is_dir():
        raise BenchError("this system has no /proc to read a process's figures from")
    return process


def switches_of(process: Path) -> int:
    """Return how often any thread of the process was woken."""
    return sum(
        _number(task / "status", "voluntary_ctxt_switches") for task in (process / "task").iterdir()
    )


def cpu_ticks(process: Path) -> int:
    """Return user and system time so far."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident_kib(process: Path) -> int:
    """Return the memory of the process that is in RAM."""
    return _number(process / "status", "VmRSS")


def peak_kib(process: Path) -> int:
    """Return the most memory of the process that was in RAM at once."""
    return _number(process / "status", "VmHWM")


def _number(path: Path, name: str) -> int:
    for line in path.read_text().split("\n"):
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise BenchError(f"{path.name} has no {name}")
