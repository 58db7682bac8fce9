"""Sessions opened from lines, without a file; in the pi dialect by default."""

from __future__ import annotations

import json
from typing import Any

from sessiond.journal.memory import MemoryJournal
from sessiond.service.log.open_session import OpenSession
from tests.kit.lines import indexer_of
from tests.kit.sessions import TIME

__all__ = ["HEADER", "NATIVE_HEADER", "TIME", "Counted", "opened", "opened_lines"]

HEADER = {"type": "session", "version": 3, "id": "session-a", "timestamp": TIME, "cwd": "/p"}
NATIVE_HEADER = {**HEADER, "type": "session_header", "version": 1}


class Counted(MemoryJournal):
    """A journal in memory that counts the lines read."""

    read_lines = 0

    def read_many(self, seqs: Any) -> list[bytes]:
        self.read_lines += len(seqs)
        return super().read_many(seqs)


def opened(entries: list[dict[str, Any]], header: dict[str, Any] | None = None) -> OpenSession:
    """Return the session of these entries; its journal is a `Counted`."""
    return opened_lines([json.dumps(line).encode() for line in (header or HEADER, *entries)])


def opened_lines(lines: list[bytes]) -> OpenSession:
    """Return the session of these lines, header first; its journal is a `Counted`."""
    indexer = indexer_of(lines)
    return OpenSession(
        "session-a",
        indexer.session,
        Counted(b"\n".join(lines)),
        indexer.dialect,
        indexer.header,
        indexer.intake,
        epoch="epoch-1",
        persist="never",
        place=None,
        created_at=TIME,
    )
