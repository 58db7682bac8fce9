"""Promotion of a session towards the database: out of memory, or from a draft to its place. Blocking.

Law: never back, and all or nothing, as with files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.opening import DatabaseOpener
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.store.refusals import id_is_taken

__all__ = ["give_place", "write_out"]


def write_out(
    database: SessionDatabase,
    opener: DatabaseOpener,
    opened: OpenSession,
    wanted: Persist,
    lines: Sequence[bytes],
) -> None:
    """Store a session that is in memory, with more lines. Raises SessionExists, StorageError."""
    is_draft = wanted == "on_assistant" and not opened.is_lasting
    stored = opened.journal.read(0, opened.session.seq)
    head = database.create(
        opened.session_id, opened.epoch, [stored, lines], "draft" if is_draft else "placed"
    )
    if head is None:
        raise id_is_taken(opened.session_id)
    log = opener.log_of(head)
    opened.journal.close()
    opened.journal = log
    opened.place = Path(opened.session_id) if is_draft else None
    log.ring(head.number)


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
