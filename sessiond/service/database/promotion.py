"""Creation of a row, and promotion of a session: out of memory, or from a draft to its place. Blocking.

Law: never back, and all or nothing, as with files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from sessiond.errors import StorageError
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

__all__ = ["NewRow", "created", "give_place", "write_out"]


class NewRow(Struct, frozen=True):
    """The row that a session out of memory is to have, and its lines."""

    session_id: str
    epoch: str
    place: Place
    leases: bytes
    lines: Sequence[bytes]


def write_out(
    database: SessionDatabase,
    opener: DatabaseOpener,
    opened: OpenSession,
    wanted: NewRow,
) -> None:
    """Store a session that is in memory, with more lines. Raises SessionExists, StorageError."""
    # First the copy: once the database has the session, nothing may fail.
    log = opener.log_with(wanted.session_id, wanted.epoch, wanted.lines)
    try:
        head = _stored(database, wanted)
    except BaseException:
        log.close()
        raise
    opener.begin(opened, log, head)
    opened.journal.close()
    opened.journal = log
    opened.place = Path(opened.session_id) if wanted.place == "draft" else None
    log.ring(head.number)


def _stored(database: SessionDatabase, wanted: NewRow) -> Head:
    """Store a session, and return its row. Raises SessionExists, StorageError."""

    def create() -> Head | None:
        return database.create(
            wanted.session_id, wanted.epoch, [wanted.lines], wanted.place, wanted.leases
        )

    made = created(database, wanted.session_id, wanted.epoch, create)
    head = None if made is None else _completed(database, made, wanted)
    if head is None:
        raise id_is_taken(wanted.session_id)
    return head


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
        return database.move(head, wanted.place, head.place)
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
