"""What looking for sessions, and after their files, answers. As lenient as `results`."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from sessiond_client import wire
from sessiond_client.results import Reader, SessionInfo

__all__ = [
    "READ_FOREST",
    "READ_HITS",
    "READ_REPAIRED",
    "READ_RETIRED",
    "READ_TRASH",
    "READ_VERIFIED",
    "Failed",
    "Forest",
    "ForestNode",
    "Hit",
    "Hits",
    "Problem",
    "Repaired",
    "Retired",
    "TrashPage",
    "Trashed",
    "Verified",
]


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


class Failed(Struct, frozen=True):
    """A session that should have gone and is where it was."""

    session_id: str
    kind: str
    message: str = ""


class Retired(Struct, frozen=True):
    """The sessions that went to the trash, or would."""

    sessions: list[SessionInfo]
    failed: list[Failed] = []
    dry_run: bool = True


class Trashed(Struct, frozen=True):
    """A deleted session; `origin` is where a restore puts it, None if nothing says that."""

    session_id: str
    path: str
    title: str | None = None
    cwd: str | None = None
    origin: str | None = None
    bytes: int = 0


class TrashPage(Struct, frozen=True):
    """A page of deleted sessions."""

    sessions: list[Trashed]
    next_cursor: str | None = None


class Hit(Struct, frozen=True):
    """A place where it was said; without `entry_id` it is the session's header."""

    session_id: str
    entry_id: str | None
    seq: int
    snippet: str = ""


class ForestNode(Struct, frozen=True):
    """A session's place among those that come from each other."""

    session_id: str
    parent_id: str | None = None
    depth: int = 0
    children: int = 0
    orphan: bool = False
    title: str | None = None
    cwd: str | None = None
    archived: bool = False
    created_at: str | None = None
    updated_at: str | None = None
    message_count: int | None = None


class Forest(Struct, frozen=True):
    """The sessions by descent, in the form that was asked for."""

    nodes: list[ForestNode] = []
    text: str | None = None


class _Hits(Struct, frozen=True):
    hits: list[Hit]


Hits = list[Hit]
_READ_HITS: Final = wire.reader(_Hits)


def _hits(answer: Raw) -> Hits:
    return _READ_HITS(answer).hits


READ_FOREST: Final = wire.reader(Forest)
READ_HITS: Final[Reader[Hits]] = _hits
READ_RETIRED: Final = wire.reader(Retired)
READ_TRASH: Final = wire.reader(TrashPage)
READ_VERIFIED: Final = wire.reader(Verified)
READ_REPAIRED: Final = wire.reader(Repaired)
