"""Catalog records of session files: their epochs, and the rows that lists show.

The catalog behind the records is never the truth. A missing record costs a read of the file and a
new epoch; a record that cannot be written costs as much later. This module turns sessions into
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from sessiond import typed
from sessiond.catalog.catalog import Catalog
from sessiond.catalog.query import without_slash
from sessiond.catalog.rows import (
    NOTHING,
    PART,
    UNSEEN,
    Facts,
    Fingerprint,
    Known,
    Mark,
    Records,
    Stored,
)
from sessiond.errors import StorageError
from sessiond.journal.disk.files import FileStat, storable
from sessiond.journal.store import SessionLog
from sessiond.model.digests import sha256_hex
from sessiond.model.ids import derive_session_id, is_session_id
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.service.store.listed import Snapshot


class CatalogRecords:
    """The catalog in terms of sessions. Blocking, for worker threads."""

    def __init__(self, catalog: Catalog, paths: Paths, new_epoch: Callable[[], str]) -> None:
        self.catalog = catalog
        self._paths = paths
        self._new_epoch = new_epoch

    def known(self, session_id: str) -> Known | None:
        """Return the record of a session; None without one."""
        return self.catalog.known(session_id)

    def recall(self, known: Known | None, journal: SessionLog) -> str:
        """Return the recorded epoch if the file still fits; else a new one."""
        if known is None or not fits(known.mark, journal):
            return self._new_epoch()
        return known.mark.epoch

    def unseen(self, inode: int) -> Mark:
        """Return the mark of a new epoch of a file, of which no client has seen a line yet."""
        return Mark(self._new_epoch(), 0, UNSEEN, inode)

    def place(self, session_id: str, path: Path) -> None:
        """Record where a session's file is; the rest is recorded when the session is opened."""
        known = self.known(session_id)
        # An earlier file of this id that is gone, perhaps to the trash, was another file.
        if known is None or known.path != str(path):
            self.catalog.place(session_id, str(path), Mark(self._new_epoch(), 0, ""))

    def identify(
        self,
        path: Path,
        header_id: str,
        other: str | None,
        is_deleted: Callable[[str], bool],
        before: Catalog | Records,
    ) -> tuple[str, Known | None]:
        """Return the session id of a file whose name has none, and the session's record.

        A path keeps the id that it is recorded under, also if another program put another file
        there, unless the session of that id was deleted. A path without a record gets the id in the
        header, unless that is no session id or `other`, the file that is known to have the id, is
        another file; then the id is derived from the path. `before` has the records.
        """
        derived = derive_session_id(str(path))
        related = before.related(str(path), (header_id, derived))
        by_id = {known.session_id: known for known in related}
        recorded = [known.session_id for known in related if known.path == str(path)]
        if derived in recorded:
            return derived, by_id[derived]
        if header_id not in recorded:
            for session_id in recorded:
                if not is_deleted(session_id):
                    return session_id, by_id[session_id]
        if is_session_id(header_id):
            known = by_id.get(header_id)
            if other is None and known is not None and self._may_exist(known.path):
                other = known.path
            if other is None or str(path) in {other, self._paths.real(other)}:
                return header_id, known
        return derived, by_id.get(derived)

    def others(self, known: Known) -> list[Known]:
        """Return the records of other sessions at the path of a session."""
        at_path = self.catalog.at(known.path)
        return [row for row in at_path if row.session_id != known.session_id]

    def drop_gone(self, purged: Known) -> None:
        """Delete the record of a purged session: another file at its path is another session.

        The record stays if a new session of this id has taken it over since the purge.
        """
        if not self._may_exist(purged.path) or self.others(purged):
            self.catalog.forget_unlisted(purged)

    def _may_exist(self, path: str) -> bool:
        try:
            return self._paths.exists(path)
        except OSError:
            return True

    def note(self, opened: OpenSession) -> None:
        """Record where a session's file is and under which epoch it is served."""
        journal = opened.journal
        if journal.path is None:
            return
        known, path = self.known(opened.session_id), str(journal.path)
        mark = mark_of(opened.epoch, journal, journal.line_count - 1)
        if known is None or (known.path, known.mark) != (path, mark):
            self.catalog.place(opened.session_id, path, mark)

    def renew(self, session_id: str, path: Path) -> None:
        """Record that the file will be replaced: the session gets a new epoch."""
        self.catalog.place(session_id, str(path), Mark(self._new_epoch(), 0, ""))

    def expect_another(self, session_id: str, path: Path, inode: int) -> None:
        """Give the session a new epoch unless the record names the current file by its inode.

        If no other file takes its place, the recorded epoch stays.
        """
        known = self.known(session_id)
        if known is None or known.mark.seen_inode != inode:
            self.renew(session_id, path)

    # -- rows ------------------------------------------------------------------------

    def row(
        self, seen: Snapshot, fingerprint: Fingerprint | None = None, mark: Mark | None = None
    ) -> Stored:
        """Return the row of a session.

        `fingerprint` is that of the file before it was read; None for an open session. `mark` is that
        of the epoch where the lines at hand are only a part of the file.
        """
        opened = seen.opened
        info = opened.with_state(seen.info)
        return row_of(
            info,
            self._mark(opened, info.seq) if mark is None else mark,
            fingerprint or self._fingerprint_at(opened.journal, info.seq),
            has_assistant=seen.has_assistant,
        )

    def _mark(self, opened: OpenSession, seq: int) -> Mark:
        """Return the epoch's mark at a line; the recorded mark if that line cannot be read now."""
        mark = mark_of(opened.epoch, opened.journal, seq)
        if not mark.seen_digest:
            known = self.known(opened.session_id)
            if known is not None and known.mark.epoch == opened.epoch:
                return known.mark
        return mark

    def moved(self, known: Known, path: Path, *, archived: bool, draft: bool) -> Stored | None:
        """Return the row of a file that only moved; None if the file has to be read."""
        shown = self.catalog.shown(known.session_id)
        if shown is None:
            return None
        try:
            info = typed.decode(shown.info, SessionInfo)
        except msgspec.DecodeError:
            return None
        there = msgspec.structs.replace(
            info,
            path=str(path),
            archived=archived,
            persisted=not draft,
            persist="on_assistant" if draft else "immediate",
        )
        return row_of(there, known.mark, known.fingerprint, has_assistant=shown.has_assistant)

    def _fingerprint_at(self, journal: SessionLog, seq: int) -> Fingerprint:
        """Return the file's fingerprint if line `seq` is its last one, else that of no file.

        A file that is gone, or that a foreign writer changed, has no fingerprint either.
        """
        if journal.path is None:
            return NOTHING
        try:
            found = fingerprint_of(self._paths.stat(journal.path))
        except OSError:
            return NOTHING
        # A change in place is not in the index, so the file has to be read.
        size = journal.span_bytes(0, seq) + journal.slack_bytes
        return found if found.size == size and not journal.was_changed else NOTHING


def row_of(
    info: SessionInfo,
    mark: Mark,
    fingerprint: Fingerprint,
    *,
    has_assistant: bool,
) -> Stored:
    """Return the row of a session that lists show as `info`."""
    facts = Facts(
        cwd=without_slash(info.cwd),
        title=info.title,
        agent=info.agent,
        status=info.status,
        program=info.agent_program,
        archived=info.archived,
        draft=info.path is not None and not info.persisted,
        subagent=info.lineage.subagent,
        has_assistant=has_assistant,
        created_at=info.created_at,
        updated_at=info.updated_at,
        message_count=info.message_count,
        first_message=info.first_message,
        tags=info.tags,
        parent_id=info.lineage.parent_id,
        parent_path=info.lineage.parent_path,
    )
    return Stored(
        info.id,
        info.path,
        mark,
        fingerprint,
        facts,
        msgspec.json.encode(info),
        is_part=info.partial is True,
    )


def of_part(mark: Mark) -> Mark:
    """Return the mark of an epoch whose file may go on behind the marked line."""
    if mark.is_part:
        return mark
    return msgspec.structs.replace(mark, seen_digest=PART + mark.seen_digest)


def fits(mark: Mark, journal: SessionLog) -> bool:
    """Return whether the file is the one that the mark was made for, with all its lines.

    An older version of sessiond recorded the last line only.
    """
    # 0: the inode is not known, or the file has another one at each look.
    if 0 not in {mark.seen_inode, journal.inode} and mark.seen_inode != journal.inode:
        return False
    if mark.seen_digest == UNSEEN:
        return mark.seen_inode == journal.inode
    if mark.seen_seq >= journal.line_count:
        return False
    seen = _seen(journal, mark.seen_seq)
    return mark.seen_digest.removeprefix(PART) in {seen, seen.partition(" ")[0]}


def fits_line(mark: Mark, line: bytes) -> bool:
    """Return whether the mark was made at this line."""
    return _digest(line) == mark.seen_digest.partition(" ")[0]


def mark_of(epoch: str, journal: SessionLog, seq: int) -> Mark:
    """Return the mark of an epoch at a line, with all lines before it.

    If the line cannot be read, the mark names none.
    """
    try:
        return Mark(epoch, seq, _seen(journal, seq), journal.inode)
    except StorageError:
        return Mark(epoch, 0, "")


def _seen(journal: SessionLog, seq: int) -> str:
    """Return the state of a file up to the end of a line: the line's digest, length, checksum."""
    (line,) = journal.read(seq, seq)
    return f"{_digest(line)} {journal.span_bytes(0, seq)} {journal.checksum(seq):08x}"


def fingerprint_of(found: FileStat) -> Fingerprint:
    """Return a fingerprint that differs after a change of the file."""
    numbers = (found.st_ino, found.st_size, found.st_mtime_ns)
    return Fingerprint(*map(storable, numbers))


def _digest(line: bytes) -> str:
    return sha256_hex(line)
