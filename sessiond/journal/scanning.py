"""The lines of a file from its beginning, read in large chunks; each line is visited once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, Reads
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.reader import LineReader
from sessiond.journal.splitter import Splitter, Visit, VisitLines, without_cr, without_end

# A chunk and its lines stay in the processor's cache until the lines are indexed.
_CHUNK_BYTES: Final = 256 * 1024
# A caller that asks for a few lines needs the header, and nearly every header is shorter than this.
_HEAD_BYTES: Final = 16 * 1024


def chunks_of(files: Reads, fd: int, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file between two offsets, or up to its end at the time of the read.

    Raises OSError.
    """
    at = start
    while end is None or at < end:
        chunk = files.pread(fd, _CHUNK_BYTES if end is None else min(_CHUNK_BYTES, end - at), at)
        if not chunk:
            return
        at += len(chunk)
        yield chunk


def same_beginning(files: Files, one: int, other: int, end: int) -> bool:
    """Return whether two files have equal bytes up to an offset; False if one is shorter."""
    pairs = zip_longest(chunks_of(files, one, 0, end), chunks_of(files, other, 0, end))
    return all(mine == theirs for mine, theirs in pairs)


def feed(splitter: Splitter, chunks: Iterable[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield each chunk with the lines that it completes. Stops at a first line that is too long.

    Such a line cannot be a header, so the lines behind it have no meaning.
    """
    for chunk in chunks:
        yield chunk, splitter.feed(chunk)
        if splitter.has_no_header:
            return


def index_lines(
    files: Files,
    reader: LineReader,
    visit: VisitLines,
    see: Callable[[bytes], None] | None = None,
    *,
    size: int | None = None,
) -> bytes:
    """Visit every whole line of the file, or of its first `size` bytes, and record their ends.

    Returns the tail. Reads up to the current size of the file. `see` gets every byte, in order.
    Raises OSError.
    """
    splitter = Splitter(reader.ends)
    end = check_regular(files, reader.fd)
    seq = 0
    for chunk, lines in feed(
        splitter, chunks_of(files, reader.fd, 0, end if size is None else min(size, end))
    ):
        if lines:
            visit(seq, lines)
            seq += len(lines)
        # A long line goes before the pieces of the next one come.
        lines.clear()
        reader.checksums.add(chunk)
        if see is not None:
            see(chunk)
    # The checksum covers whole lines only, not the tail.
    reader.checksums.cut(reader.ends[-1], reader.bytes_at)
    return splitter.rest()


def scan(files: Files, path: Path, visit: Visit, *, lines_max: int) -> bytes:
    """Visit the first lines of a file without locking the file.

    Returns the tail if the file has fewer than `lines_max` lines. Raises StorageError.
    """
    lines: list[bytes] = []
    splitter = Splitter(array("q", [0]))
    with telling("read", path):
        fd = open_regular(files, path)
        try:
            for _, found in feed(splitter, _growing_chunks(files, fd)):
                lines += found
                if len(lines) >= lines_max:
                    break
        finally:
            files.close(fd)
    for seq, line in enumerate(lines[:lines_max]):
        visit(seq, without_end(line))
    return splitter.rest() if len(lines) < lines_max else b""


def lines_from(
    files: Files, path: Path, at: int, *, half: bool = True
) -> Iterator[tuple[bytes, int]]:
    """Yield the lines from offset `at` on, each with the offset where the next line begins.

    A line begins at `at`. If the last line lacks its newline, the offset counts that newline; such a line is left
    out unless `half`.
    Raises StorageError.
    """
    ends = array("q", [0])
    splitter = Splitter(ends)
    size = at
    with telling("read", path):
        fd = open_regular(files, path)
        try:
            for chunk in chunks_of(files, fd, at, check_regular(files, fd)):
                size += len(chunk)
                lines = splitter.feed(chunk)
                for line, end in zip(lines, ends[1:], strict=True):
                    yield without_end(line), at + end
                del ends[1:]
        finally:
            files.close(fd)
    if half and (rest := splitter.rest()):
        yield without_cr(rest), size + 1


def _growing_chunks(files: Files, fd: int) -> Iterator[bytes]:
    """Yield the bytes of a file; the first chunk is small: often only the header is needed."""
    size = check_regular(files, fd)
    yield from chunks_of(files, fd, 0, min(_HEAD_BYTES, size))
    yield from chunks_of(files, fd, _HEAD_BYTES, size)
