"""Lists of lines that are read at once.

Law: a long answer does not hold a long file; no list is longer than a replay's chunk by more than
one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sessiond.journal.store import SessionLog
from sessiond.limits import REPLAY_CHUNK_BYTES

__all__ = ["chunks"]


def chunks(journal: SessionLog, seqs: Iterable[int]) -> Iterator[list[int]]:
    """Yield lists of lines to read at once, in the order of `seqs`."""
    chunk: list[int] = []
    size = 0
    for seq in seqs:
        chunk.append(seq)
        size += journal.line_bytes(seq)
        if size >= REPLAY_CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
