"""Lists of lines that are read or written at once.

Law: a long answer does not hold a long file; no list is longer than a replay's chunk by more than
one line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from sessiond.errors import TooLarge
from sessiond.limits import LINE_BYTES_MAX, REPLAY_CHUNK_BYTES


class StoredLines(Protocol):
    """Lines by their ordinals: a `SessionLog`, or the `LineReader` of a spool."""

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """Return the lines at these ordinals, in this order. Raises StorageError."""
        ...

    def line_bytes(self, seq: int) -> int:
        """Return the size of one line, without a newline."""
        ...


def line_is_too_long(size: int) -> TooLarge:
    """Return the refusal of a copy one of whose lines would have so many bytes."""
    text = "a line of the copy would exceed the limit of a line; nothing was copied"
    return TooLarge(text, limit=LINE_BYTES_MAX, size=size)


def emptied(lines: list[bytes]) -> Iterator[bytes]:
    """Yield the lines of a list, which is empty then: a long line goes before the next one comes."""
    left = deque(lines)
    lines.clear()
    while left:
        yield left.popleft()


def lists_of(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines in lists to write at once."""
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        # A long line goes before the next one comes.
        del line
        if size >= REPLAY_CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def chunks(journal: StoredLines, seqs: Iterable[int]) -> Iterator[list[int]]:
    """Yield lists of lines to read at once, in the order of `seqs`."""
    chunk: list[int] = []
    size = 0
    for seq in seqs:
        line_bytes = journal.line_bytes(seq)
        if chunk and line_bytes >= REPLAY_CHUNK_BYTES:
            # A long line is read alone, and so without a second copy of its bytes.
            yield chunk
            chunk, size = [], 0
        chunk.append(seq)
        size += line_bytes
        if size >= REPLAY_CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
