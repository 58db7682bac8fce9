"""Rows of a database that have changed, into the catalog, beside a scan of the machine's own folders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct, field

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.rows import Known, Mark, Stored
from sessiond.errors import SessiondError, StorageError
from sessiond.model.ids import is_session_id
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.scanning.census import Census, Seen
from sessiond.service.database.scanning.rows import IN_DATABASE, is_at, is_in_database
from sessiond.service.database.watching import DatabaseWatches
from sessiond.service.files.scanning.batches import Read, for_many, store_in_batches
from sessiond.service.store.listed import Behind, Report, Scanner, StoreRead, Unreadable
from sessiond.visible import printable

ReadRow = Callable[[Head], Stored]
_State = tuple[int, int, bytes]
_NO_ID = "the row has no session id: correct session_id, or mark the row is_deleted"


class _Behind:
    """An open session that lists do not show as a scan found its row."""

    def __init__(self, head: Head | None) -> None:
        self.head = head
        """The row; None if the session has none."""


class _Scan(Struct):
    """Findings of one scan, none of which counts before the catalog has the rows."""

    heads: Collection[Head]
    """Rows to compare."""
    gone: list[str]
    """Sessions that leave the lists."""
    later: dict[str, Head] = field(default_factory=dict[str, Head])
    """Sessions whose rows are left to their own daemon, or to a later scan."""
    settled: dict[str, object] = field(default_factory=dict[str, object])
    """Sessions that were behind, and are not any more."""


class DatabaseScanner:
    """The state of the rows when they were looked at last, and the scanner of the folders."""

    unread_ns = None

    def __init__(  # noqa: PLR0913 - what is compared, and who is told
        self,
        database: SessionDatabase,
        catalog: Catalog,
        read: ReadRow,
        has_open: Callable[[str], bool],
        folders: Scanner,
        now: Callable[[], str],
        *,
        watches: DatabaseWatches,
        purged: Callable[[str], None],
    ) -> None:
        """Take the function that reads the row for lists of a session that is not open.

        `watches` are those of the open sessions; `purged` erases the words of a session that is in no
        list, and raises StorageError while that is not possible.
        """
        self._catalog = catalog
        self._read = read
        self._has_open = has_open
        self._folders = folders
        self._generation = -1
        self._seen: dict[int, _State] = {}
        """Version, seq and digest of the rows of the last scan, which may come again without a change."""
        self._census = Census(database, now)
        self._later: dict[str, Head] = {}
        """Sessions that were open when they changed: their own daemon, or a later scan, has the row."""
        self._behind: dict[str, _Behind] = {}
        """Open sessions that lists did not show as a scan found their rows."""
        self._unreadable: dict[str, str] = {}
        self._purged: set[str] = set()
        """Purged sessions whose words this daemon may still have."""
        self._erase = purged
        self.expect = folders.expect
        self.forget = folders.forget
        self.take_roots = folders.take_roots
        self.prepare = folders.prepare
        self.next_part = folders.next_part
        self.read_whole = folders.read_whole
        self.watched = watches.wake

    @property
    def is_behind(self) -> bool:
        """True if rows were lost, or never existed, since the last scan."""
        return self._folders.is_behind or self._is_anew

    @property
    def _is_anew(self) -> bool:
        """True if the catalog has lost what it had of the rows, or never had anything."""
        return self._catalog.file.generation != self._generation

    @property
    def unanswered(self) -> int:
        """Number of looks that the database did not answer."""
        return self._census.unanswered

    @property
    def shown_at(self) -> str:
        """Time of the last look whose findings lists show; empty before the first one."""
        return self._census.shown_at

    @property
    def has_roots(self) -> bool:
        """Return whether sessions may lie in folders of other programs."""
        return self._folders.has_roots

    def roots_have_changed(self) -> bool:
        """Return whether a root may have files that no look has found yet. Blocking."""
        return self._folders.roots_have_changed()

    @property
    def has_other_roots(self) -> bool:
        """True if roots were added or removed since the last scan."""
        return self._folders.has_other_roots

    @property
    def must_be_polled(self) -> bool:
        """True if the folders must be polled; the watches of the database tell of rows."""
        return self._folders.must_be_polled

    def is_due(self) -> bool:
        """Return whether a list has to wait for a scan."""
        if self._folders.is_due() or self.is_behind:
            return True
        if any(not self._has_open(session_id) for session_id in self._later):
            return True
        try:
            later = self._census.later()
        except StorageError:
            return False
        if not (self._census.fits(later) and all(map(self._is_seen, later.changes.heads))):
            return True
        # Behind the look: a scan meanwhile may have found rows that lists do not show yet.
        if self.shows_old_rows():
            return True
        self._census.are_current(later)
        return False

    def _is_seen(self, head: Head) -> bool:
        return self._seen.get(head.number) == _state_of(head)

    def _look(self) -> tuple[Seen, list[str]]:
        """Return the rows with later changes, or all rows and the sessions that may be gone.

        All rows come where rows changed, or were removed, that do not say so. Raises StorageError.
        """
        if not self._is_anew:
            later = self._census.later()
            if self._census.fits(later):
                return later, []
        # Before the question: what is stored meanwhile is not taken for gone.
        listed = [known.session_id for known in self._catalog.below(IN_DATABASE)]
        return self._census.all(), [*listed, *self._unreadable]

    def behind(self) -> Behind:
        """Return the open sessions that lists do not show as their rows are."""
        return {**self._folders.behind(), **self._behind}

    def caught_up(self, sessions: Behind) -> None:
        """Take note that lists show sessions that were behind."""
        for session_id, behind in sessions.items():
            # A later scan may have found the session behind once more.
            if self._behind.get(session_id) is behind:
                self._behind.pop(session_id, None)

    def miss(self, sessions: Iterable[str]) -> None:
        """Take note that rows of open sessions were not stored, since their logs were closed."""
        for session_id in sessions:
            behind = self._behind.get(session_id)
            if behind is not None:
                self._behind[session_id] = _Behind(behind.head)

    def shows_old_rows(self) -> bool:
        """Return whether lists still do not show a session as a scan found its row."""
        for session_id, behind in list(self._behind.items()):
            if behind.head is None:
                is_over = not self._has_open(session_id)
            else:
                is_over = self._is_current(behind.head, self._catalog.known(session_id))
            if is_over:
                self.caught_up({session_id: behind})
        return bool(self._behind) or self._census.shows_old_rows()

    def meet(self, rows: Iterable[Stored], gone: Collection[str]) -> None:
        """Take note of rows that were stored, and of sessions that left the lists."""
        self._folders.meet(self._census.meet(rows, gone), gone)

    def unreadable(self, *, drafts: bool, archived: bool | None) -> list[Unreadable]:
        """Return what is no session, of the places that a list shows."""
        found = [Unreadable(printable(name), why) for name, why in sorted(self._unreadable.items())]
        return found + self._folders.unreadable(drafts=drafts, archived=archived)

    def run(self, store: StoreRead, report: Report) -> None:
        """Look, and store the changes in the catalog. Raises StorageError.

        While the database is away, the catalog keeps what it has of the database.
        """
        self._folders.run(store, report)
        generation = self._catalog.file.generation
        try:
            seen, listed = self._look()
        except StorageError:
            if self._is_anew:
                raise
            return
        changes, before = seen.changes, () if seen.is_all else self._later.values()
        heads = {head.number: head for head in (*before, *changes.heads)}
        gone = self._gone(listed, changes.heads) if seen.is_all else []
        scan = _Scan(heads.values(), gone)
        try:
            store_in_batches(
                self._readings(scan),
                gone,
                lambda rows, left: self._put(rows, left, store, scan),
                for_many(report, len(heads)),
            )
        except BaseException:
            self._later |= scan.later
            raise
        self._later = scan.later
        self.caught_up(scan.settled)
        self._erase_purged()
        self._generation = generation
        self._seen = {head.number: _state_of(head) for head in changes.heads}
        self._census.take(seen)

    def _gone(self, listed: Iterable[str], heads: Iterable[Head]) -> list[str]:
        """Return the sessions that lists show, and that none of all rows is.

        Their rows were removed or renamed, or are younger than the state that was brought back.
        """
        gone: list[str] = []
        missing = {*listed, *self._behind} - {one.session_id for one in heads if not one.is_deleted}
        # Their actors find no row, and close the sessions.
        self._behind |= {session_id: _Behind(None) for session_id in missing}
        for session_id in missing:
            self._unreadable.pop(session_id, None)
            known = self._catalog.known(session_id)
            if known is not None and known.listed and is_in_database(known.path):
                gone.append(session_id)
        return gone

    def _readings(self, scan: _Scan) -> Iterator[Read | None]:
        """Yield the new row of each session that needs one, with the mark recorded before."""
        alive = {head.session_id for head in scan.heads if not head.is_deleted}
        for head in scan.heads:
            known = self._catalog.known(head.session_id)
            is_open = self._has_open(head.session_id)
            behind = self._behind.get(head.session_id)
            if behind is not None and _is_settled(behind, head, is_open=is_open):
                scan.settled[head.session_id] = behind
            if head.is_deleted:
                if known is not None and known.listed and head.session_id not in alive:
                    scan.gone.append(head.session_id)
                if known is not None and head.seq < 0:
                    self._purged.add(head.session_id)
                self._unreadable.pop(head.session_id, None)
                yield None
            elif not is_session_id(head.session_id):
                self._unreadable[head.session_id] = _NO_ID
                yield None
            elif is_open:
                scan.later[head.session_id] = head
                self._leave(head, known)
                yield None
            elif self._is_current(head, known):
                yield None
            else:
                yield self._row(head, None if known is None else known.mark, scan.gone)

    def _leave(self, head: Head, known: Known | None) -> None:
        """Leave the row of an open session to its actor, which may not have seen this one."""
        behind = self._behind.get(head.session_id)
        if self._is_current(head, known):
            self._behind.pop(head.session_id, None)
        elif behind is None or behind.head is not head:
            self._behind[head.session_id] = _Behind(head)

    def _is_current(self, head: Head, known: Known | None) -> bool:
        if known is None or not known.listed or not is_at(known.mark, head):
            return False
        shown = self._catalog.shown(head.session_id)
        if shown is None:
            return False
        return (shown.draft, shown.archived) == (head.place == "draft", head.place == "archived")

    def _row(self, head: Head, mark: Mark | None, gone: list[str]) -> Read | None:
        self._unreadable.pop(head.session_id, None)
        try:
            return self._read(head), mark
        except StorageError:
            raise
        except SessiondError as error:
            self._unreadable[head.session_id] = str(error)
            if mark is not None:
                gone.append(head.session_id)
            return None

    def _erase_purged(self) -> None:
        """Erase the words of sessions that were purged, here or at another daemon."""
        for session_id in list(self._purged):
            known = self._catalog.known(session_id)
            # A later session may have the id.
            if known is not None and not known.listed and not self._has_open(session_id):
                try:
                    self._erase(session_id)
                except StorageError:
                    # Another process reads the files: the next scan tries again.
                    continue
            self._purged.discard(session_id)

    def _put(self, rows: list[Read], gone: list[str], store: StoreRead, scan: _Scan) -> None:
        # The row of a session that was opened meanwhile is its actor's, which may not have seen this one.
        closed = [one for one in rows if not self._has_open(one[0].session_id)]
        opened = {row.session_id for row, _ in rows} - {row.session_id for row, _ in closed}
        for head in scan.heads if opened else ():
            if head.session_id in opened and not head.is_deleted:
                scan.later[head.session_id] = head
                self._behind[head.session_id] = _Behind(head)
        if closed or gone:
            store(closed, gone)


def _state_of(head: Head) -> _State:
    """Return what differs after each change of a row that a list shows."""
    return head.version, head.seq, head.digest


def _is_settled(behind: _Behind, head: Head, *, is_open: bool) -> bool:
    """Return whether a scan itself brings a session that was behind into the lists, or out of them."""
    if head.is_deleted and behind.head is not None:
        # A later session may have the id of one that is deleted.
        return head.number == behind.head.number
    # The session was closed before its actor came to the row.
    return not is_open
