"""All sessions at once: rows for lists, scans for changes, texts for searches.

The catalog and the search index are files on the daemon's machine, and never the truth: a scan brings
both up to what the store has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import Hit, Indexed, Text, TextIndex
from sessiond.catalog.query import Query
from sessiond.catalog.rows import Known, Mark, Stored
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.ports import Progress

Report = Callable[[int, int], None]
"""Called with how many sessions are read, of how many."""
Behind = Mapping[str, object]
"""Sessions by id, each with what a scan found."""
StoreRead = Callable[[list[tuple[Stored, Mark | None]], list[str]], list[Stored]]
"""Stores rows that a scan read, and unlists sessions, in one transaction, and tells; returns the stored rows.

A row comes with the mark that the catalog had before the read.
"""


class Snapshot(Struct, frozen=True):
    """An open session as it was at one moment, to be stored later."""

    opened: OpenSession
    info: SessionInfo
    has_assistant: bool
    position: object
    """The row of the last line, where the store is shared; the log may have later lines already."""


def snapshot(opened: OpenSession) -> Snapshot:
    """Return the session's current state. Called on the loop, where nothing changes meanwhile."""
    info = opened.info(reads=False)
    return Snapshot(opened, info, opened.session.has_assistant, opened.journal.position)


class Unreadable(Struct, frozen=True):
    """A file in a folder of sessions that is no session."""

    path: str
    reason: str


class Whereabouts(Struct, frozen=True):
    """The place of a stored session: whether another agent writes its file, and its root, if any.

    `outputs` is false if the outputs of tools in it are not searched.
    """

    is_agents: bool
    root: str | None
    outputs: bool = True


class SampledSession(Struct, frozen=True):
    """A session of which lists show the figures of a part of its file, and the moment when it is due to be read whole."""

    session_id: str
    due: float
    mtime_ns: int


class TextsChanged(Exception):
    """Signal that the lines are not those that were recorded; the next scan finds out why."""


class Scanner(Protocol):
    """The comparison of what is stored with the catalog. One thread at a time scans."""

    @property
    def is_behind(self) -> bool:
        """True if rows were lost, or never existed, since the last scan."""
        ...

    @property
    def has_roots(self) -> bool:
        """Return whether sessions may lie in folders of other programs."""
        ...

    def roots_have_changed(self) -> bool:
        """Return whether a root may have files that no look has found yet. Blocking."""
        ...

    @property
    def has_other_roots(self) -> bool:
        """True if roots were added or removed since the last scan."""
        ...

    @property
    def must_be_polled(self) -> bool:
        """True if changes are found by looking alone, so that watchers need a look now and then."""
        ...

    @property
    def unanswered(self) -> int:
        """Number of looks that the store did not answer: what lists show behind such a look may be old."""
        ...

    @property
    def shown_at(self) -> str:
        """Time of the last look whose findings lists show; empty before the first one."""
        ...

    @property
    def unread_ns(self) -> int | None:
        """Time of a scan under way: no file that the scan has still to read was written behind it. None if unknown."""
        ...

    def watched(self) -> None:
        """Take note that a connection watches lists from now on. Called on the loop."""
        ...

    def is_due(self) -> bool:
        """Return whether a list has to wait for a scan. Blocking."""
        ...

    def expect(self, session_id: str) -> None:
        """Record a change of a session as a whole: the next scan looks at the session too."""
        ...

    def meet(self, rows: Iterable[Stored], gone: Collection[str]) -> None:
        """Take note of rows that were stored, and of sessions that left the lists."""
        ...

    def forget(self, session_id: str) -> None:
        """Forget a session that is in no list any more."""
        ...

    def take_roots(self) -> None:
        """Let the next scan list the roots that there are now. Called on the loop."""
        ...

    def behind(self) -> Behind:
        """Return the open sessions that lists do not show at the position that a scan found."""
        ...

    def caught_up(self, sessions: Behind) -> None:
        """Take note that lists show sessions that were behind. Waits for nothing."""
        ...

    def miss(self, sessions: Iterable[str]) -> None:
        """Take note that rows of open sessions were not stored, since their logs were closed.

        What an earlier look has brought to such a session is in no list.
        """
        ...

    def shows_old_rows(self) -> bool:
        """Return whether lists still do not show a session as a scan found its row. Blocking."""
        ...

    def prepare(self) -> None:
        """Make ready for `run`. Called on the loop."""
        ...

    def run(self, store: StoreRead, report: Report) -> None:
        """Look, and store the changes in the catalog. Blocking. Raises StorageError."""
        ...

    def unreadable(self, *, drafts: bool, archived: bool | None) -> list[Unreadable]:
        """Return what is no session, of the places that a list shows."""
        ...

    def next_part(self, done: Collection[str]) -> tuple[SampledSession | None, int]:
        """Return the session to be read whole next, but for those `done`, and how many there are. Blocking."""
        ...

    def read_whole(
        self, part: SampledSession, progress: Progress, *, soon: bool
    ) -> tuple[Stored, Mark | None] | None:
        """Return the row of a session whose whole file was read, and the mark recorded before; or None.

        The session is no part any more, unless its file was just written to and need not be read `soon`.
        Blocking.
        """
        ...


class Listed(Protocol):
    """The stored sessions as lists and searches need them."""

    @property
    def catalog(self) -> Catalog:
        """Index of all sessions."""
        ...

    @property
    def texts(self) -> TextIndex:
        """Index of what was said."""
        ...

    def scanner(self, has_open: Callable[[str], bool]) -> Scanner:
        """Return the scanner of the catalog. Waits for nothing.

        `has_open` tells in any thread whether a session is open or closing: its row is not the
        scanner's.
        """
        ...

    def require_there(self) -> None:
        """Raise StorageError if no session can be found or made, since the place of all is gone."""
        ...

    def row(self, seen: Snapshot) -> Stored | None:
        """Return the row of an open session.

        None if its log was closed meanwhile: the log that follows, or else a scan, tells of the session.
        """
        ...

    def note(self, opened: OpenSession) -> None:
        """Record under which epoch an open session is served."""
        ...

    def older(self, before_ns: int) -> Query:
        """Return the query of the store's own sessions in their places, written before a time."""
        ...

    def with_activity(self, sessions: list[bytes]) -> list[bytes]:
        """Return rows of a list, with `running` in those whose program runs on this machine."""
        ...

    def whereabouts(self, known: Known) -> Whereabouts:
        """Return the place of a stored session."""
        ...

    def texts_behind(
        self, known: Known, indexed: Indexed | None
    ) -> Iterator[tuple[Indexed, list[Text]]]:
        """Yield the texts of a session's lines behind `indexed`, in batches, up to the recorded line.

        Raises TextsChanged, StorageError.
        """
        ...

    def check_hits(self, known: Known, hits: Sequence[Hit]) -> list[bool | None]:
        """Return whether the words of each hit are still in the session; None if that cannot be seen now.

        Raises StorageError, SessionCorrupt.
        """
        ...
