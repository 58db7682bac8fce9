"""The rows of a database as a scan saw them, counted so that a row shows which changes without saying so.

Daemons remove no row, and count a row's version or seq up with each change. So the counts of the database are
those of the rows that were seen, and of the rows that say that they changed, until a person brings an earlier
state back, or removes rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from sessiond.catalog.rows import Stored
from sessiond.errors import StorageError
from sessiond.service.database.database import ChangedHeads, Head, SessionDatabase, Totals
from sessiond.service.database.scanning.rows import is_in_database

__all__ = ["Census", "Seen"]


class _Row(NamedTuple):
    """A row as it was seen."""

    session_id: str
    version: int
    seq: int


class Seen(NamedTuple):
    """Rows of the database that a look has found."""

    changes: ChangedHeads
    is_all: bool
    """True if these are all rows."""
    stored: Mapping[str, int]
    """The sessions that `meet` was told before the look, since the last scan."""
    look: int
    """Number of the look; later looks have higher numbers."""


class Census:
    """All rows of a database, by number, as the last scan saw them."""

    def __init__(self, database: SessionDatabase, now: Callable[[], str]) -> None:
        self._database = database
        self._now = now
        self.stale_since: str | None = None
        """Time of the first look that the database did not answer, until lists are current again."""
        self._upto = 0
        self._rows: dict[int, _Row] = {}
        self._totals = Totals(0, 0, 0)
        self._seqs: dict[str, int] = {}
        """The seq of each session that was there."""
        self._stored: dict[str, int] = {}
        """The seq of each session of which this daemon has stored a row for lists since the scan."""
        self._looks = count(1)
        self._failed_look = 0
        """Number of the last look that the database did not answer."""

    def meet(self, rows: Iterable[Stored]) -> list[Stored]:
        """Take note of rows that lists show from now on; return those that the database does not have."""
        others: list[Stored] = []
        for row in rows:
            if row.path is not None and is_in_database(row.path):
                self._stored[row.session_id] = row.mark.seen_seq
            else:
                others.append(row)
        return others

    def later(self) -> Seen:
        """Return the rows that say that they changed since the scan. Raises StorageError."""
        return self._look(self._upto, is_all=False)

    def all(self) -> Seen:
        """Return all rows. Raises StorageError."""
        return self._look(0, is_all=True)

    def _look(self, after: int, *, is_all: bool) -> Seen:
        """Look at rows. Raises StorageError, from when on lists may be old."""
        # Before the question: of what is stored meanwhile the answer may know nothing.
        stored, look = dict(self._stored), next(self._looks)
        try:
            changes = self._database.changes(after)
        except StorageError:
            self._failed_look = max(self._failed_look, look)
            self.stale_since = self.stale_since or self._now()
            raise
        return Seen(changes, is_all, stored, look)

    def are_current(self, seen: Seen) -> None:
        """Take note that lists show what a look has seen."""
        # What a later look would have seen is not known, if that one failed.
        if seen.look > self._failed_look:
            self.stale_since = None

    def fits(self, later: Seen) -> bool:
        """Return whether no other row has changed since the scan, or is gone, and each has its id."""
        changes = later.changes
        if changes.upto < self._upto or self._with(changes.heads) != changes.totals:
            return False
        changed = {head.session_id for head in changes.heads}
        unchanged = (item for item in later.stored.items() if item[0] not in changed)
        if any(self._seqs.get(session_id, -1) < seq for session_id, seq in unchanged):
            # Rows of lists that came from this daemon's own sessions, and that no scan has compared.
            return False
        before = ((self._rows.get(head.number), head.session_id) for head in changes.heads)
        return all(row is None or row.session_id == session_id for row, session_id in before)

    def _with(self, heads: Iterable[Head]) -> Totals:
        """Return the totals behind these changes."""
        rows, versions, seqs = self._totals
        for head in heads:
            before = self._rows.get(head.number)
            rows += before is None
            versions += head.version - (0 if before is None else before.version)
            seqs += head.seq - (0 if before is None else before.seq)
        return Totals(rows, versions, seqs)

    def take(self, seen: Seen) -> None:
        """Take in what a scan has seen."""
        changes = seen.changes
        if seen.is_all:
            self._rows, self._seqs, self._totals = {}, {}, Totals(0, 0, 0)
        self._totals = self._with(changes.heads)
        for head in changes.heads:
            self._rows[head.number] = _Row(head.session_id, head.version, head.seq)
            if not head.is_deleted:
                self._seqs[head.session_id] = head.seq
        self._upto = changes.upto
        self.are_current(seen)
        for session_id, seq in seen.stored.items():
            if self._stored.get(session_id) == seq:
                self._stored.pop(session_id, None)
