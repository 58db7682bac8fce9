"""Deleted files for people, and the end of a file: purged, or forgotten. Blocking."""

from __future__ import annotations

from sessiond.catalog.finding import Kept, find_kept
from sessiond.catalog.rows import Known
from sessiond.errors import SessiondError
from sessiond.journal.disk.failures import telling
from sessiond.journal.trash.restoring import Trashed
from sessiond.service.files.profile import Profile
from sessiond.service.store.trash import TrashedSession, TrashResult
from sessiond.visible import printable


class TrashedFiles:
    """The deleted files of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._places = profile.session_files
        self.purged = self._places.trash.purged

    def page(self, limit: int, cursor: str | None) -> TrashResult:
        """Return a page of the trash. Raises StorageError."""
        found = self._places.restoring.all()
        names = [one.path.name for one in found]
        first = names.index(cursor) + 1 if cursor in names else 0
        shown = [self._shown(one) for one in found[first : first + limit]]
        more = first + limit < len(found)
        return TrashResult(shown, names[first + limit - 1] if more else None)

    def _shown(self, one: Trashed) -> TrashedSession:
        with telling("look at", one.path):
            stat = self._profile.files.lstat(one.path)
        kept = self._profile.catalog.ask(lambda connection: find_kept(connection, one.session_id))
        if kept is None:
            kept = self._read(one)
        return TrashedSession(
            one.session_id,
            title=kept.title,
            cwd=kept.cwd,
            path=printable(one.path),
            origin=None if one.origin is None else printable(one.origin),
            bytes=stat.st_size,
        )

    def _read(self, one: Trashed) -> Kept:
        """Return the title and cwd of the header, or None for both without a readable header."""
        try:
            header = self._profile.rows.header(one.path)
        except SessiondError:
            return Kept(None, None)
        return Kept(header.title, header.cwd)

    def purge(self, session_id: str) -> Known | None:
        """Remove a deleted session's words and files for good; return the session's record.

        Raises SessionExists for a session that is not deleted, SessionNotFound, StorageError.
        """
        # The words of lists and searches go first: while the files exist a failed purge can be
        # repeated, also by a later daemon.
        self._places.require_deleted(session_id)
        self._erase_words(session_id)
        self._places.purge(session_id)
        return self._profile.records.known(session_id)

    def erase(self, session_id: str, purged: Known | None) -> None:
        """Erase what lists know of a purged session. Raises StorageError."""
        self._profile.catalog.erase(session_id)
        if purged is not None:
            self._profile.records.drop_gone(purged)

    def forget(self, session_id: str) -> None:
        """Remove the words of a session outside the profile; its file is not touched.

        Raises InvalidParams for a session inside the profile, SessionNotFound, StorageError.
        """
        self._places.require_elsewhere(session_id)
        self._erase_words(session_id)
        self._profile.indexes.forget(session_id)

    def _erase_words(self, session_id: str) -> None:
        """Erase what searches know, and lists of an unlisted session. Raises StorageError."""
        self._profile.texts.purge(session_id)
        self._profile.catalog.erase(session_id)
