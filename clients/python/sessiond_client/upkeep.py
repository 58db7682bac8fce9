"""What looking after session files answers. As lenient as `results`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sessiond_client import wire

__all__ = ["READ_REPAIRED", "READ_VERIFIED", "Problem", "Repaired", "Verified"]


class Problem(Struct, frozen=True):
    """What is wrong with a line; the first line of a file is 1."""

    line: int | None
    kind: str
    detail: str = ""


class Verified(Struct, frozen=True):
    """A file as it lies on disk; `problems` are the first of `problem_count`."""

    ok: bool
    dialect: str | None = None
    entries: int | None = None
    lines: int | None = None
    bytes: int | None = None
    problems: list[Problem] = []
    problem_count: int | None = None
    repairable: bool = False
    read_only: bool = False


class Repaired(Struct, frozen=True):
    """What was left out of a file, or would be; the old one is at `backup`."""

    dry_run: bool
    repaired: bool = False
    problems: list[Problem] = []
    problem_count: int | None = None
    kept: int | None = None
    dropped: int | None = None
    dropped_lines: list[int] = []
    backup: str | None = None
    reason: str | None = None


READ_VERIFIED: Final = wire.reader(Verified)
READ_REPAIRED: Final = wire.reader(Repaired)
