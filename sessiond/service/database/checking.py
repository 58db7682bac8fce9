"""Checks of stored lines, and repairs: the checks of files, on a copy of the lines. Blocking."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import structs

from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.splitter import split_whole
from sessiond.journal.spool import Spool
from sessiond.limits import DATABASE_PIECE_BYTES
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.refusals import refuse_missing_lines
from sessiond.service.files.checking.repairing import kept_lines, plan_of
from sessiond.service.files.checking.verifying import (
    FileSurvey,
    VerifyScope,
    no_session,
    survey,
    verification_of,
)
from sessiond.service.ports import Progress
from sessiond.service.store.checks import Repair, Verification


class DatabaseChecks:
    """Checks of the sessions of one database."""

    def __init__(self, database: SessionDatabase, files: Files, folder: Path) -> None:
        """Take the disk and the folder for copies of lines."""
        self._database = database
        self._files = files
        self._folder = folder

    def verify(self, head: Head, progress: Progress) -> Verification | None:
        """Return the problems of a session's lines; None if the row has changed. Raises StorageError."""
        with self._copied(head) as spool:
            try:
                found = self._survey(head, spool, progress)
            except SessionCorrupt as corrupt:
                return no_session(corrupt, spool.reader.ends[-1])
            return None if found is None else verification_of(found)

    def plan(self, head: Head, *, dry_run: bool, progress: Progress | None) -> Repair | None:
        """Return what a repair would do; None if the row has changed. Raises SessionCorrupt, StorageError."""
        with self._copied(head) as spool:
            found = self._survey(head, spool, progress)
            if found is None:
                return None
            return plan_of(found, Path(head.session_id), dry_run=dry_run)

    def repair(self, head: Head, epoch: str) -> Repair | None:
        """Put a session without the bad lines in the place of a session, if there are bad lines.

        Returns None if the session is elsewhere by now. Raises SessionCorrupt, StorageError.
        """
        with self._copied(head) as spool:
            found = self._survey(head, spool, None)
            if found is None:
                return None
            plan = plan_of(found, Path(head.session_id), dry_run=False)
            if plan.reason is not None:
                return plan
            kept = kept_lines(spool.files, spool.reader.fd, found)
            if self._database.replace(head, epoch, _in_pieces(kept)) is None:
                return None
        backup = f"{self._database.name}: session number {head.number} in the trash"
        return structs.replace(plan, repaired=True, backup=backup)

    @contextmanager
    def _copied(self, head: Head) -> Generator[Spool]:
        """Yield a copy of a session's lines. An OSError of the block becomes a StorageError, too."""
        name = Path(head.session_id)
        with (
            telling("check", name),
            closing(Spool.nameless(self._files, self._folder, name)) as spool,
        ):
            for piece in self._database.pieces(head.number, 0, head.seq):
                spool.add_piece(piece)
            yield spool

    def _survey(self, head: Head, spool: Spool, progress: Progress | None) -> FileSurvey | None:
        """Return the survey of a copy; None if the row has changed. Raises SessionCorrupt."""
        there = spool.reader.line_count
        if there != head.seq + 1:
            refuse_missing_lines(self._database, head, there)
            return None
        scope = VerifyScope(spool.reader.ends[-1], head.session_id, progress)
        return survey(spool.files, Path(head.session_id), spool.reader.fd, scope)


def _in_pieces(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of bytes that end with a newline, some at a time."""
    waiting, size = list[bytes](), 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= DATABASE_PIECE_BYTES and b"\n" in chunk:
            lines, rest = split_whole(b"".join(waiting))
            yield lines
            waiting, size = [rest], len(rest)
    if size:
        lines, rest = split_whole(b"".join(waiting))
        assert not rest, "each line that is kept ends with a newline"
        yield lines
