"""Parts of a run of tests: a slice of them, what the last commits touched, a bound in time of processors."""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

__all__ = ["COMMITS", "Slice", "processor_seconds", "touched"]

ROOT: Final = Path(__file__).resolve().parents[2]
COMMITS: Final = 30
"""Commits whose files the gate looks at: in a fresh clone there is no merge base."""

T = TypeVar("T")


class Slice(NamedTuple):
    """The K-th of N slices, which is written K/N."""

    number: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Return the slice of a word of the command line. Raises ArgumentTypeError."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise argparse.ArgumentTypeError(f"{text!r} is no slice; 3/12 is one")
        return cls(int(found[1]), int(found[2]))

    def of(self, things: Sequence[T]) -> Sequence[T]:
        """Return the things of this slice."""
        return things[self.number - 1 :: self.parts]

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


def touched() -> set[str]:
    """Return the files of the last commits; nothing if the history is too short to tell."""
    words = ["git", "log", f"-{COMMITS}", "--name-only", "--format=format:commit"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return set(lines) if lines.count("commit") == COMMITS else set()


def processor_seconds() -> float:
    """Return the time that ended child processes have had of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
