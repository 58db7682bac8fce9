"""What a session of these lines would be: in memory, for a dry run. Nothing keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sessiond.journal.memory import MemoryJournal
from sessiond.model.times import rfc3339
from sessiond.service.files.indexer import Indexer
from sessiond.service.opened import Opened
from sessiond.service.session_info import SessionInfo

__all__ = ["rehearse"]


def rehearse(session_id: str, chunks: Iterable[Sequence[bytes]], epoch: str) -> SessionInfo:
    """The session as it would be shown, without a file."""
    indexer = Indexer(Path(session_id))
    journal: MemoryJournal | None = None
    for lines in chunks:
        for seq, line in enumerate(lines, 0 if journal is None else journal.line_count):
            indexer.visit(seq, line)
        if journal is None:
            journal = MemoryJournal(b"\n".join(lines))
        else:
            journal.append(lines, sync=False)
    assert journal is not None, "a session begins with its header"
    created = rfc3339(indexer.header.timestamp)
    opened = Opened(
        session_id,
        indexer.session,
        journal,
        indexer.dialect,
        indexer.header,
        indexer.intake,
        epoch=epoch,
        persist="immediate",
        place=None,
        created_at=created,
        updated_at=created,
    )
    if indexer.session.seq:
        opened.updated_at = opened.line_time(indexer.session.seq) or created
    opened.sum_up()
    return opened.whole()
