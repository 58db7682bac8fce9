"""A file's lines from its beginning, in large reads, each given to a visitor once."""

from __future__ import annotations

import errno
import stat
from array import array
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

from sessiond.journal.failures import telling
from sessiond.journal.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.recovery import Splitter, Visit, split_whole, without_cr

__all__ = ["check_regular", "chunks_of", "index_lines", "lines_from", "same_beginning", "scan"]

_CHUNK_BYTES: Final = 1024 * 1024
# Who wants a few lines wants the header; nearly every one is shorter than this.
_HEAD_BYTES: Final = 16 * 1024


def check_regular(files: Files, fd: int) -> None:
    """Refuse what is no file: a folder, a pipe, a device."""
    mode = files.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def chunks_of(files: Files, fd: int, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """What a file holds between two offsets, or to where it ends when it is read."""
    at = start
    while end is None or at < end:
        chunk = files.pread(fd, _CHUNK_BYTES if end is None else min(_CHUNK_BYTES, end - at), at)
        if not chunk:
            return
        at += len(chunk)
        yield chunk


def same_beginning(files: Files, one: int, other: int, end: int) -> bool:
    """Whether two files hold the same up to an offset. Both have that many bytes, or it is not."""
    pairs = zip_longest(chunks_of(files, one, 0, end), chunks_of(files, other, 0, end))
    return all(mine == theirs for mine, theirs in pairs)


def index_lines(
    files: Files,
    reader: LineReader,
    visit: Visit,
    see: Callable[[bytes], None] | None = None,
    *,
    size: int | None = None,
) -> bytes:
    """Visit every whole line, or those of the first `size` bytes, and note where it ends.

    Gives the tail. `see` gets every byte, in order.
    """
    splitter = Splitter(reader.ends, visit)
    for chunk in chunks_of(files, reader.fd, 0, size):
        splitter.feed(chunk)
        if see is not None:
            see(chunk)
    return splitter.rest()


def scan(files: Files, path: Path, visit: Visit, *, lines_max: int) -> bytes:
    """Visit the first lines of a file that nobody needs to own.

    Gives the tail if there are fewer than `lines_max`. Raises StorageError.
    """
    with telling("read", path):
        fd = files.open_read(path)
        try:
            check_regular(files, fd)
            lines, rest = split_whole(_head(files, fd, lines_max))
        finally:
            files.close(fd)
    for seq, line in enumerate(lines[:lines_max]):
        visit(seq, without_cr(line))
    return rest if len(lines) < lines_max else b""


def lines_from(files: Files, path: Path, at: int) -> Iterator[tuple[bytes, int]]:
    """The lines from byte `at` on, where one begins, each with the byte where the next begins.

    The last one may lack its newline; the next would begin behind it. Raises StorageError.
    """
    lines: list[bytes] = []
    ends = array("q", [0])
    splitter = Splitter(ends, lambda _, line: lines.append(line))
    size = at
    with telling("read", path):
        fd = files.open_read(path)
        try:
            check_regular(files, fd)
            for chunk in chunks_of(files, fd, at):
                size += len(chunk)
                splitter.feed(chunk)
                for line, end in zip(lines, ends[1:], strict=True):
                    yield line, at + end
                lines.clear()
                del ends[1:]
        finally:
            files.close(fd)
    if rest := splitter.rest():
        yield without_cr(rest), size + 1


def _head(files: Files, fd: int, lines_max: int) -> bytes:
    """Enough bytes for so many lines, or all there are."""
    pieces: list[bytes] = []
    at = newlines = 0
    while newlines < lines_max:
        chunk = files.pread(fd, _CHUNK_BYTES if at else _HEAD_BYTES, at)
        if not chunk:
            break
        at += len(chunk)
        newlines += chunk.count(b"\n")
        pieces.append(chunk)
    return b"".join(pieces)
