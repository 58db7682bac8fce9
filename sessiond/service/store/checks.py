"""Checks of stored sessions, open or not, and the repair of a damaged one."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from sessiond.model.problems import Problem
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress


class Verification(Struct, frozen=True):
    """The result of a check of every line.

    `problems` are the first PROBLEMS_MAX of `problem_count`.
    """

    ok: bool
    dialect: str | None
    entries: int
    lines: int
    bytes: int
    problems: list[Problem]
    problem_count: int
    repairable: bool
    read_only: bool


class Repair(Struct, frozen=True):
    """A repair, done or planned: the lines kept and left out, and the backup of the old file.

    `dropped_lines` are the first PROBLEMS_MAX lines left out, counted from 1. `recovered` is the number
    of whole entries that stand on such lines and take their places, `reparented` that of entries whose
    parent the file lacks and that go on at the entry before, `moved` that of entries that go behind their
    parent. `reason` tells why there is nothing to do.
    """

    dry_run: bool
    repaired: bool
    problems: list[Problem]
    problem_count: int
    kept: int
    dropped: int
    dropped_lines: list[int]
    backup: str | None = None
    reason: str | None = None
    recovered: int = 0
    reparented: int = 0
    moved: int = 0


class Checks(Protocol):
    """Checks of sessions as they are stored."""

    def verify(
        self, session_id: str, opened: OpenSession | None, progress: Progress
    ) -> Verification:
        """Return the problems of a session's lines. Raises SessionNotFound, StorageError."""
        ...

    def plan_repair(
        self, session_id: str, opened: OpenSession | None, *, dry_run: bool, progress: Progress
    ) -> Repair:
        """Return what a repair would do.

        Raises SessionNotFound, SessionCorrupt, SessionReadOnly for another program's, StorageError.
        """
        ...

    def repair(self, session_id: str) -> Repair:
        """Store a session anew without its bad lines, under a new epoch. The session is closed.

        Raises SessionNotFound, SessionCorrupt if the session cannot be repaired, SessionLocked,
        StorageError.
        """
        ...
