"""Deleted sessions: kept in the trash until they are restored or purged."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from sessiond.catalog.rows import Known
from sessiond.service.log.open_session import OpenSession


class TrashedSession(Struct, frozen=True):
    """Session in the trash. `origin` is where a restore puts its file; null if unknown."""

    session_id: str
    title: str | None
    cwd: str | None
    path: str
    origin: str | None
    bytes: int


class TrashResult(Struct, frozen=True):
    """Page of deleted sessions, those created last first."""

    sessions: list[TrashedSession]
    next_cursor: str | None


class Trash(Protocol):
    """The way of a session into the trash, back, and out of the store."""

    def discard(self, session_id: str, opened: OpenSession | None) -> None:
        """Move a session, closed by now, to the trash. Safe to repeat.

        Raises SessionNotFound if there never was one, SessionReadOnly, SessionCorrupt, SessionLocked,
        StorageError.
        """
        ...

    def discard_unused(self, session_id: str, opened: OpenSession | None, before_ns: int) -> bool:
        """Move a session as `discard` does, unless it was written to since a time; return whether it went.

        The time is in nanoseconds since 1970, by the store's clock. A session that another daemon has
        open stays, too.
        """
        ...

    def open_elsewhere(self) -> Collection[str]:
        """Return the ids of the sessions that other daemons have open. Raises StorageError."""
        ...

    def restore(self, session_id: str) -> None:
        """Bring a deleted session back. Raises SessionExists, SessionNotFound, StorageError."""
        ...

    def trashed(self, limit: int, cursor: str | None) -> TrashResult:
        """Return a page of the trash. Raises StorageError."""
        ...

    def purge(self, session_id: str) -> Known | None:
        """Remove a deleted session and its words for good; return its record for `erase`.

        Raises SessionExists for a session that is not deleted, SessionNotFound, StorageError.
        """
        ...

    def erase(self, session_id: str, purged: Known | None) -> None:
        """Erase what lists know of a purged session. Raises StorageError."""
        ...

    def purged(self, session_id: str) -> None:
        """Record that all of a purged session is gone, so that no later purge looks for more."""
        ...
