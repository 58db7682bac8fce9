"""A session comes closer to the disk: out of memory into a file, or as a draft to its place.

Law: never back, and all or nothing. What was in memory is one new file, durable
as a whole before anybody is told; a draft whose new place cannot be made sure
of gets its old name again. Blocking, for the session's writer; the lines of the
same request are stored with it or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import InvalidParams, SessionExists, StorageError
from sessiond.journal.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.layout import Layout
from sessiond.service.files.register import Register
from sessiond.service.opened import Opened
from sessiond.service.session_info import Persist

__all__ = ["Promotion", "require_forward"]

_ORDER: Final = ("never", "on_assistant", "immediate")


def require_forward(now: Persist, wanted: Persist) -> None:
    """Raises InvalidParams for a level that lies behind."""
    if _ORDER.index(wanted) < _ORDER.index(now):
        raise InvalidParams(
            f"persist goes from never to on_assistant to immediate, and here it is {now}",
            path="persist",
        )


class Promotion(Struct, frozen=True):
    """Promotes the sessions of one profile."""

    layout: Layout
    files: Files
    register: Register

    def promote(self, opened: Opened, wanted: Persist, lines: Sequence[bytes], stamp: str) -> None:
        """Bring a session to the level, with more lines behind its own; `stamp` names a new file.

        Raises SessionExists, StorageError, and then nothing has changed.
        """
        if not opened.journal.blocking and wanted != "never":
            self._write_out(opened, wanted, lines, stamp)
        elif opened.place is not None and wanted == "immediate":
            self._give_place(opened, opened.place, lines)
        elif lines:
            _append(opened, lines)
        opened.persist = wanted
        self.register.note(opened)

    def _write_out(
        self, opened: Opened, wanted: Persist, lines: Sequence[bytes], stamp: str
    ) -> None:
        session_id = opened.session_id
        if self.layout.find(self.files, session_id) is not None:
            raise SessionExists(
                "a file of this id has come since; the session stays in memory",
                session_id=session_id,
            )
        place = self.layout.session_path(session_id, stamp)
        draft = wanted == "on_assistant" and not opened.session.has_assistant
        path = self.layout.pending_path(session_id) if draft else place
        stored = opened.journal.read(0, opened.session.seq)
        text = b"\n".join([*stored, *lines])
        journal = Journal.create(self.files, path, text, locks=self.layout.locks)
        # Whoever reads the lines in memory just now still has them.
        opened.journal = journal
        opened.place = place if draft else None

    def _give_place(self, opened: Opened, place: Path, lines: Sequence[bytes]) -> None:
        journal = opened.journal
        old = journal.path
        assert old is not None, "a draft is a file"
        try:
            journal.move(place)
            opened.place = None
            if lines:
                _append(opened, lines)
        except StorageError:
            opened.place = place
            # If that fails as well it is a draft in the place of a session, as it is after a
            # move that failed half: the next move, or the next start, settles it.
            with suppress(StorageError):
                journal.move(old)
            raise


def _append(opened: Opened, lines: Sequence[bytes]) -> None:
    error = opened.store(lines, sync=True, has_assistant=False)
    if error is not None:
        raise error
