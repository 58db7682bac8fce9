"""Dry run: the session that some lines would make; the lines are read and not kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from sessiond.journal.memory import MemoryJournal
from sessiond.model.times import rfc3339
from sessiond.service.files.indexer import Indexer
from sessiond.service.log.ending import CONVERSATION
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo

__all__ = ["rehearse"]


def rehearse(session_id: str, chunks: Iterable[Sequence[bytes]], epoch: str) -> SessionInfo:
    """Return the session as lists would show it, without a file."""
    indexer = Indexer(Path(session_id))
    lines = chain.from_iterable(chunks)
    header = next(lines)
    indexer.visit(0, header)
    last = (0, b"")
    for seq, line in enumerate(lines, 1):
        indexer.visit(seq, line)
        if indexer.session.kinds[seq] in CONVERSATION:
            last = (seq, line)
    opened = OpenSession(
        session_id,
        indexer.session,
        MemoryJournal(header),
        indexer.dialect,
        indexer.header,
        indexer.intake,
        epoch=epoch,
        persist="immediate",
        place=None,
        created_at=rfc3339(indexer.header.timestamp),
    )
    opened.endings.take(opened.session, opened.dialect, *last)
    return opened.whole()
