"""Folders and files on the daemon's machine that are not the store's own.

With any store a root is a folder of the machine on which the daemon runs, and so is a file that a
client opens by its path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from sessiond.journal.store import SessionLog
from sessiond.model.formats import FormatName
from sessiond.service.log.open_session import OpenSession

ShownAt = Callable[[Path], bool | None]
"""Tells whether lists show a file outside the profile; None for a file whose place in lists stays."""


class RootInfo(Struct, frozen=True, kw_only=True):
    """A folder of session files: a root, or a folder that could be one (`added` false)."""

    path: str
    kind: str
    sessions: int | None
    """Number of files that may be sessions; None where a database is no root, so is not opened."""
    bytes: int
    added: bool
    configured: bool
    reason: str | None
    indexed_chars: int
    """Number of characters of its sessions that a search finds; 0 before the first search."""
    index_full: bool
    """True if sessions are left out of searches, because newer sessions have ROOT_TEXT_CHARS_MAX."""
    outputs: bool
    """False if the outputs of tools in its sessions are not searched."""


class RootOfCopy(Struct, frozen=True):
    """The root in which a copy is made: its path, its dialect, and the source's folder if the copy stays there."""

    path: str
    kind: FormatName
    folder: Path | None


class RootList(Protocol):
    """The roots of one profile, one change at a time."""

    async def look(self) -> list[RootInfo]:
        """Return the roots, and the folders of known programs that are none."""
        ...

    async def add(self, path: str, kind: str | None, *, outputs: bool | None) -> list[RootInfo]:
        """Add a folder, or change whether its `outputs` are searched; return what `look` returns.

        Raises InvalidParams, StorageError.
        """
        ...

    async def remove(self, path: str) -> list[RootInfo]:
        """Remove a root; return what `look` returns. Raises InvalidParams, StorageError."""
        ...

    async def configure(
        self, folders: Mapping[str, Sequence[str]], no_outputs: Sequence[str]
    ) -> None:
        """Take over the roots of another configuration, by kind, and those of which no outputs are searched."""
        ...


class Elsewhere(Protocol):
    """Files and roots outside the store's own sessions."""

    def root_list(self, on_change: Callable[[ShownAt], Awaitable[None]]) -> RootList:
        """Return the roots. `on_change` is awaited after a change. Waits for nothing."""
        ...

    def folder_of(self, path: str) -> str:
        """Return the folder that lists know by this path; a root may be named in any spelling."""
        ...

    def root_of_copy(
        self, source: OpenSession, named: str | None, dialect: str, *, stays: bool
    ) -> RootOfCopy | None:
        """Return the named root, else the one of the source, if a file of the dialect may be made there.

        None for the store's own sessions. `stays` tells that the copy is of the source's project. Raises
        InvalidParams, StorageError.
        """
        ...

    def identify(self, path: Path, is_open: Mapping[str, Path]) -> str:
        """Return the session id of a file anywhere. Raises SessionCorrupt, StorageError.

        `is_open` has the files outside the profile that are open, by session id.
        """
        ...

    def forget(self, session_id: str) -> None:
        """Remove what is kept of a session outside the profile, but for its row in lists.

        Raises InvalidParams for a session of the profile, SessionNotFound, StorageError.
        """
        ...

    def spooled(self) -> SessionLog:
        """Return an empty log for a session in the making; its maker closes the log. Raises StorageError."""
        ...

    def write_new(self, path: Path, pieces: Iterable[bytes]) -> None:
        """Write a new file of these bytes, private and durable. Raises StorageError (EEXIST)."""
        ...
