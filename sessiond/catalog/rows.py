"""What a row says of one session, as plain values. Nothing here knows SQLite.

Law: the catalog understands only the columns that it filters and sorts by; what
lists show (`info`) and what was summed up so far (`summary`) are bytes to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

__all__ = [
    "NOTHING",
    "Brief",
    "Facts",
    "Fingerprint",
    "Found",
    "Known",
    "Mark",
    "Relative",
    "Shown",
    "Stored",
]


class Fingerprint(Struct, frozen=True):
    """What tells whether a file is still the one a row speaks of."""

    inode: int
    size: int
    mtime_ns: int


NOTHING = Fingerprint(0, 0, 0)


class Mark(Struct, frozen=True):
    """An epoch, and what it was seen with: a line, by its ordinal, all before it, and the file's inode.

    `seen_digest` is the SHA-256 of the line, where the line ends in the file, and the checksum of
    the file up to there; an older version noted the SHA-256 only.

    A line may stand in a copy that went on by itself; an inode is one file's. 0: it was not noted.
    """

    epoch: str
    seen_seq: int
    seen_digest: str
    seen_inode: int = 0


class Facts(Struct, frozen=True, kw_only=True):
    """What lists filter and sort by. Times are RFC 3339 UTC, "" where there is none."""

    cwd: str
    title: str | None
    agent: str | None
    status: str | None
    archived: bool
    draft: bool
    has_assistant: bool
    created_at: str
    updated_at: str
    message_count: int
    first_message: str | None
    tags: Sequence[str]
    parent_id: str | None
    parent_path: str | None


class Known(Struct, frozen=True):
    """What is noted of a session's file; `listed` says that the rest was read from it, too."""

    session_id: str
    path: str
    mark: Mark
    fingerprint: Fingerprint
    summary: bytes
    listed: bool


class Stored(Struct, frozen=True):
    """A row to store: a session as lists show it. A session in memory has no path."""

    session_id: str
    path: str | None
    mark: Mark
    fingerprint: Fingerprint
    facts: Facts
    summary: bytes
    info: bytes


class Shown(Struct, frozen=True):
    """What lists show of a session."""

    info: bytes
    draft: bool
    archived: bool
    has_assistant: bool


class Brief(Struct, frozen=True):
    """A session in a few words, for whoever has to choose among several."""

    session_id: str
    title: str | None
    cwd: str
    updated_at: str


class Found(Struct, frozen=True):
    """A session that was asked for, and what lists show of it."""

    brief: Brief
    info: bytes


class Relative(Struct, frozen=True):
    """A session and whom it says that it comes from."""

    session_id: str
    path: str
    parent_id: str | None
    parent_path: str | None
    title: str | None
    cwd: str
    archived: bool
    created_at: str
    updated_at: str
    message_count: int
