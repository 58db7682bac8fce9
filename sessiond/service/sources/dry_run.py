"""Sessions that some lines make, without a file of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from sessiond.journal.memory import MemoryJournal
from sessiond.journal.store import SessionLog
from sessiond.model.times import rfc3339
from sessiond.service.log.ending import CONVERSATION
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo


def indexed(session_id: str, chunks: Iterable[Sequence[bytes]], log: SessionLog) -> OpenSession:
    """Return the session that the lines make; an empty log takes the lines. Raises StorageError."""
    indexer = Indexer(Path(session_id))
    for lines in filter(None, chunks):
        indexer.visit_lines(log.line_count, list(lines))
        log.append(lines, sync=False)
        # A long line goes before the next one is made.
        del lines
    return _opened(session_id, indexer, log, "")


def rehearse(session_id: str, chunks: Iterable[Sequence[bytes]], epoch: str) -> SessionInfo:
    """Return the session as lists would show it; its lines are read and not kept."""
    indexer = Indexer(Path(session_id))
    lines = chain.from_iterable(chunks)
    header = next(lines)
    indexer.visit(0, header)
    last = (0, b"")
    for seq, line in enumerate(lines, 1):
        indexer.visit(seq, line)
        if indexer.session.kinds[seq] in CONVERSATION:
            last = (seq, line)
    opened = _opened(session_id, indexer, MemoryJournal(header), epoch)
    opened.endings.take(opened.session, opened.dialect, *last)
    return opened.whole()


def _opened(session_id: str, indexer: Indexer, journal: SessionLog, epoch: str) -> OpenSession:
    return OpenSession(
        session_id,
        indexer.session,
        journal,
        indexer.dialect,
        indexer.header,
        indexer.intake,
        epoch=epoch,
        persist="immediate",
        place=None,
        created_at=rfc3339(indexer.header.timestamp),
    )
