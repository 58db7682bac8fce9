"""Creation of a row, and promotion of a session: out of memory, or from a draft to its place. Blocking.

Law: never back, and all or nothing, as with files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec import Struct, structs

from sessiond.errors import StorageError
from sessiond.journal.store import SessionLog
from sessiond.service.database.database import (
    NO_LINES,
    Head,
    Place,
    SessionDatabase,
    chained,
)
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.opening import DatabaseOpener
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.store.refusals import id_is_taken


class NewRow(Struct, frozen=True):
    """The row that a session out of memory is to have, and its lines."""

    session_id: str
    epoch: str
    place: Place
    leases: bytes
    lines: Sequence[bytes]


class _Tried(Struct):
    """Lines and leases that tries to store a session may have left in its row."""

    digests: set[bytes]
    leases: set[bytes]

    def add(self, wanted: NewRow) -> None:
        self.digests.add(chained(NO_LINES, wanted.lines))
        self.leases.add(wanted.leases)

    def has_made(self, head: Head) -> bool:
        """Return whether a row is as a try left it: no other daemon has changed the row."""
        return (
            head.digest in self.digests and head.leases in self.leases and head.place != "archived"
        )


class Promotions:
    """Ways of sessions out of memory into a database."""

    def __init__(self, database: SessionDatabase, opener: DatabaseOpener) -> None:
        self._database = database
        self._opener = opener
        self._tried: WeakKeyDictionary[SessionLog, _Tried] = WeakKeyDictionary()
        """The tries of unknown outcome, by the log of the session in memory."""

    def write_out(self, opened: OpenSession, wanted: NewRow) -> None:
        """Store a session that is in memory, with more lines. Raises SessionExists, StorageError."""
        # First the copy: once the database has the session, nothing may fail.
        log = self._opener.log_with(wanted.session_id, wanted.epoch, wanted.lines)
        try:
            head = self._stored(wanted, self._tried.get(opened.journal))
        except BaseException as error:
            log.close()
            if isinstance(error, StorageError):
                self._tried.setdefault(opened.journal, _Tried(set(), set())).add(wanted)
            raise
        self._opener.begin(opened, log, head)
        opened.journal.close()
        opened.journal = log
        opened.place = Path(opened.session_id) if wanted.place == "draft" else None
        log.ring(head.number)

    def _stored(self, wanted: NewRow, tried: _Tried | None) -> Head:
        """Store a session, and return its row. Raises SessionExists, StorageError."""
        database = self._database

        def create() -> Head | None:
            return database.create(
                wanted.session_id, wanted.epoch, [wanted.lines], wanted.place, wanted.leases
            )

        made = created(database, wanted.session_id, wanted.epoch, create)
        head = None if made is None else _completed(database, made, wanted)
        if head is None and made and tried and self._taken_back(made, tried):
            head = created(database, wanted.session_id, wanted.epoch, create)
        if head is None:
            raise id_is_taken(wanted.session_id)
        return head

    def _taken_back(self, made: Head, tried: _Tried) -> bool:
        """Delete the row of an earlier try; return False if another daemon has used the row.

        The try carried a line that no client was told of, and that the next try has anew.
        """
        return (
            tried.has_made(made) and self._database.delete(made, unless_appended=True) is not None
        )


def _completed(database: SessionDatabase, head: Head, wanted: NewRow) -> Head | None:
    """Bring the row of an earlier try to the lines and leases of this one, and return the row.

    Returns None if another daemon has appended to the session.
    """
    lines, rest = wanted.lines[: head.seq + 1], wanted.lines[head.seq + 1 :]
    if chained(NO_LINES, lines) != head.digest:
        return None
    if head.leases != wanted.leases:
        leased = database.lease(head, wanted.leases)
        if leased is None:
            return None
        head = leased
    if rest:
        at = structs.replace(head, place=wanted.place)
        return database.append(at, rest, chained(head.digest, rest), sync=True)
    if head.place != wanted.place:
        return database.move(head, wanted.place)
    return head


def created(
    database: SessionDatabase, session_id: str, epoch: str, create: Callable[[], Head | None]
) -> Head | None:
    """Return the row that `create` has made, now or in an earlier try under this epoch.

    Returns None if another session has the id. Raises StorageError, and what `create` raises.
    """
    head: Head | None = None
    try:
        head = create()
    except StorageError:
        with suppress(StorageError):
            head = _made(database, session_id, epoch)
        if head is None:
            raise
    return head or _made(database, session_id, epoch)


def _made(database: SessionDatabase, session_id: str, epoch: str) -> Head | None:
    """Return the row of the session of this id, if the session has this epoch, which no other session has."""
    head = database.find(session_id)
    return head if head is not None and head.epoch == epoch else None


def give_place(
    opened: OpenSession, log: DatabaseLog, wanted: Persist, lines: Sequence[bytes], *, late: bool
) -> None:
    """Bring a draft to its place, with more lines. Raises StorageError, Overtaken, Replaced."""
    place = opened.place if wanted == "immediate" else None
    if lines:
        if place is not None:
            log.expect_move(place)
        opened.store_all(lines, late=late)
    if place is not None:
        # The lines have brought the session to its place.
        log.move(place)
        opened.place = None
