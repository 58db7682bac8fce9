"""What is remembered of session files between openings: their epoch and what lists show.

The catalog behind it is never the truth. What it cannot say costs a look at the
file, and a new epoch; what it cannot note costs the same later. Here sessions
become its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.query import without_slash
from sessiond.catalog.rows import NOTHING, Facts, Fingerprint, Known, Mark, Stored
from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.journal import Journal
from sessiond.journal.store import SessionLog
from sessiond.service.log.open_session import Opened
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.log.summary import Summary, decode_summary

__all__ = ["Register", "Snapshot", "fingerprint_of", "fits_line", "snapshot"]


_info_decoder: Final = msgspec.json.Decoder(SessionInfo)


class Snapshot(Struct, frozen=True):
    """An open session as it was at one moment, to be stored at leisure."""

    opened: Opened
    info: SessionInfo
    has_assistant: bool


def snapshot(opened: Opened) -> Snapshot:
    """What the session is now. Called on the loop, where nothing changes meanwhile."""
    return Snapshot(opened, opened.info(), opened.session.has_assistant)


class Register:
    """The catalog in terms of sessions. Blocking, for worker threads."""

    def __init__(self, catalog: Catalog, files: Files, new_epoch: Callable[[], str]) -> None:
        self.catalog = catalog
        self._files = files
        self._new_epoch = new_epoch

    def known(self, session_id: str) -> Known | None:
        """What was noted of a session."""
        return self.catalog.known(session_id)

    def recall(self, known: Known | None, journal: Journal) -> tuple[str, Summary]:
        """The epoch and summary the file was last seen with, if what was seen is still there."""
        if known is None or not fits(known.mark, journal):
            return self._new_epoch(), Summary()
        return known.mark.epoch, self.summary_of(known, journal.path)

    def summary_of(self, known: Known, path: Path) -> Summary:
        """What a file was summed up to, if since then it was appended to at most."""
        then = known.fingerprint
        try:
            now = fingerprint_of(self._files.stat(path))
        except OSError:
            return Summary()
        grown = now.inode == then.inode and now.size > then.size
        return decode_summary(known.summary) if now == then or grown else Summary()

    def place(self, session_id: str, path: Path) -> None:
        """Note where a session's file is; the rest is noted when it is opened."""
        known = self.known(session_id)
        # A file that had the id before and is gone, to the trash perhaps, is another one.
        if known is None or known.path != str(path):
            self.catalog.place(session_id, str(path), Mark(self._new_epoch(), 0, ""))

    def note(self, opened: Opened) -> None:
        """Note where a session's file is and under which epoch it is served."""
        journal = opened.journal
        if not isinstance(journal, Journal):
            return
        known, path = self.known(opened.session_id), str(journal.path)
        mark = mark_of(opened.epoch, journal, journal.line_count - 1)
        if known is None or (known.path, known.mark) != (path, mark):
            self.catalog.place(opened.session_id, path, mark)

    def renew(self, session_id: str, path: Path) -> None:
        """Note that the file will be another one: it gets a new epoch."""
        self.catalog.place(session_id, str(path), Mark(self._new_epoch(), 0, ""))

    def expect_another(self, session_id: str, path: Path, inode: int) -> None:
        """The same where the inode of the file that is there now, and stays, does not tell.

        If no other file comes to be there, the epoch goes on.
        """
        known = self.known(session_id)
        if known is None or known.mark.seen_inode != inode:
            self.renew(session_id, path)

    # -- rows ------------------------------------------------------------------------

    def row(self, seen: Snapshot, fingerprint: Fingerprint | None = None) -> Stored:
        """The row of a session. Reads what its summary lacks.

        `fingerprint` is what the file had before it was read; None for one that is open.
        """
        opened, info = seen.opened, seen.info
        journal, summary = opened.journal, opened.sum_up(info.seq)
        return row_of(
            summed_up(info, summary),
            self._mark(opened, info.seq),
            fingerprint or self._fingerprint_at(journal, info.seq),
            summary,
            has_assistant=seen.has_assistant,
        )

    def _mark(self, opened: Opened, seq: int) -> Mark:
        """The epoch as it is seen with a line; as it was noted, when that line cannot be read now."""
        mark = mark_of(opened.epoch, opened.journal, seq)
        if not mark.seen_digest:
            known = self.known(opened.session_id)
            if known is not None and known.mark.epoch == opened.epoch:
                return known.mark
        return mark

    def moved(self, known: Known, path: Path, *, archived: bool, draft: bool) -> Stored | None:
        """The row of a file that was only given another place; None if it has to be read."""
        shown = self.catalog.shown(known.session_id)
        if shown is None:
            return None
        try:
            info = _info_decoder.decode(shown.info)
        except msgspec.DecodeError:
            return None
        there = msgspec.structs.replace(
            info,
            path=str(path),
            archived=archived,
            persisted=not draft,
            persist="on_assistant" if draft else "immediate",
        )
        return row_of(
            there,
            known.mark,
            known.fingerprint,
            decode_summary(known.summary),
            has_assistant=shown.has_assistant,
        )

    def _fingerprint_at(self, journal: SessionLog, seq: int) -> Fingerprint:
        """Of the file as long as this line is its last; of no file once others changed it or it is gone."""
        if journal.path is None:
            return NOTHING
        try:
            found = fingerprint_of(self._files.stat(journal.path))
        except OSError:
            return NOTHING
        # What was changed in place is not in the index, so the file is to be read.
        size = journal.span_bytes(0, seq) + journal.slack_bytes
        return found if found.size == size and not journal.was_changed else NOTHING


def row_of(
    info: SessionInfo,
    mark: Mark,
    fingerprint: Fingerprint,
    summary: Summary,
    *,
    has_assistant: bool,
) -> Stored:
    """The row of a session that lists show as `info`."""
    facts = Facts(
        cwd=without_slash(info.cwd),
        title=info.title,
        agent=info.agent,
        status=info.status,
        archived=info.archived,
        draft=info.path is not None and not info.persisted,
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
        msgspec.json.encode(summary),
        msgspec.json.encode(info),
    )


def summed_up(info: SessionInfo, summary: Summary) -> SessionInfo:
    """The same with what its messages come to."""
    if (info.first_message, info.usage) == (summary.first_message, summary.usage):
        return info
    return msgspec.structs.replace(info, first_message=summary.first_message, usage=summary.usage)


def fits(mark: Mark, journal: Journal) -> bool:
    """Whether it is still the file, and has all, that an epoch was seen with.

    An older version noted the last line only.
    """
    if mark.seen_seq >= journal.line_count or mark.seen_inode not in {0, journal.inode}:
        return False
    seen = _seen(journal, mark.seen_seq)
    return mark.seen_digest in {seen, seen.partition(" ")[0]}


def fits_line(mark: Mark, line: bytes) -> bool:
    """Whether this is the line that an epoch was seen with."""
    return _digest(line) == mark.seen_digest.partition(" ")[0]


def mark_of(epoch: str, journal: SessionLog, seq: int) -> Mark:
    """An epoch as it is seen with a line and all before it. What cannot be read is seen with none."""
    try:
        return Mark(epoch, seq, _seen(journal, seq), journal.inode)
    except StorageError:
        return Mark(epoch, 0, "")


def _seen(journal: SessionLog, seq: int) -> str:
    """Return what tells the file up to the end of a line: the line, how long it is, its checksum."""
    (line,) = journal.read(seq, seq)
    return f"{_digest(line)} {journal.span_bytes(0, seq)} {journal.checksum(seq):08x}"


def fingerprint_of(found: FileStat) -> Fingerprint:
    """What tells this file from a changed one."""
    return Fingerprint(found.st_ino, found.st_size, found.st_mtime_ns)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
