"""The values of one session's row, independent of SQLite.

Law: the catalog understands only the columns that it filters and sorts by. The object
that lists show (`info`) is opaque bytes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct


class Fingerprint(Struct, frozen=True):
    """The identity of a file, which shows whether a row is stale."""

    inode: int
    size: int
    mtime_ns: int


NOTHING = Fingerprint(0, 0, 0)


PART: Final = "part "
UNSEEN: Final = "unseen"
# A digest, an offset and a checksum.
_SEEN_WORDS: Final = 3


class Mark(Struct, frozen=True):
    """An epoch with the evidence of its file: a line, the bytes up to that line, and the inode.

    `seen_seq` is the ordinal of the line. `seen_digest` has the SHA-256 of the line, the offset
    where the line ends, and the checksum of the file up to there; an older version recorded the
    SHA-256 only.

    The inode is needed because a copy of the file has the line too and may have grown on its own.
    `seen_inode` 0 means that the inode was not recorded.

    Since a list has read a part of the file, the file may go on behind the line: `seen_digest` begins with PART
    then, or it is UNSEEN, where no client has seen a line yet.
    """

    epoch: str
    seen_seq: int
    seen_digest: str
    seen_inode: int = 0

    @property
    def is_part(self) -> bool:
        """True if the file may go on behind the line, since a list has read a part of the file."""
        return self.seen_digest.startswith((PART, UNSEEN))

    @property
    def end(self) -> int | None:
        """Offset in the file where the line ends; None where it was not recorded."""
        words = self.seen_digest.split(" ")
        return int(words[1]) if len(words) == _SEEN_WORDS and words[1].isdecimal() else None


class Facts(Struct, frozen=True, kw_only=True):
    """The columns that lists filter and sort by. Times are RFC 3339 UTC, or "" if unknown."""

    cwd: str
    title: str | None
    agent: str | None
    status: str | None
    program: str
    archived: bool
    draft: bool
    subagent: bool
    has_assistant: bool
    created_at: str
    updated_at: str
    message_count: int
    first_message: str | None
    tags: Sequence[str]
    parent_id: str | None
    parent_path: str | None


class Known(Struct, frozen=True):
    """The record of a session's file; `listed` says whether the list columns were read, too."""

    session_id: str
    path: str
    mark: Mark
    fingerprint: Fingerprint
    listed: bool

    @property
    def is_file(self) -> bool:
        """True if the session is a file, whose path is absolute."""
        return self.path.startswith("/")

    @property
    def end(self) -> int:
        """Number that grows with another agent's file; a row of a database has a time alone."""
        return self.fingerprint.size or self.fingerprint.mtime_ns


class Records:
    """The records of all files as they were at one moment, for many questions."""

    def __init__(self, known: Iterable[Known]) -> None:
        self._by_id: dict[str, Known] = {}
        self._at: dict[str, list[Known]] = {}
        for one in sorted(known, key=lambda one: (not one.listed, one.session_id)):
            self._by_id[one.session_id] = one
            self._at.setdefault(one.path, []).append(one)

    def known(self, session_id: str) -> Known | None:
        """Return the record of a session's file; None if there is none."""
        return self._by_id.get(session_id)

    def related(self, path: str, ids: Iterable[str]) -> list[Known]:
        """Return the records of the file at a path, those that lists show first, and of the sessions `ids`."""
        at_path = self._at.get(path, [])
        by_id = (self._by_id.get(session_id) for session_id in ids)
        return at_path + [one for one in by_id if one is not None and one.path != path]


class ListedFile(Struct, frozen=True):
    """The file of a session that lists show, and the time when the session began."""

    session_id: str
    path: str
    created_at: str


class Stored(Struct, frozen=True):
    """A row to store. A session in memory has no path."""

    session_id: str
    path: str | None
    mark: Mark
    fingerprint: Fingerprint
    facts: Facts
    info: bytes
    is_part: bool = False
    """True if the figures are those of a part of the file."""


class Shown(Struct, frozen=True):
    """The part of a row that lists show."""

    info: bytes
    draft: bool
    archived: bool
    has_assistant: bool


class Brief(Struct, frozen=True):
    """A short description of a session, for a choice among several sessions."""

    session_id: str
    title: str | None
    cwd: str
    updated_at: str


class FoundSession(Struct, frozen=True):
    """A session that a ref means, and what lists show of the session."""

    brief: Brief
    info: bytes


class Relative(Struct, frozen=True):
    """A session and the parent that its header names."""

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
    is_part: bool
    """True if the number of messages is that of a part of the file."""
    first_message: str | None = None
