"""Dry run: the session that some lines would make; the lines are read and not kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from sessiond.journal.memory import MemoryJournal
from sessiond.model.times import rfc3339
from sessiond.service.files.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.log.summary import SUMMED_KINDS, Summary, Tally

__all__ = ["rehearse"]


def rehearse(session_id: str, chunks: Iterable[Sequence[bytes]], epoch: str) -> SessionInfo:
    """Return the session as lists would show it, without a file."""
    indexer = Indexer(Path(session_id))
    lines = enumerate(chain.from_iterable(chunks))
    _, header = next(lines)
    indexer.visit(0, header)
    session, tally = indexer.session, Tally(indexer.dialect, Summary())
    for seq, line in lines:
        indexer.visit(seq, line)
        if SUMMED_KINDS[session.kinds[seq]]:
            tally.take(session.kinds[seq], line)
    opened = OpenSession(
        session_id,
        session,
        MemoryJournal(header),
        indexer.dialect,
        indexer.header,
        indexer.intake,
        epoch=epoch,
        persist="immediate",
        place=None,
        created_at=rfc3339(indexer.header.timestamp),
        summary=tally.summary(session.seq),
    )
    return opened.whole()
