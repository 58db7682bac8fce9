"""The way of a profile's sessions from files into a database. Blocking."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from functools import cached_property
from typing import Final

from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.failures import telling
from sessiond.journal.splitter import whole_lines
from sessiond.model.digests import sha256_hex
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.moving.notes import epoch_before_move
from sessiond.service.database.moving.way import (
    Remark,
    digest_of,
    is_another,
    pieces_of,
    was_deleted,
)
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession

_EPOCH_DIGITS: Final = 16


class SessionsIn:
    """Sessions from the profile's files into a database; the files go to the trash."""

    def __init__(self, database: SessionDatabase, files: FileStore) -> None:
        self._database = database
        self._files = files

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """The numbers of all sessions that are or were in the database, by their ids."""
        numbers = defaultdict[str, list[int]](list)
        for head in self._database.changes(0).heads:
            numbers[head.session_id].append(head.number)
        return numbers

    def names(self) -> list[str]:
        """Return the ids of the profile's sessions. A draft for a root stays a file."""
        files, layout = self._files.profile.files, self._files.profile.layout
        ids = dict.fromkeys(map(layout.id_of, layout.scan(files, drafts=True)))
        return [one for one in ids if one is not None and not files.exists(layout.note_path(one))]

    def move(self, name: str) -> Remark | None:
        """Move a session, under a new epoch: its file may come back and go on."""
        opened = self._files.open(name)
        with closing(opened.journal):
            is_copied = self._copied(opened)
        self._files.discard(name, None)
        return None if is_copied else was_deleted(name, "trashed")

    def _copied(self, opened: OpenSession) -> bool:
        """Copy a session; return False if another daemon has deleted the copy of an earlier move."""
        journal, session_id = opened.journal, opened.session_id
        if journal.slack_bytes > 0:
            text = f"{session_id}: half a line is at the end; see `sessiond repair {session_id}`"
            raise SessionCorrupt(
                text, path=str(opened.path), line=journal.line_count + 1, repairable=True
            )
        there = self._database.find(session_id)
        if there is None:
            epoch = self._epoch_of(opened)
            if self._has_deleted(session_id, epoch):
                return False
            there = self._database.create(
                session_id,
                epoch,
                pieces_of(journal),
                "draft" if opened.pending else "archived" if opened.archived else "placed",
            )
            # The creation of an earlier move may have been under way.
            there = there or self._database.find(session_id)
        # Of a session that came before, other daemons may have gone on with it.
        last = journal.line_count - 1
        stored = (
            () if there is None else map(whole_lines, self._database.pieces(there.number, 0, last))
        )
        if digest_of(stored) != digest_of(pieces_of(journal)):
            raise is_another(session_id, "the database")
        return True

    def _has_deleted(self, session_id: str, epoch: str) -> bool:
        """Return whether a deleted session was made of this state of its file, also a purged one."""
        newest = self._database.newest_trashed(session_id)
        # A purge leaves the row, and so the epoch.
        numbers = self._numbers.get(session_id)
        rows = self._database.heads(numbers) if numbers else []
        deleted = [one for one in rows if one.is_deleted] + ([newest] if newest else [])
        return epoch in {epoch_before_move(one.epoch) for one in deleted}

    def _epoch_of(self, opened: OpenSession) -> str:
        """Return the epoch of a row that is made of a file: no other file gives it, and no later state."""
        path = opened.path
        assert path is not None, "a session of the profile has a file"
        with telling("look at", path):
            stat = self._files.profile.files.stat(path)
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return sha256_hex(f"{opened.session_id} {state}".encode())[:_EPOCH_DIGITS]
