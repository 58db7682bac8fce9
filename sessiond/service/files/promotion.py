"""Promotion of a session towards the disk: from memory into a file, or from a draft to its place.

Law: never back, and all or nothing. A session in memory becomes one new file, durable as a whole
before any client is told. A draft whose new place cannot be made durable gets its old name again.
Blocking, for the session's writer; the lines of the request are stored with the promotion or not at
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from sessiond.errors import SessionExists, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.memory import MemoryJournal
from sessiond.journal.profile.layout import Layout
from sessiond.journal.store import Overtaken, Replaced
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist


class Promotion(Struct, frozen=True):
    """A promotion of a session of one profile."""

    layout: Layout
    files: Files
    records: CatalogRecords
    stamp: str
    """Stamp for the name of a new file."""
    late: bool
    """True if foreign lines may come before the new ones, as in `SessionLog.append`."""

    def promote(self, opened: OpenSession, wanted: Persist, lines: Sequence[bytes]) -> None:
        """Bring a session to the level, with more lines behind its own.

        Raises SessionExists, StorageError, Overtaken, Replaced; nothing has changed then.
        """
        if not opened.journal.blocking and wanted != "never":
            self._write_out(opened, wanted, lines)
        elif opened.place is not None and wanted == "immediate":
            self._give_place(opened, opened.place, lines)
        elif lines:
            opened.store_all(lines, late=self.late)
        opened.persist = wanted
        self.records.note(opened)

    def _write_out(self, opened: OpenSession, wanted: Persist, lines: Sequence[bytes]) -> None:
        session_id = opened.session_id
        if self.layout.find(self.files, session_id) is not None:
            raise SessionExists(
                "another file has this id now; the session stays in memory",
                session_id=session_id,
            )
        place = self.layout.session_path(session_id, self.stamp)
        draft = wanted == "on_assistant" and not opened.is_lasting
        path = self.layout.pending_path(session_id) if draft else place
        stored = opened.journal.read(0, opened.session.seq)
        text = b"\n".join([*stored, *lines])
        journal = Journal.create(self.files, path, text, locks=self.layout.locks)
        # A reader of the lines in memory still holds them.
        if isinstance(opened.journal, MemoryJournal):
            opened.journal.release()
        opened.journal = journal
        opened.place = place if draft else None

    def _give_place(self, opened: OpenSession, place: Path, lines: Sequence[bytes]) -> None:
        journal = opened.journal
        old = journal.path
        assert old is not None, "a draft is a file"
        if lines and not self.late:
            journal.look()
            if journal.half_bytes or journal.line_count > opened.session.seq + 1:
                # Checked before the move: the request is staged anew and may then be refused.
                raise Overtaken
        try:
            journal.move(place)
            opened.place = None
            if lines:
                opened.store_all(lines, late=self.late)
        except (StorageError, Overtaken, Replaced):
            opened.place = place
            # If the undo fails too, a draft is left in the place of a session, as after a move
            # that failed half way: the next move, or the next start, settles it.
            with suppress(StorageError):
                journal.move(old)
            raise
