"""The rows of a database as a scan saw them, counted so that a row shows which changes without saying so.

Daemons remove no row, and count a row's version or seq up with each change. So the counts of the database are
those of the rows that were seen, and of the rows that say that they changed, until a person brings an earlier
state back, or removes rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from sessiond.catalog.rows import Stored
from sessiond.errors import StorageError
from sessiond.service.database.database import ChangedHeads, Head, SessionDatabase, Totals
from sessiond.service.database.scanning.rows import digest_in, is_in_database


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
    began: str
    """Time of the look."""
    stored: Mapping[str, _State]
    """The sessions that `meet` was told before the look, since the last scan."""


class _State(NamedTuple):
    """A session as lists show it: its seq, and a hash of the rest."""

    seq: int
    shown: int
    epoch: str = ""
    number: int = 0
    """Number of the row, where a row of the database has the state."""


_NOT_SHOWN: Final = 0
"""Hash of a session that lists do not show."""


def _to_be_shown(head: Head) -> _State:
    """Return the state that lists should show of a row of the database."""
    if head.is_deleted:
        # What this daemon has stored of the session is older.
        return _State(sys.maxsize, _NOT_SHOWN, number=head.number)
    is_draft, is_archived = head.place == "draft", head.place == "archived"
    shown = hash((head.epoch, head.digest.hex(), is_draft, is_archived))
    return _State(head.seq, shown, head.epoch, head.number)


def _shown_by(row: Stored) -> _State:
    """Return the state that a row of the lists shows."""
    mark, facts = row.mark, row.facts
    shown = hash((mark.epoch, digest_in(mark), facts.draft, facts.archived))
    return _State(mark.seen_seq, shown, mark.epoch)


class Census:
    """All rows of a database, by number, as the last scan saw them."""

    def __init__(self, database: SessionDatabase, now: Callable[[], str]) -> None:
        self._database = database
        self._now = now
        self.shown_at = ""
        """Time of the last look whose findings lists show; empty before the first one."""
        self.unanswered = 0
        """Number of looks that the database did not answer."""
        self._upto = 0
        self._rows: dict[int, _Row] = {}
        self._totals = Totals(0, 0, 0)
        self._states: dict[str, _State] = {}
        """The state of each session."""
        self._stored: dict[str, _State] = {}
        """The state of each session as this daemon has stored it for lists since the scan."""

    def meet(self, rows: Iterable[Stored], gone: Iterable[str]) -> list[Stored]:
        """Take note of what lists show from now on; return the rows that the database does not have."""
        others: list[Stored] = []
        for row in rows:
            if row.path is not None and is_in_database(row.path):
                self._stored[row.session_id] = _shown_by(row)
            else:
                others.append(row)
        for session_id in gone:
            self._stored[session_id] = _State(-1, _NOT_SHOWN)
        return others

    def shows_old_rows(self) -> bool:
        """Return whether lists may show sessions as they were before the scan.

        This daemon has then stored them behind the scan, as it had read them before.
        """
        return any(
            (now := self._states.get(session_id)) is not None
            and was.shown != now.shown
            # The seqs of two epochs say nothing about which one is older.
            and (was.seq <= now.seq or was.epoch != now.epoch)
            for session_id, was in list(self._stored.items())
        )

    def later(self) -> Seen:
        """Return the rows that say that they changed since the scan. Raises StorageError."""
        return self._look(self._upto, is_all=False)

    def all(self) -> Seen:
        """Return all rows. Raises StorageError."""
        return self._look(0, is_all=True)

    def _look(self, after: int, *, is_all: bool) -> Seen:
        """Look at rows. Raises StorageError."""
        # Before the question: of what is stored meanwhile the answer may know nothing.
        began, stored = self._now(), dict(self._stored)
        try:
            changes = self._database.changes(after)
        except StorageError:
            self.unanswered += 1
            raise
        return Seen(changes, is_all, began, stored)

    def are_current(self, seen: Seen) -> None:
        """Take note that lists show what a look has seen."""
        self.shown_at = max(self.shown_at, seen.began)

    def fits(self, later: Seen) -> bool:
        """Return whether no other row has changed since the scan, or is gone, and each has its id."""
        changes = later.changes
        if changes.upto < self._upto or self._with(changes.heads) != changes.totals:
            return False
        changed = {head.session_id for head in changes.heads}
        unchanged = (item for item in later.stored.items() if item[0] not in changed)
        if any(self._is_other(session_id, state) for session_id, state in unchanged):
            # Rows of lists that came from this daemon's own sessions, and that no scan has compared.
            return False
        before = ((self._rows.get(head.number), head.session_id) for head in changes.heads)
        return all(row is None or row.session_id == session_id for row, session_id in before)

    def _is_other(self, session_id: str, state: _State) -> bool:
        found = self._states.get(session_id)
        return state.shown != (_NOT_SHOWN if found is None else found.shown)

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
            self._rows, self._states, self._totals = {}, {}, Totals(0, 0, 0)
        self._totals = self._with(changes.heads)
        for head in changes.heads:
            self._rows[head.number] = _Row(head.session_id, head.version, head.seq)
            before = self._states.get(head.session_id)
            # A later session may have the id of one that is deleted.
            if before is None or before.number == head.number or not head.is_deleted:
                self._states[head.session_id] = _to_be_shown(head)
        self._upto = changes.upto
        self.are_current(seen)
        for session_id, state in seen.stored.items():
            # By identity: what was stored since the look may be an older state once more.
            if self._stored.get(session_id) is state:
                self._stored.pop(session_id, None)
