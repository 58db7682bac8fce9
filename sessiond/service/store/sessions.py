"""One session at a time: made, opened, moved, closed.

An `OpenSession` has its lines in a `SessionLog`, which is a port of its own (`journal/store.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from sessiond.catalog.rows import ListedFile
from sessiond.model.entries import Header
from sessiond.service.external.watcher import Changed, Watch
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.ports import Progress
from sessiond.service.store.lease_table import LeaseChange
from sessiond.service.store.roots import RootOfCopy


class Sessions(Protocol):
    """Sessions, each by its id."""

    # -- made ------------------------------------------------------------------------

    def create(self, header: Header, persist: Persist, root: str | None) -> OpenSession:
        """Return a new session; in a root, in the dialect of the root.

        Raises SessionExists, InvalidParams for a folder that is no root, StorageError.
        """
        ...

    def make(
        self,
        session_id: str,
        chunks: Iterable[Sequence[bytes]],
        root: RootOfCopy | None = None,
    ) -> OpenSession:
        """Store the lines of a copy as one session, all or none, and open the session; in a root as a file.

        Raises SessionExists, InvalidParams, TooLarge, StorageError, and what `chunks` raises.
        """
        ...

    def require_free(self, session_id: str) -> None:
        """Raise SessionExists for an id that a stored session has, StorageError."""
        ...

    # -- opened ----------------------------------------------------------------------

    def open(self, session_id: str, progress: Progress | None = None) -> OpenSession:
        """Open a stored session; `progress` is told of the bytes that are read.

        Raises SessionNotFound, SessionCorrupt, SessionLocked, StorageError.
        """
        ...

    def reopen(self, opened: OpenSession) -> OpenSession:
        """Open a session again whose log was replaced by another log, under a new epoch."""
        ...

    def place_of(self, opened: OpenSession) -> Path | None:
        """Return the path at which a scan has found an open session, if that is another path. Waits for nothing."""
        ...

    def settle(self, opened: OpenSession) -> None:
        """Make the last entries durable before the log is closed; a failure is not told."""
        ...

    def watch(self, opened: OpenSession, changed: Changed) -> Watch:
        """Call `changed` for each change of an open session by another writer. Waits for nothing.

        `run` of the store delivers the notices. They say only that a look may find something.
        """
        ...

    def promote(
        self,
        opened: OpenSession,
        wanted: Persist,
        lines: Sequence[bytes],
        *,
        late: bool,
        leases: Sequence[LeaseChange] = (),
    ) -> None:
        """Bring a session to this level, with more lines; `late` as in `SessionLog.append`.

        `leases` put the leases on a session in memory to where the session comes, in the same step.
        Raises SessionExists, StorageError, Overtaken, Replaced; nothing has changed then.
        """
        ...

    # -- found -----------------------------------------------------------------------

    def has(self, session_id: str) -> bool:
        """Return whether a session of this id is stored, listed or not. Raises StorageError."""
        ...

    def find_entry(
        self, entry_id: str, listed: Iterable[ListedFile], besides: Collection[str]
    ) -> str | None:
        """Return the session that has the entry, latest begun first; None without one.

        `listed` are sessions that lists show, with their paths. Sessions in `besides` are not read.
        """
        ...

    # -- the archive -----------------------------------------------------------------

    def archive(self, opened: OpenSession) -> None:
        """Move an open session into the archive. Safe to repeat.

        Raises InvalidParams for a session that is not this store's, SessionReadOnly, StorageError, Replaced.
        """
        ...

    def unarchive(self, opened: OpenSession) -> None:
        """Move an open session back among the sessions. Safe to repeat. Raises StorageError, Replaced.

        The session counts as written just now, so that a retention does not take the session at once.
        """
        ...

    # -- age -------------------------------------------------------------------------

    def now(self) -> float:
        """Return the seconds since 1970 by the store's clock, on which `written_at` is based."""
        ...

    def written_at(self, session_id: str) -> int:
        """Return when a session was written last, in nanoseconds since 1970.

        Raises SessionNotFound, StorageError.
        """
        ...
