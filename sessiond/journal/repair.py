"""Back to the last committed line after the disk refused, and bytes put aside.

Law: each function may stop anywhere with an OSError and be called again from
its beginning, on a new descriptor.
"""

from __future__ import annotations

import errno
from array import array
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from sessiond.journal.disk.descriptor import Descriptor, close_quietly
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.making import fill, remove_own
from sessiond.journal.profile.names import torn_end_name
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import chunks_of
from sessiond.limits import INTAKE_BYTES

__all__ = ["copy_aside", "cut_back", "keep_all", "read_some", "write_again"]

_CHUNK_BYTES: Final = 1024 * 1024


def cut_back(files: Files, reader: LineReader, out: Descriptor, durable: int) -> None:
    """Cut the file to its last committed line, and make what is left durable."""
    end = reader.file_end
    if out.size() != end:
        _check_not_shorter(out, end)
        out.truncate(end)
    write_again(files, reader, durable, end)
    out.sync()


def keep_all(
    files: Files, reader: LineReader, out: Descriptor, durable: int, closing: bytes
) -> None:
    """Make durable what lies behind the last committed line, whoever wrote it.

    Half a line, ours or another program's, is ended with `closing`, if that is anything.
    """
    end = reader.file_end
    _check_not_shorter(out, end)
    size = out.size()
    if closing and size > end and reader.bytes_at(size - 1, 1) != b"\n":
        out.write(closing)
        size = out.size()
    write_again(files, reader, durable, size)
    out.sync()


def copy_aside(files: Files, reader: LineReader, start: int, stamp: str) -> Path:
    """Everything from `start` on, durably, in a file beside this one."""
    fd, copy = _create_copy(files, reader.path, stamp)
    fill(files, fd, copy, chunks_of(files, reader.fd, start))
    try:
        files.fsync_folder(copy.parent)
    except OSError:
        remove_own(files, copy, fd)
        raise
    finally:
        close_quietly(files, fd)
    return copy


def _create_copy(files: Files, path: Path, stamp: str) -> tuple[int, Path]:
    for number in count(1):
        copy = torn_end_name(path, stamp, number)
        with suppress(FileExistsError):
            return files.create(copy), copy
    raise AssertionError("there is always another number")


def _check_not_shorter(out: Descriptor, end: int) -> None:
    # Cutting "back" would now fill the gap with zeros.
    if out.size() < end:
        raise OSError(errno.ESTALE, "it was shortened by another program")


def write_again(files: Files, reader: LineReader, start: int, end: int) -> int:
    """Give the kernel bytes that are to be durable, but may not be, once more; return their CRC-32.

    A failed sync may have marked their pages clean without storing them, and no later
    sync would look at them again, on whichever descriptor. Raises OSError.
    """
    at, checksum = start, 0
    while at < end:
        chunk = files.pread(reader.fd, min(_CHUNK_BYTES, end - at), at)
        if not chunk:
            raise OSError(errno.ESTALE, "it was shortened by another program")
        count = files.pwrite(reader.fd, chunk, at)
        checksum = crc32(chunk[:count], checksum)
        at += count
    return checksum


class Piece(NamedTuple):
    """Some of what stands behind the last known line.

    The lines end at `ends[1:]`; no newline stands between `ends[-1]` and `upto`. `is_all` says that
    nothing stood behind `upto`.
    """

    lines: list[bytes]
    ends: array[int]
    upto: int
    is_all: bool


def read_some(files: Files, reader: LineReader, start: int, searched: int) -> Piece:
    """Read whole lines from `start` on: about INTAKE_BYTES, or one longer line.

    No newline stands before `searched`, so half a line that grows is searched once. Raises OSError.
    """
    ends = array("q", [start])
    at = first = max(start, searched)
    is_all = True
    while chunk := files.pread(reader.fd, INTAKE_BYTES, at):
        newline = chunk.find(b"\n")
        while newline >= 0:
            ends.append(at + newline + 1)
            newline = chunk.find(b"\n", newline + 1)
        at += len(chunk)
        if len(ends) > 1 and at - first >= INTAKE_BYTES:
            is_all = False
            break
    return Piece(reader.lines_at(ends) if len(ends) > 1 else [], ends, at, is_all)
